package retry

import (
	"math"
	"strings"
	"time"
)

// ParseAfter reads a Retry-After header (RFC 9110, 10.2.3): a number of seconds
// or a date, of which now is taken. values are the values of the header; the
// first that is valid decides, and ok reports whether there is one. A date that
// has passed is 0; a number too large for a Duration is the largest one. Signs,
// fractions and anything else are not valid.
func ParseAfter(values []string, now time.Time) (d time.Duration, ok bool) {
	for _, v := range values {
		v = strings.TrimSpace(v)
		if d, ok := parseSeconds(v); ok {
			return d, true
		}
		for _, layout := range []string{dateIMF, dateRFC850, dateAsctime} {
			if at, err := time.Parse(layout, v); err == nil {
				return max(at.Sub(now), 0), true
			}
		}
	}
	return 0, false
}

// The three forms of a date in HTTP (RFC 9110, 5.6.7), all in GMT.
const (
	dateIMF     = "Mon, 02 Jan 2006 15:04:05 GMT"
	dateRFC850  = "Monday, 02-Jan-06 15:04:05 GMT"
	dateAsctime = time.ANSIC
)

func parseSeconds(v string) (d time.Duration, ok bool) {
	const most = math.MaxInt64 / int64(time.Second)
	n := int64(0)
	for _, c := range []byte(v) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n <= most { // else it is too large already
			n = n*10 + int64(c-'0')
		}
	}
	if n > most {
		return math.MaxInt64, true
	}
	return time.Duration(n) * time.Second, v != ""
}
