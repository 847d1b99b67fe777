package ctl

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

func TestTargetsAreReadInEveryForm(t *testing.T) {
	for text, want := range map[string]string{
		"http://10.0.0.7:9901":      "http://10.0.0.7:9901",
		"https://guard.example":     "https://guard.example",
		"http://h:1/debug/fusebox/": "http://h:1/debug/fusebox",
		"10.0.0.7:9000":             "http://10.0.0.7:9000",
		"h:9000/debug":              "http://h:9000/debug",
		"h":                         "http://h:9901",
		":9000":                     "http://127.0.0.1:9000",
		"[::1]:9000":                "http://[::1]:9000",
		"[::1]":                     "http://[::1]:9901",
		"unix:/run/f.sock":          "unix:/run/f.sock",
		"unix:///run/f.sock":        "unix:/run/f.sock",
		"unix:f.sock":               "unix:f.sock",
		"dns+http://h:9901":         "dns+http://h:9901",
		"dns+https://h":             "dns+https://h",
	} {
		s, err := parseTarget(text)
		if err != nil || s.text != want {
			t.Errorf("%q is %q, %v, want %q", text, s.text, err, want)
		}
		if s.dns != strings.HasPrefix(text, "dns+") || (s.socket != "") != strings.HasPrefix(text, "unix:") {
			t.Errorf("%q is %+v", text, s)
		}
	}
}

func TestTargetsThatAreWrongAreWrongUsage(t *testing.T) {
	for text, rule := range map[string]string{
		"":                     "must be host:port",
		"::1":                  "in brackets",
		"ftp://h":              "must be http://",
		"http://":              "must have a host",
		"dns+h:1":              "must be http://",
		"dns+http://":          "must have a host",
		"http://h:99999":       "a port from 1 to 65535",
		"http://h:0":           "a port from 1 to 65535",
		"http://h/?a=b":        "must end with the path",
		"http://h/#a":          "must end with the path",
		"http://joe:secret@h/": "must not have a user",
		"unix:":                "must have the path",
		"unix://run/f.sock":    "must be unix:/path",
		"http://a b":           "must be a URL",
	} {
		ctl(t, "ls", "--target", text).ended(2).complains("--target is", rule).saysNot("secret")
	}
	ctl(t, "ls", "--target", "ftp://a", "--target", "ftp://b").ended(2).complains("ftp://a", "ftp://b")
}

func TestTargetsComeFromFlagThenEnvironment(t *testing.T) {
	a, b := newAdmin(t, "of-a"), newAdmin(t, "of-b")
	t.Setenv("FUSEBOX_TARGET", " "+a.url+", ,"+b.url)
	ctl(t, "ls").ended(0).says("of-a", "of-b", a.url, b.url)
	ctl(t, "ls", "--target", b.url).ended(0).says("of-b").saysNot("of-a")
	ctl(t, "ls", "--target", b.url, "--target", b.url+"/").ended(0).saysNot("TARGET") // once
	t.Setenv("FUSEBOX_TARGET", "nothing://")
	ctl(t, "ls").ended(2).complains("FUSEBOX_TARGET is")
}

func TestANameStandsForAllItsAddresses(t *testing.T) {
	a := newAdmin(t, "payments")
	port := a.url[strings.LastIndex(a.url, ":"):]
	name := "dns+http://localhost" + port
	o := ctl(t, "ls", "-o", "json", "--target", name)
	found := false
	for _, r := range decode[fuseboxadmin.List](o) {
		if r.Via != name || strings.Contains(r.Target, "localhost") {
			t.Errorf("a result of %q, via %q", r.Target, r.Via)
		}
		found = found || r.Target == a.url && len(r.Data.Breakers) == 1
	}
	if !found {
		t.Errorf("no result of %s in %s", a.url, o.out)
	}
	// The name of an address has to be known; the address is.
	ctl(t, "ls", "--target", "dns+http://no-such-name.invalid:1", "--target", a.url).ended(3).
		says("payments").complains("dns+http://no-such-name.invalid:1: ")
}

