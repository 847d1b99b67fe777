package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestErrorsNamePlaceValueAndRule(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a percentage without its sign", in("    breaker:\n      failure-rate: 50"), `
f:5:21: upstreams.a.breaker.failure-rate is 50, must be a fraction up to 1: write 50% or 0.5
    5 |       failure-rate: 50
      |                     ^`},
		{"more than everything", in("    breaker: {failure-rate: 101%}"), `
f:4:29: upstreams.a.breaker.failure-rate is "101%", must be at most 100%, which is 1
    4 |     breaker: {failure-rate: 101%}
      |                             ^`},
		{"a fraction of nothing", in("    retry: {budget-share: 0.0}"), `
f:4:27: upstreams.a.retry.budget-share is 0.0, must be above 0
    4 |     retry: {budget-share: 0.0}
      |                           ^`},
		{"a fraction in words", in("    breaker: {failure-rate: half}"), `
f:4:29: upstreams.a.breaker.failure-rate is "half", must be a fraction: write 50% or 0.5 for a half, or off
    4 |     breaker: {failure-rate: half}
      |                             ^`},
		{"a duration without a unit", in("    timeouts: {total: 5}"), `
f:4:23: upstreams.a.timeouts.total is 5, must have a unit: 5s is seconds, 5ms milliseconds
    4 |     timeouts: {total: 5}
      |                       ^`},
		{"a negative duration", in("    breaker: {open-for: -1s}"), `
f:4:25: upstreams.a.breaker.open-for is "-1s", must be a positive duration with a unit: 250ms, 10s, 1m30s
    4 |     breaker: {open-for: -1s}
      |                         ^`},
		{"a size without a unit", in("    retry: {max-body: 100}"), `
f:4:23: upstreams.a.retry.max-body is 100, must have a unit: 100B is bytes, 100KiB 1024 of them
    4 |     retry: {max-body: 100}
      |                       ^`},
		{"a size out of bounds", in("    retry: {max-body: 65MiB}"), `
f:4:23: upstreams.a.retry.max-body is "65MiB", must be a size with a unit: 64KiB, 1MB of at most 64MiB, or off
    4 |     retry: {max-body: 65MiB}
      |                       ^`},
		{"a number in quotes", in("    retry: {attempts: \"3\"}"), `
f:4:23: upstreams.a.retry.attempts is "3", must be a whole number of at least 1
    4 |     retry: {attempts: "3"}
      |                       ^`},
		{"a number of another base", in("    bulkhead: {limit: 0x10}"), `
f:4:23: upstreams.a.bulkhead.limit is 0x10, must be a whole number of at least 1
    4 |     bulkhead: {limit: 0x10}
      |                       ^`},
		{"a word that is none of them", in("    breaker: {mode: force-open}"), `
f:4:21: upstreams.a.breaker.mode is "force-open", must be enforce, shadow or off
    4 |     breaker: {mode: force-open}
      |                     ^`},
		{"C158: a word that is none of them", in("    breaker: {scope: endpoint}\n    ejection: {when-all-open: panic}"), `
f:5:31: upstreams.a.ejection.when-all-open is "panic", must be fail, spread or least-bad
    5 |     ejection: {when-all-open: panic}
      |                               ^`},
		{"a number for a text", in("    fallback: {body: 5}"), `
f:4:22: upstreams.a.fallback.body is 5, must be a string: quote it
    4 |     fallback: {body: 5}
      |                      ^`},
		{"an empty text", in("routes: [{upstream: a, host: ''}]"), `
f:4:30: routes[0].host is "", must be text that is not empty
    4 | routes: [{upstream: a, host: ''}]
      |                              ^`},
		{"yes", in("    breaker: {scope: endpoint}\n    ejection: {always-one: yes}"), `
f:5:28: upstreams.a.ejection.always-one is "yes", must be true or false
    5 |     ejection: {always-one: yes}
      |                            ^`},
		{"an unknown key", in("    bulkhead: {limits: 5}"), `
f:4:16: upstreams.a.bulkhead.limits is not a key here; known are limit, max-wait, max-waiting
    4 |     bulkhead: {limits: 5}
      |                ^`},
		{"a key of another spelling", in("    bulkhead: {max_wait: 5s}"), `
f:4:16: upstreams.a.bulkhead.max_wait is not a key here; it is spelt max-wait
    4 |     bulkhead: {max_wait: 5s}
      |                ^`},
		{"a key given twice", in("    bulkhead: {limit: 5}\n    bulkhead: {limit: 6}"), `
f:5:5: upstreams.a.bulkhead is given twice, first in line 4
    5 |     bulkhead: {limit: 6}
      |     ^`},
		{"a name given twice", in("  a: {endpoints: [http://b]}"), `
f:4:3: upstreams.a is given twice, first in line 2
    4 |   a: {endpoints: [http://b]}
      |   ^`},
		{"a key with a space", in("? \"a b\"\n: 1\n"), `
f:4:3: "a b" is not a key here; known are listen, admin, logging, shutdown, upstreams, routes
    4 | ? "a b"
      |   ^`},
		{"a bad name", in("  B_: {endpoints: [http://b]}"), `
f:4:3: upstreams.B_ is no name for an upstream, must be small letters, digits and hyphens between them, at most 63
    4 |   B_: {endpoints: [http://b]}
      |   ^`},
		{"an empty section", in("admin:"), `
f:4:1: admin is empty: remove the key, or write {} for the defaults
    4 | admin:
      | ^`},
		{"a word for a section", in("    retry: off"), `
f:4:12: upstreams.a.retry is "off", must be a mapping of keys to values
    4 |     retry: off
      |            ^`},
		{"a value for a list", "upstreams: {a: {endpoints: http://a}}", `
f:1:28: upstreams.a.endpoints is "http://a", must be a list
    1 | upstreams: {a: {endpoints: http://a}}
      |                            ^`},
		{"a list for a value", in("listen: [a]"), `
f:4:9: listen is a list, must be host:port with a port from 0 to 65535, or unix:/path
    4 | listen: [a]
      |         ^`},
		{"a password in a URL", "upstreams: {a: {endpoints: ['http://u:p@a']}}", `
f:1:29: upstreams.a.endpoints[0] is "http://…@a", must not hold a user or password
    1 | upstreams: {a: {endpoints: ['http://…@a']}}
      |                             ^`},
		{"an endpoint given twice", "upstreams: {a: {endpoints: [http://a, http://a]}}", `
f:1:39: upstreams.a.endpoints[1] is "http://a", which is given twice
    1 | upstreams: {a: {endpoints: [http://a, http://a]}}
      |                                       ^`},
		{"no endpoint", "upstreams:\n  a: {}", `
f:2:3: upstreams.a.endpoints is missing
    2 |   a: {}
      |   ^`},
		{"a port too large", in("listen: :70000"), `
f:4:9: listen is ":70000", must be host:port with a port from 0 to 65535, or unix:/path
    4 | listen: :70000
      |         ^`},
		{"one address for two", in("listen: 127.0.0.1:9901"), `
f:4:9: admin.listen is "127.0.0.1:9901", must not be that of the proxy
    4 | listen: 127.0.0.1:9901
      |         ^`},
		{"statuses the wrong way round", in("    failure: {statuses: [504-500]}"), `
f:4:26: upstreams.a.failure.statuses[0] is "504-500", must begin with the lower status
    4 |     failure: {statuses: [504-500]}
      |                          ^`},

		// Contradictions, some of which the policies find.
		{"more calls than the window has", in("    breaker: {window-calls: 5, min-calls: 6}"), `
f:4:43: upstreams.a.breaker.min-calls is 6, must be at most window-calls (5), or no rate rule ever trips
    4 |     breaker: {window-calls: 5, min-calls: 6}
      |                                           ^`},
		{"a maximum below the default", in("    breaker: {open-for-max: 500ms}"), `
f:4:29: upstreams.a.breaker.open-for-max is 500ms, must be at least open-for (1s)
    4 |     breaker: {open-for-max: 500ms}
      |                             ^`},
		{"a window too short", in("    breaker: {window: 5ns}"), `
f:4:23: upstreams.a.breaker.window is 5ns, must be at least a nanosecond for each of buckets (10)
    4 |     breaker: {window: 5ns}
      |                       ^`},
		{"a slow rate for nothing", in("    breaker: {slow-rate: 50%}"), `
f:4:26: upstreams.a.breaker.slow-rate is set, but no answer is slow without slow-after
    4 |     breaker: {slow-rate: 50%}
      |                          ^`},
		{"waiting without a wait", in("    bulkhead: {max-waiting: 5}"), `
f:4:29: upstreams.a.bulkhead.max-waiting is 5, must be 0 without max-wait: no call waits
    4 |     bulkhead: {max-waiting: 5}
      |                             ^`},
		{"a limit that is too high", in("    bulkhead: {limit: 4294967296}"), `
f:4:23: upstreams.a.bulkhead.limit is 4294967296, must be from 1 to 2147483647 (0: the default of 25)
    4 |     bulkhead: {limit: 4294967296}
      |                       ^`},
		{"delays the wrong way round", in("    retry: {base-delay: 2s, max-delay: 1s}"), `
f:4:40: upstreams.a.retry.max-delay is 1s, must be at least base-delay (2s)
    4 |     retry: {base-delay: 2s, max-delay: 1s}
      |                                        ^`},
		{"a budget that never gives", in("    retry: {budget-per-second: 0.05}"), `
f:4:32: upstreams.a.retry.budget-per-second is 0.05, must be at least one in budget-window (10s)
    4 |     retry: {budget-per-second: 0.05}
      |                                ^`},
		{"no budget at all", in("    retry: {budget-per-second: off, budget-share: off}"), `
f:4:51: upstreams.a.retry.budget-share is off and budget-per-second too: there would be no retry
    4 |     retry: {budget-per-second: off, budget-share: off}
      |                                                   ^`},
		{"a try longer than all of them", in("    timeouts: {total: 1s, per-try: 2s}"), `
f:4:36: upstreams.a.timeouts.per-try is 2s, must be at most total (1s)
    4 |     timeouts: {total: 1s, per-try: 2s}
      |                                    ^`},
		{"ejection with one breaker", in("    ejection: {}"), `
f:4:5: upstreams.a.ejection is set, but breaker.scope is upstream: all endpoints have one breaker
    4 |     ejection: {}
      |     ^`},
		{"an empty fallback", in("    fallback: {}"), `
f:4:5: upstreams.a.fallback is empty, must have status, body, file, upstream or last-good
    4 |     fallback: {}
      |     ^`},
		{"two fallbacks", in("    fallback: {body: x, file: schema.json}"), `
f:4:31: upstreams.a.fallback has body and file, must have one of them
    4 |     fallback: {body: x, file: schema.json}
      |                               ^`},
		{"a header of two lines", in(`    fallback: {headers: {A: "b\nc"}}`), `
f:4:29: upstreams.a.fallback.headers.A has a control character, must be one line of text
    4 |     fallback: {headers: {A: "b\nc"}}
      |                             ^`},
		{"a fallback that is no upstream", in("    fallback: {upstream: b}"), `
f:4:26: upstreams.a.fallback.upstream is "b", which is not an upstream; known are a
    4 |     fallback: {upstream: b}
      |                          ^`},
		{"a fallback to itself", in("    fallback: {upstream: a}"), `
f:4:26: upstreams.a.fallback.upstream is "a", which closes a cycle: a to a
    4 |     fallback: {upstream: a}
      |                          ^`},
		{"a cycle", in("    fallback: {upstream: b}\n  b: {endpoints: [http://b], fallback: {upstream: c}}\n  c: {endpoints: [http://c], fallback: {upstream: b}}\nroutes: [{upstream: a}]"), `
f:6:51: upstreams.c.fallback.upstream is "b", which closes a cycle: b to c to b
    6 |   c: {endpoints: [http://c], fallback: {upstream: b}}
      |                                                   ^`},
		{"a route to nowhere", in("routes: [{upstream: b}]"), `
f:4:21: routes[0].upstream is "b", which is not an upstream; known are a
    4 | routes: [{upstream: b}]
      |                     ^`},
		{"two routes of a prefix", in("routes:\n  - {upstream: a, prefix: /x}\n  - {upstream: a, prefix: /x/}"), `
f:6:6: routes[1] has the host and prefix of routes[0]
    6 |   - {upstream: a, prefix: /x/}
      |      ^`},
		{"no route for two", in("  b: {endpoints: [http://b]}"), `
f:1:1: routes is missing, must name an upstream for each path, since there are several
    1 | upstreams:
      | ^`},
		{"a host with a port", in("routes: [{upstream: a, host: 'x:80'}]"), `
f:4:30: routes[0].host is "x:80", must be a host in small letters without a port, or *. and one
    4 | routes: [{upstream: a, host: 'x:80'}]
      |                              ^`},
		{"a prefix that is none", in("routes: [{upstream: a, prefix: x}]"), `
f:4:32: routes[0].prefix is "x", must be a path that begins with / and has no query
    4 | routes: [{upstream: a, prefix: x}]
      |                                ^`},

		// Substitution.
		{"a variable that is not set", in("listen: ${NOPE}"), `
f:4:9: listen needs the variable NOPE, which is not set
    4 | listen: ${NOPE}
      |         ^`},
		{"a variable with a wrong value", in("    timeouts: {total: '${FIVE}'}"), `
f:4:23: upstreams.a.timeouts.total is "5", must have a unit: 5s is seconds, 5ms milliseconds
    4 |     timeouts: {total: '${FIVE}'}
      |                       ^`},
		{"a file that is not there", in("listen: ${file:/does/not/exist}"), `
f:4:9: listen needs the file of ${file:/does/not/exist}: stat /does/not/exist: no such file or directory
    4 | listen: ${file:/does/not/exist}
      |         ^`},
		{"a device", in("listen: ${file:/dev/zero}"), `
f:4:9: listen needs the file of ${file:/dev/zero}: /dev/zero is not a regular file
    4 | listen: ${file:/dev/zero}
      |         ^`},
		{"no end", in("listen: ${HOME"), `
f:4:9: listen has "${HOME" without its }; write $${ for ${
    4 | listen: ${HOME
      |         ^`},
		{"a default, as a shell has it", in("listen: '${A:-x}'"), `
f:4:9: listen has "${A:-x}", must be ${VAR} or ${file:PATH}; write $${ for ${
    4 | listen: '${A:-x}'
      |         ^`},
		{"a short token is not shown", in("admin: {token: hunter2}"), `
f:4:16: admin.token is (secret), must be a string of at least 16 printable characters without spaces`},
		{"a token that is a number is not shown", in("admin: {token: 12345678901234567890}"), `
f:4:16: admin.token is (secret), must be a string of at least 16 printable characters without spaces`},
		{"a fallback file that is not there", in("    fallback: {file: /does/not/exist}"), `
f:4:22: upstreams.a.fallback.file is "/does/not/exist", must be a file that exists
    4 |     fallback: {file: /does/not/exist}
      |                      ^`},

		// Files that are none.
		{"empty", "", `
f:1:1: the file is empty; it must have upstreams`},
		{"comments only", "# nothing\n", `
f:1:1: the file is empty; it must have upstreams
    1 | # nothing
      | ^`},
		{"no upstreams", "listen: :80", `
f:1:1: upstreams has none, must have at least one
    1 | listen: :80
      | ^`},
		{"a list", "[]", `
f:1:1: is a list, must be a mapping of keys to values
    1 | []
      | ^`},
		{"binary", "listen: \x00\x01", `
f:1:9: the file is not text: there is a byte 0x00
    1 | listen:   
      |         ^`},
		{"Latin-1", "# caf\xe9", `
f:1:6: the file is not text: there is a byte 0xe9
    1 | # caf�
      |      ^`},
		{"truncated", "upstreams: {a: {endpoints: [", `
f:1:28: the file is not YAML: sequence end token ']' not found
    1 | upstreams: {a: {endpoints: [
      |                            ^`},
		{"two documents", in("") + "---\nlisten: :1\n", `
f:5:7: the file has a second document; there may be one only
    5 | listen: :1
      |       ^`},
		{"a tag", in("listen: !!str :1"), `
f:4:9: the tag "!!str" is not allowed
    4 | listen: !!str :1
      |         ^`},
		{"an alias of nothing", in("listen: *x"), `
f:4:9: listen is *x, but there is no anchor &x before it
    4 | listen: *x
      |         ^`},
		{"an alias of itself", in("    failure: {statuses: &x [*x]}"), `
f:4:29: upstreams.a.failure.statuses[0] is *x, which stands within &x
    4 |     failure: {statuses: &x [*x]}
      |                             ^`},
		{"a long line", in("    breaker: {buckets: 5, window: 10s, open-for: 1s, open-for-max: 5s, probes: 4, close-after: 2, reopen-after: many, probe-timeout: 30s, stable-after: 10s, consecutive: 3}"), `
f:4:113: upstreams.a.breaker.reopen-after is "many", must be a whole number of at least 1
    4 | …open-for-max: 5s, probes: 4, close-after: 2, reopen-after: many, probe-timeout: 30s, stable-after:…
      |                                                             ^`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f", []byte(c.text), []string{"FIVE=5"})
			if err == nil {
				t.Fatalf("no error; want%s", c.want)
			}
			if got := "\n" + err.Error(); got != c.want {
				t.Errorf("got%s\nwant%s", got, c.want)
			}
		})
	}
}

func TestAllErrorsAtOnceInTheOrderOfTheFile(t *testing.T) {
	text := "listen: nowhere\nupstreams:\n  a: {endpoints: [http://a], breaker: {probes: 0, open-for: 9s, open-for-max: 1s}}\n  b: {endpoints: [x]}\nroutes: [{upstream: c}]\n"
	_, err := load(t, text, []string{"FUSEBOX_LOGGING_LEVEL=loud", "FUSEBOX_ADMIN_TOKEN=short"}, Flag{"--listen", "listen", "x"}, Flag{"--bad", "what", "x"}, Flag{"--name", "upstreams.A.endpoints", "http://a"})
	var all Errors
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		if e.Origin.Kind == FromFile {
			e.Origin.Name = "f"
		}
		first, _, _ := strings.Cut(e.Error(), "\n")
		got = append(got, first)
	}
	want := []string{
		`f:1:9: listen is "nowhere", must be host:port with a port from 0 to 65535, or unix:/path`,
		`f:3:48: upstreams.a.breaker.probes is 0, must be a whole number of at least 1`,
		`f:3:79: upstreams.a.breaker.open-for-max is 1s, must be at least open-for (9s)`,
		`f:4:19: upstreams.b.endpoints[0] is "x", must be a URL of http, https or h2c with a host: http://localhost:9000`,
		`f:5:21: routes[0].upstream is "c", which is not an upstream; known are a, b`,
		`env FUSEBOX_ADMIN_TOKEN: admin.token is (secret), must be a string of at least 16 printable characters without spaces`,
		`env FUSEBOX_LOGGING_LEVEL: logging.level is "loud", must be debug, info, warn or error`,
		`flag --bad: what is not a setting`,
		`flag --listen: listen is "x", must be host:port with a port from 0 to 65535, or unix:/path`,
		`flag --name: upstreams.A is no name for an upstream, must be small letters, digits and hyphens between them, at most 63`,
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	var one *Error
	if !errors.As(err, &one) || one != all[0] {
		t.Error("errors.As does not find the first")
	}
}

// A value that is wrong says so once: not again where another rule looks at it.
func TestNoErrorFollowsFromAnother(t *testing.T) {
	for _, section := range []string{
		"breaker: {open-for: 5, open-for-max: 500ms}", "breaker: {slow-after: 5, slow-rate: 10%}", "breaker: {window-calls: x, min-calls: 30}",
		"timeouts: {total: 5, per-try: 40s}", "retry: {max-delay: 1ms, base-delay: x}", "fallback: 5", "fallback: {last-good: 5}",
		"fallback: {upstream: 5}", "bulkhead: {max-wait: 5, max-waiting: 3}",
	} {
		_, err := Parse("f", []byte(in("    "+section)), nil)
		var all Errors
		if !errors.As(err, &all) || len(all) != 1 {
			t.Errorf("%s: want one error, got\n%v", section, err)
		}
	}
}

func TestSecretsAreNotInErrors(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(secret, []byte("1234567"), 0o600); err != nil {
		t.Fatal(err)
	}
	ref := "'${file:" + secret + "}'"
	for _, text := range []string{
		in("listen: " + ref), in("admin: {token: " + ref + "}"), in("logging: {level: " + ref + "}"), in("    timeouts: {total: " + ref + "}"),
		in("    retry: {max-body: " + ref + "}"), in("    retry: {jitter: " + ref + "}"), in("    breaker: {failure-rate: " + ref + "}"), in("    bulkhead: {limit: " + ref + ", max-waiting: " + ref + "}"),
		in("    failure: {statuses: [" + ref + "]}"), in("    fallback: {upstream: " + ref + "}"), in("    fallback: {file: " + ref + "}"), in("routes: [{upstream: " + ref + "}]"),
		in("routes: [{upstream: a, prefix: " + ref + "}]"), "upstreams: {a: {endpoints: [" + ref + "]}}",
		in("    breaker: {min-calls: " + ref + ", window-calls: 5}"), in("    breaker: {min-calls: 2000000, window-calls: " + ref + "}\n    retry: {attempts: 0}"),
	} {
		_, err := Parse("f", []byte(text), nil)
		if err == nil {
			t.Errorf("no error: %s", text)
		} else if strings.Contains(err.Error(), "1234567") {
			t.Errorf("shows the secret: %v", err)
		}
	}
}

// A secret that the file is too broken to tell, or that stands where none may.
func TestSecretsInTheWrongPlaceAreNotInErrors(t *testing.T) {
	for _, text := range []string{
		"admin:\n  token: hunter2hunter2hunter2: x\n", in("admin: {tokn: hunter2hunter2}"), in("admin: {\"Token\": \"hunter2hunter2\"}"), in("token: hunter2hunter2"),
		"upstreams: {a: {endpoints: [\"http://user:hunter2@a\"]}}", "upstreams:\n  a:\n    endpoints: [\"http://user:p@hunter2@a\"]\n",
	} {
		_, err := Parse("f", []byte(text), nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "f:") {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Where it is to be found is no secret, and helps.
	if _, err := Parse("f", []byte(in("tokens: ${file:/run/token}")), nil); err == nil || !strings.Contains(err.Error(), "4 | tokens: ${file:/run/token}") {
		t.Errorf("the line is not shown: %v", err)
	}
}

func TestASecretMayNotStandOnTheCommandLine(t *testing.T) {
	flags := []Flag{{"--upstream", "upstreams.a.endpoints", "http://a"}, {"--set", "admin.token", "0123456789abcdef"}}
	_, err := Load("", nil, flags)
	if err == nil || !strings.HasPrefix(err.Error(), "flag --set: admin.token is a secret, ") || strings.Contains(err.Error(), "0123456789") {
		t.Errorf("got %v", err)
	}
	c, err := Load("", []string{"FUSEBOX_ADMIN_TOKEN=0123456789abcdef", "FUSEBOX_ADMIN_HOSTS=fusebox, fusebox.shop.svc"}, flags[:1])
	if err != nil || c.Admin.Token != "0123456789abcdef" || len(c.Admin.Hosts) != 2 || c.Admin.Hosts[1] != "fusebox.shop.svc" {
		t.Errorf("of the environment: %v, %v", c, err)
	}
}

// TestHostileFiles are refused in little time, with one clear error.
func TestHostileFiles(t *testing.T) {
	bomb := "x-0: &a0 [5xx, 5xx, 5xx, 5xx, 5xx, 5xx, 5xx, 5xx, 5xx, 5xx]\n"
	merges := "x-0: &a0 {listen: ':1'}\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("x-%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
		merges += fmt.Sprintf("x-%d: &a%d {<<: [%s*a%d]}\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	var keys, wide, indents strings.Builder
	for i := range 11_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	wide.WriteString("x-0: &a {")
	for i := range 4000 {
		fmt.Fprintf(&wide, "k%d: 1, ", i)
	}
	wide.WriteString("}\n" + strings.Repeat("<<: *a\n", 5000))
	for i := range 1000 {
		indents.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	deep := "is nested deeper than 64 levels"
	for _, c := range []struct{ name, text, want string }{
		{"huge", "# " + strings.Repeat("x", 2<<20), "the file is larger than 1MiB"},
		{"a bomb of aliases", bomb + in("    failure: {statuses: *a11}"), "must be a status"},
		{"a bomb of merge keys", merges + "<<: *a11\n" + in(""), "expands to more than 20000 values"},
		{"a bomb of wide merges", wide.String() + in(""), "is not a key here"},
		{"many keys", keys.String(), "the file has more than 10000 keys"},
		{"lists in lists", strings.Repeat("[", 1<<15), deep},
		{"mappings in mappings", strings.Repeat("{a: ", 1<<15), deep},
		{"entries in entries", strings.Repeat("- ", 1<<16), deep},
		{"keys in keys", strings.Repeat("? ", 1<<16), deep},
		{"anchors of anchors", "a: " + strings.Repeat("&a ", 1<<15), "one anchor only"},
		{"tags of tags", strings.Repeat("!a ", 1<<15), "the tag"},
		{"a value that never ends", "listen: \"" + strings.Repeat("x", 1<<17), "could not find end character"},
		{"documents", strings.Repeat("---\na: 1\n", 5000), "second document"},
		{"separators", strings.Repeat("---\n", 1<<15), "the file is empty"},
		{"lines", strings.Repeat("\n", 1<<18), "the file is empty"},
		{"entries", in("routes:\n" + strings.Repeat("- a\n", 10_000)), "and 950 more"},
		{"deep indents", indents.String(), "is not a key here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse("f", []byte(c.text), nil)
			took := time.Since(start)
			var all Errors
			if !errors.As(err, &all) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.300v, want %s", err, c.want)
			}
			for _, e := range all {
				if e.Origin.Line < 1 || e.Origin.Column < 1 {
					t.Errorf("no place: %v", e)
				}
			}
			if limit := 10 * time.Second; took > limit {
				t.Errorf("took %v", took)
			}
			if len(err.Error()) > 100_000 {
				t.Errorf("the text has %d bytes", len(err.Error()))
			}
			t.Logf("%v, %d errors", took, len(all))
		})
	}
}
