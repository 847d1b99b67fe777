package fuseboxadmin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fusebox-go/fusebox"
)

const (
	maxBody   = 64 << 10 // bytes
	maxReason = 1000     // characters: a record lives as long as the breaker's history
	maxBy     = 200
)

// fieldsOf are the fields that the body of an action may have.
func fieldsOf(action string) []string {
	if action == actionOverride {
		return []string{"mode", "reason", "by", "ttl"}
	}
	return []string{"reason", "by"}
}

// readChange reads the body of a request into its record, and returns the mode
// it asks for.
func readChange(w http.ResponseWriter, r *http.Request, record *AuditRecord) (mode fusebox.Mode, _ *APIError) {
	fields, err := readBody(w, r, fieldsOf(record.Action))
	if err != nil {
		return 0, err
	}
	record.Mode, record.Reason, record.By = fields["mode"], fields["reason"], fields["by"]
	for field, longest := range map[string]int{"reason": maxReason, "by": maxBy} {
		if n := utf8.RuneCountInString(fields[field]); n > longest {
			record.Reason, record.By = "", ""
			return 0, invalid(field, fields[field], fmt.Sprintf("must be at most %d characters, not %d", longest, n))
		}
	}
	if record.Action != actionOverride {
		return 0, nil
	}
	if mode.UnmarshalText([]byte(record.Mode)) != nil {
		return 0, invalid("mode", record.Mode, "must be force-open, force-closed, shadow, enforce or off")
	}
	if text, given := fields["ttl"]; given {
		ttl, err := time.ParseDuration(text)
		if err != nil || ttl < time.Second { // a shorter one is over before it is in effect
			return 0, invalid("ttl", text, `must be a Go duration of at least 1s, such as "15m"; leave it out to hold until lifted`)
		}
		record.TTL = Duration(ttl)
	}
	return mode, nil
}

// readBody returns the fields of a body: a JSON object of texts, or nothing,
// which is like one without fields. Where encoding/json would overlook
// something (another case, a field twice, null) this does not.
func readBody(w http.ResponseWriter, r *http.Request, known []string) (map[string]string, *APIError) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
		return nil, refusal(http.StatusRequestEntityTooLarge, "the body must be at most %d bytes", maxBody)
	} else if err != nil {
		return nil, refusal(http.StatusBadRequest, "the body cannot be read: %v", err)
	}
	if len(text) == 0 {
		return nil, nil
	}
	given := r.Header.Get("Content-Type")
	if kind, params, err := mime.ParseMediaType(given); err != nil || kind != "application/json" ||
		params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return nil, refusal(http.StatusUnsupportedMediaType, "the Content-Type is %q, must be application/json", given)
	}
	if !utf8.Valid(text) {
		return nil, refusal(http.StatusBadRequest, "the body is not UTF-8")
	}
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		at := int64(0)
		if e := new(json.SyntaxError); errors.As(err, &e) {
			at = e.Offset
		}
		return nil, refusal(http.StatusBadRequest, "the body is not one JSON value: %v, at byte %d", err, at)
	}
	d := json.NewDecoder(bytes.NewReader(text)) // of what is valid: no error but the end
	d.UseNumber()
	if start, _ := d.Token(); start != json.Delim('{') {
		return nil, refusal(http.StatusBadRequest, "the body must be a JSON object")
	}
	fields := map[string]string{}
	for d.More() {
		name, _ := d.Token()
		var raw json.RawMessage
		_ = d.Decode(&raw)
		field := name.(string)
		if !slices.Contains(known, field) {
			return nil, invalid(field, string(raw), "is no field here, but "+strings.Join(known, ", "))
		}
		if _, twice := fields[field]; twice {
			return nil, invalid(field, string(raw), "must be there once")
		}
		if raw[0] != '"' {
			return nil, invalid(field, string(raw), "must be a text in quotation marks")
		}
		var value string
		_ = json.Unmarshal(raw, &value)
		fields[field] = value
	}
	return fields, nil
}
