package fuseboxhttp

import (
	"net/http"
	"strconv"

	"github.com/fusebox-go/fusebox"
)

// Classify is the judgement of a response by a Transport that names none: a
// status of 5xx except 501, and 429, is a failure; anything else is an answer,
// 404 and 401 too: the dependency is alive.
func Classify(resp *http.Response) fusebox.Outcome {
	if failed(resp.StatusCode) {
		return fusebox.Failure
	}
	return fusebox.Success
}

// failed reports whether a status shows whoever sent it unwell. One that does
// not exist, such as 600, is to be taken as a 5xx (RFC 9110, 15).
func failed(status int) bool {
	return status >= 500 && status != http.StatusNotImplemented || status == http.StatusTooManyRequests
}

// StatusError is what a failing status looks like to the breaker of a
// [Transport] or a [Handler] (its Config.Classify is asked about it, and its
// records name it as the last error) and to the retry policy of a Transport.
// The caller of RoundTrip gets the response instead, unless the attempt was to
// be followed by another that could not be made: the error then wraps a
// StatusError.
type StatusError struct {
	StatusCode int // of the response: 503
}

// Error returns the status with its name: "503 Service Unavailable".
func (e *StatusError) Error() string {
	text := strconv.Itoa(e.StatusCode)
	if name := http.StatusText(e.StatusCode); name != "" {
		text += " " + name
	}
	return text
}
