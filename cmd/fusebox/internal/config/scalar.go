package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Fraction is a number from 0 to 1, written as 0.5 or 50%.
type Fraction float64

// Share is a Fraction that may be 0: 0%, 0.5 or 50%.
type Share float64

// Rate is a positive number of things a second.
type Rate float64

// Size is a number of bytes, written with a unit.
type Size int64

// Secret is a string that is not shown. String hides it from logs.
type Secret string

// String returns "(secret)", or "" for an empty one; string(s) is the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// MarshalText returns what String does, for logs and JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Address is where to listen: host:port, or unix:/path; empty: nowhere.
type Address string

// Network returns what [net.Listen] takes: "tcp" and host:port, or "unix" and the path.
func (a Address) Network() (network, address string) {
	if path, ok := strings.CutPrefix(string(a), "unix:"); ok {
		return "unix", path
	}
	return "tcp", string(a)
}

// Loopback reports whether only this machine can reach the address.
func (a Address) Loopback() bool {
	network, address := a.Network()
	if network == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Host is a host name without a port, in small letters.
type Host string

// Endpoint is the URL of a server.
type Endpoint string

// URL returns it parsed.
func (e Endpoint) URL() *url.URL {
	u, err := url.Parse(string(e))
	if err != nil {
		return new(url.URL) // not one that has been checked
	}
	return u
}

// Statuses is a span of HTTP statuses: 503, 5xx, 500-504.
type Statuses struct{ First, Last int }

// String returns it as a file has it.
func (s Statuses) String() string {
	switch {
	case s.First == s.Last:
		return strconv.Itoa(s.First)
	case s.First%100 == 0 && s.Last == s.First+99:
		return strconv.Itoa(s.First/100) + "xx"
	}
	return fmt.Sprintf("%d-%d", s.First, s.Last)
}

// Has reports whether the status is in the span.
func (s Statuses) Has(status int) bool { return s.First <= status && status <= s.Last }

// The kinds of scalar a field can take in a file, as YAML sees them.
const (
	isString = 1 << iota
	isInteger
	isFloat
	isBool
)

// scalar is a type of value in the file.
type scalar struct {
	kinds int    // what it may be in YAML
	rule  string // what it must be, after "must be"
	parse func(text string) (any, error)
}

// least is the smallest Fraction and Rate: less is a mistake, and is not
// written without an exponent.
const least = 1e-9

// domain is the pattern of a host name.
const domain = `[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*`

var (
	errRule = errors.New("the rule says it all")

	integerText  = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})$`)
	floatText    = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,40})?$`)
	percentText  = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,40})?%$`)
	zeroText     = regexp.MustCompile(`^0+(ns|us|µs|μs|ms|s|m|h)$`)
	sizeText     = regexp.MustCompile(`^([1-9][0-9]{0,17})(B|kB|MB|GB|KiB|MiB|GiB)$`)
	statusText   = regexp.MustCompile(`^[1-5](xx|[0-9][0-9](-[1-5][0-9][0-9])?)$`)
	endpointText = regexp.MustCompile(`^(http|https|h2c)://`)
	nameText     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	headerText   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	hostText     = regexp.MustCompile(`^(\*\.)?` + domain + `$|^\[[0-9a-f:.]+\]$`)
	domainText   = regexp.MustCompile(`^` + domain + `$`)
	sizeUnits    = map[string]int64{"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

	// scalars has every type of value a file can hold.
	scalars = map[reflect.Type]scalar{
		reflect.TypeFor[string]():        {isString, "a string: quote it", func(s string) (any, error) { return s, nil }},
		reflect.TypeFor[Secret]():        {isString, "a string of at least 16 printable characters without spaces", parseSecret},
		reflect.TypeFor[Scope]():         {isString, "one of the words", func(s string) (any, error) { return Scope(s), nil }},
		reflect.TypeFor[WhenAllOpen]():   {isString, "one of the words", func(s string) (any, error) { return WhenAllOpen(s), nil }},
		reflect.TypeFor[fusebox.Mode]():  {isString, "one of the words", parseMode},
		reflect.TypeFor[bool]():          {isBool, "true or false", parseBool},
		reflect.TypeFor[int]():           {isInteger, "a whole number", parseInt},
		reflect.TypeFor[Fraction]():      {isString | isInteger | isFloat, "a fraction: write 50% or 0.5 for a half", parseFraction},
		reflect.TypeFor[Share]():         {isString | isInteger | isFloat, "a fraction: write 50% or 0.5 for a half", parseShare},
		reflect.TypeFor[Rate]():          {isInteger | isFloat, "a positive number", parseRate},
		reflect.TypeFor[time.Duration](): {isString, "a positive duration with a unit: 250ms, 10s, 1m30s", parseDuration},
		reflect.TypeFor[Size]():          {isString, "a size with a unit: 64KiB, 1MB", parseSize},
		reflect.TypeFor[Statuses]():      {isString | isInteger, "a status from 100 to 599: 503, 5xx or 500-504", parseStatuses},
		reflect.TypeFor[Address]():       {isString, "host:port with a port from 0 to 65535, or unix:/path", parseAddress},
		reflect.TypeFor[Host]():          {isString, "a host name in small letters, without a port: fusebox.internal", parseHost},
		reflect.TypeFor[Endpoint]():      {isString, "a URL of http, https or h2c with a host: http://localhost:9000", parseEndpoint},
	}
)

