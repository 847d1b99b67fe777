package report

import (
	"bytes"
	"encoding/json"
	"io"
	"time"
)

// WriteJSON writes the report, or an array of them if there are not exactly
// one. Rows are objects by the columns' keys; a duration's key ends with its
// unit (at_ms), a share is a fraction, a cell without a value null.
func WriteJSON(w io.Writer, reports ...*Report) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if len(reports) == 1 {
		return e.Encode(reports[0])
	}
	if reports == nil {
		reports = []*Report{}
	}
	return e.Encode(reports)
}

// MarshalJSON implements json.Marshaler.
func (r *Report) MarshalJSON() ([]byte, error) {
	return marshal(struct {
		Name       string   `json:"name"`
		Title      string   `json:"title"`
		Seed       uint64   `json:"seed"`
		Versions   []Named  `json:"versions"`
		Parameters []Named  `json:"parameters"`
		Tables     []*Table `json:"tables"`
		Checks     []Check  `json:"checks"`
	}{r.Name, r.Title, r.Seed, some(r.Versions), some(r.Parameters), some(r.Tables), some(r.Checks)})
}

// some returns s, or an empty slice where it is nil: a list is never null.
func some[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// MarshalJSON implements json.Marshaler.
func (t *Table) MarshalJSON() ([]byte, error) {
	rows := make([]json.RawMessage, len(t.Rows))
	for i, cells := range t.Rows {
		var b bytes.Buffer
		for j, c := range t.Columns {
			b.WriteByte("{,"[min(j, 1)])
			key, _ := marshal(c.jsonKey())
			value, err := marshal(c.json(cells[j]))
			if err != nil {
				return nil, err
			}
			b.Write(key)
			b.WriteByte(':')
			b.Write(value)
		}
		b.WriteByte('}')
		rows[i] = b.Bytes()
	}
	return marshal(struct {
		Name    string            `json:"name"`
		Title   string            `json:"title"`
		Teaches string            `json:"teaches"`
		Rows    []json.RawMessage `json:"rows"`
	}{t.Name, t.Title, t.Lesson(), rows})
}

// json returns a cell as JSON has it.
func (c Column) json(cell any) any {
	if _, ok := cell.(time.Duration); ok {
		return c.number(cell)
	}
	return cell
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