func TestANameThatTheProgramDoesNotKnowGetsAHint(t *testing.T) {
	url := served(t, func(w http.ResponseWriter, r *http.Request) {
		r.Host = "guard.internal:9901"
		new(fuseboxadmin.Handler).ServeHTTP(w, r)
	})
	ctl(t, "ls", "--target", url).ended(1).complains(`the host "guard.internal" is not one`, "dns+"+url+" asks")
}

func TestAProgramWithoutATokenSaysWhatToDo(t *testing.T) {
	url := served(t, (&fuseboxadmin.Handler{TokenHelp: "set admin.token"}).ServeHTTP)
	ctl(t, "reset", "payments", "--reason", "r", "--target", url).ended(1).complains("for reading only", "set admin.token")
}

func TestUnixSocketsNeedNoToken(t *testing.T) {
	a, path := newSocket(t, "payments")
	ctl(t, "ls", "--target", "unix:"+path).ended(0).says("payments")
	ctl(t, "force-open", "payments", "--reason", "r", "--target", "unix://"+path).ended(0).says("unix:" + path + ": payments: open")
	if r := a.audit(); r.Status != http.StatusOK {
		t.Errorf("%+v", r)
	}
	ctl(t, "ls", "--target", "unix:"+path+".not").ended(1).complains("no such file")
}

func TestAnAPIUnderAPrefixIsATargetWithAPath(t *testing.T) {
	a := newAdmin(t, "pay/ments", "..", "", "~a", "a b%2F?#")
	url := served(t, http.StripPrefix("/debug/fusebox", a).ServeHTTP) + "/debug/fusebox"
	ctl(t, "ls", "--target", url).ended(0).says("pay/ments")
	for _, name := range []string{"pay/ments", "..", "", "~a", "a b%2F?#"} {
		ctl(t, "get", name, "--target", url).ended(0).says(safeName(name) + " at ")
	}
}

func TestTheTokenIsReadFromFileOrEnvironment(t *testing.T) {
	a := newAdmin(t, "payments")
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lift := []string{"lift", "payments", "--reason", "r", "--target", a.url}
	withFile := append([]string{"--token-file", file}, lift...)

	ctl(t, lift...).ended(1).complains("Authorization", "--token-file")
	t.Setenv("FUSEBOX_TOKEN", "wrong")
	ctl(t, lift...).ended(1).complains("not the right one").saysNot("wrong")
	write(token + "\n")
	ctl(t, withFile...).ended(0)
	t.Setenv("FUSEBOX_TOKEN", token)
	ctl(t, lift...).ended(0)
	write("wrong\n")
	ctl(t, withFile...).ended(1).complains("not the right one")

	for content, rule := range map[string]string{
		" \n": "no token in it", "two words": "one word", "a\x00b": "one word", "ä": "one word",
		strings.Repeat("x", maxToken+1): "at most 4096 bytes",
	} {
		write(content)
		ctl(t, withFile...).ended(2).complains(rule)
	}
	ctl(t, append([]string{"--token-file", file + ".not"}, lift...)...).ended(2).complains("--token-file")
}

func TestACertificateMustBeOfTheName(t *testing.T) {
	a := newHandler(t, "payments")
	server := httptest.NewUnstartedServer(a)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Setenv("FUSEBOX_TOKEN", token)
	ctl(t, "lift", "payments", "--reason", "r", "--target", server.URL).ended(1).complains("certificate").saysNot("may have been")

	// The certificate is for example.com and the address, not for localhost.
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", file) // a process reads it once
	run := func(target string) (string, error) {
		cmd, out, errs := program(t, "ls", "--target", target)
		text, _ := io.ReadAll(out)
		err := cmd.Wait()
		return string(text) + errs.String(), err
	}
	if text, err := run(server.URL); err != nil || !strings.Contains(text, "payments") {
		t.Errorf("%v: %s", err, text)
	}
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	if text, err := run("dns+https://localhost" + port); err == nil || !strings.Contains(text, "not localhost") {
		t.Errorf("%v: %s", err, text)
	}
}