func parseSecret(s string) (any, error) {
	if len(s) < 16 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errRule
	}
	return Secret(s), nil
}

func parseMode(s string) (any, error) {
	var m fusebox.Mode
	if err := m.UnmarshalText([]byte(s)); err != nil {
		return nil, errRule
	}
	return m, nil
}

func parseBool(s string) (any, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return nil, errRule
}

func parseInt(s string) (any, error) {
	n, err := strconv.Atoi(s)
	if err != nil || !integerText.MatchString(s) {
		return nil, errRule
	}
	return n, nil
}

func parseFraction(s string) (any, error) {
	var f float64
	var err error
	switch {
	case percentText.MatchString(s):
		f, err = strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
		f /= 100
	case floatText.MatchString(s):
		f, err = strconv.ParseFloat(s, 64)
	default:
		return nil, errRule
	}
	switch {
	case err != nil:
		return nil, errRule
	case f > 1 && !strings.HasSuffix(s, "%") && f <= 100:
		return nil, fmt.Errorf("must be a fraction up to 1: write %s%% or %s", s, strconv.FormatFloat(f/100, 'f', -1, 64))
	case f > 1:
		return nil, errors.New("must be at most 100%, which is 1")
	case f < least:
		return nil, errors.New("must be above 0")
	}
	return Fraction(f), nil
}

func parseShare(s string) (any, error) {
	if number := strings.TrimSuffix(s, "%"); floatText.MatchString(number) && strings.Trim(number, "0.") == "" {
		return Share(0), nil
	}
	f, err := parseFraction(s)
	if err != nil {
		return nil, err
	}
	return Share(f.(Fraction)), nil
}

func parseRate(s string) (any, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !floatText.MatchString(s) || f < least {
		return nil, errRule
	}
	return Rate(f), nil
}

func parseDuration(s string) (any, error) {
	d, err := time.ParseDuration(s)
	if err != nil && floatText.MatchString(s) && s != "0" {
		return nil, fmt.Errorf("must have a unit: %ss is seconds, %sms milliseconds", s, s)
	}
	if err != nil || d <= 0 {
		return nil, errRule
	}
	return d, nil
}

func parseSize(s string) (any, error) {
	if m := sizeText.FindStringSubmatch(s); m != nil {
		n, err := strconv.ParseInt(m[1], 10, 64)
		if unit := sizeUnits[m[2]]; err == nil && n <= math.MaxInt64/unit {
			return Size(n * unit), nil
		}
	}
	if integerText.MatchString(s) && s[0] != '-' {
		return nil, fmt.Errorf("must have a unit: %sB is bytes, %sKiB 1024 of them", s, s)
	}
	return nil, errRule
}

func parseStatuses(s string) (any, error) {
	if !statusText.MatchString(s) {
		return nil, errRule
	}
	if s[1:] == "xx" {
		first := int(s[0]-'0') * 100
		return Statuses{first, first + 99}, nil
	}
	first, _ := strconv.Atoi(s[:3])
	last, _ := strconv.Atoi(s[len(s)-3:])
	if last < first {
		return nil, errors.New("must begin with the lower status")
	}
	return Statuses{first, last}, nil
}

func parseAddress(s string) (any, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if !strings.HasPrefix(path, "/") || strings.ContainsRune(path, 0) {
			return nil, errRule
		}
		return Address(s), nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || !portOK(port) || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
		return nil, errRule
	}
	return Address(s), nil
}

func parseHost(s string) (any, error) {
	if !domainText.MatchString(s) {
		return nil, errRule
	}
	return Host(s), nil
}

func portOK(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil && integerText.MatchString(port)
}

func parseEndpoint(s string) (any, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || !endpointText.MatchString(s):
		return nil, errRule
	case u.Port() == "0" || u.Port() == "" && strings.HasSuffix(u.Host, ":") || u.Port() != "" && !portOK(u.Port()):
		return nil, errors.New("must have a port from 1 to 65535, or none")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		return nil, errors.New("must not have a query or fragment")
	}
	return Endpoint(s), nil
}

// text returns a value as a file has it.
func text(v reflect.Value, f field) string {
	if f.off && (v.CanInt() && v.Int() < 0 || v.CanFloat() && v.Float() < 0 || v.Kind() == reflect.String && v.Len() == 0) {
		return "off"
	}
	switch x := v.Interface().(type) {
	case Secret:
		return string(x)
	case Fraction:
		return strconv.FormatFloat(float64(x), 'f', -1, 64)
	case Rate:
		return strconv.FormatFloat(float64(x), 'f', -1, 64)
	case Size:
		return x.String()
	case encoding.TextMarshaler:
		b, _ := x.MarshalText() // a Mode, one of the three
		return string(b)
	default:
		return fmt.Sprint(x)
	}
}

// String returns the size in the largest unit of which it is a multiple.
func (s Size) String() string {
	for _, unit := range []string{"GiB", "MiB", "KiB"} {
		if s != 0 && int64(s)%sizeUnits[unit] == 0 {
			return strconv.FormatInt(int64(s)/sizeUnits[unit], 10) + unit
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
