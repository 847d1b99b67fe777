package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A report has everything about the breakers that are not closed or are
// overridden, however many, and about others until there are maxDetails: those
// first that have ever left a record. It has no more once they are maxSize bytes.
const (
	maxDetails = 200
	maxSize    = 16 << 20
)

// A Getter returns the answer of the API to GET of a path such as
// "api/breakers", relative to where it is mounted, and an error for an answer that
// is no success. That of an answer 404 matches [fs.ErrNotExist].
type Getter func(ctx context.Context, path string) ([]byte, error)

// FromHandler returns a Getter that asks an API of the same program.
func FromHandler(api http.Handler) Getter {
	return func(ctx context.Context, path string) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/"+path, http.NoBody)
		if err != nil {
			return nil, err
		}
		w := &recorder{header: http.Header{}, status: http.StatusOK}
		api.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			return nil, &statusError{path, w.status, string(bytes.TrimSpace(w.body.Bytes()))}
		}
		return w.body.Bytes(), nil
	}
}

// statusError is an answer that is no success.
type statusError struct {
	path   string
	status int
	said   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("page: GET %s: the answer was %d: %s", e.path, e.status, e.said)
}

func (e *statusError) Is(target error) bool {
	return target == fs.ErrNotExist && e.status == http.StatusNotFound
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// Report writes the page as one HTML file that needs no server and loads nothing:
// what get returns at this moment is in it. Of thousands of breakers it has
// everything about those that are open, half-open or overridden, and about others
// until there are 200, the most severe first, and of the rest what a list says;
// with 16 MiB about them, it has enough. It says how many are left out. It asks one
// thing at a time, and writes nothing if one fails. What the API does not have,
// by now a breaker, or ever a history or the settings of a file, is left out.
func Report(ctx context.Context, w io.Writer, get Getter) error {
	answers, note, err := collect(ctx, get)
	if err != nil {
		return err
	}
	data, err := json.Marshal(answers) // <, > and & are escaped in it: it ends no element
	if err != nil {
		return fmt.Errorf("page: an answer of the API is not JSON: %w", err)
	}
	_, err = w.Write(compose(data, note))
	return err
}

// collect gets the answers that the page asks for, by path, and says what is left
// out of them.
func collect(ctx context.Context, get Getter) (answers map[string]json.RawMessage, leftOut string, err error) {
	answers = map[string]json.RawMessage{}
	list, err := get(ctx, "api/breakers")
	if err != nil {
		return nil, "", err
	}
	answers["api/breakers"] = list
	var parsed struct {
		Breakers []listed `json:"breakers"` // sorted by severity
	}
	if err := json.Unmarshal(list, &parsed); err != nil {
		return nil, "", fmt.Errorf("page: the list of breakers: %w", err)
	}
	all := parsed.Breakers
	slices.SortStableFunc(all, func(a, b listed) int { return a.rank() - b.rank() })
	keep := func(path string) error {
		answer, err := get(ctx, path)
		if err == nil {
			answers[path] = answer
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, path := range []string{"api/history", "api/config"} {
		if err := keep(path); err != nil {
			return nil, "", err
		}
	}
	n, size := 0, 0
	for ; n < len(all) && size < maxSize && (n < maxDetails || all[n].rank() == 0); n++ {
		if err := keep(all[n].Path); err != nil {
			return nil, "", err
		}
		size += len(answers[all[n].Path])
	}
	if n < len(all) {
		leftOut = fmt.Sprintf("This report has everything about %d of %d breakers, the most severe first. Of the other %d it has what the list says, and what has happened to them: not their settings, their probes or the calls of their windows.",
			n, len(all), len(all)-n)
	}
	return answers, leftOut, ctx.Err()
}

// listed is what a list says of a breaker, as far as that decides whether a
// report has everything about it.
type listed struct {
	Path     string           `json:"path"`
	State    string           `json:"state"`
	Override bool             `json:"override"`
	Last     *json.RawMessage `json:"last"`
}

// rank is 0 for what must not be missing, then less and less is lost.
func (l listed) rank() int {
	switch {
	case l.State == "open" || l.State == "half-open" || l.Override:
		return 0
	case l.Last != nil:
		return 1
	default:
		return 2
	}
}

var (
	imports  = regexp.MustCompile(`(?ms)^import .*?from '\./(.*?)';\n`)
	exported = regexp.MustCompile(`(?m)^export `)
	links    = regexp.MustCompile(`(?m)^(<link|<script).*\n`)
)

// compose puts the page, its data and a note on them into one file. Its content
// policy names the one script and the one style sheet, and lets it load nothing.
func compose(data []byte, note string) []byte {
	script, style := bundle("app.js"), read("style.css")
	head := &bytes.Buffer{}
	fmt.Fprintf(head, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; script-src '%s'; style-src '%s'\">\n",
		hash(script), hash(style))
	fmt.Fprintf(head, "<link rel=\"icon\" href=\"data:image/svg+xml;base64,%s\">\n", base64.StdEncoding.EncodeToString(read("closed.svg")))
	fmt.Fprintf(head, "<style>%s</style>\n", style)
	tail := fmt.Sprintf("<script type=\"application/json\" id=\"answers\">%s</script>\n<script type=\"module\">%s</script>\n", data, script)

	html := string(links.ReplaceAll(read("index.html"), nil))
	html = strings.Replace(html, "</head>", head.String()+"</head>", 1)
	if note != "" {
		html = strings.Replace(html, "</header>", "</header>\n<p id=\"left-out\" role=\"note\">"+note+"</p>", 1)
	}
	return []byte(strings.Replace(html, "</body>", tail+"</body>", 1))
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// bundle returns a module and all that it imports as one module, each after those
// that it imports. They share one scope: a test sees to it that no two of them
// have a name in common.
func bundle(entry string) []byte {
	var out bytes.Buffer
	done := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		if done[name] {
			return
		}
		done[name] = true
		text := read(path.Base(name))
		for _, m := range imports.FindAllSubmatch(text, -1) {
			add(string(m[1]))
		}
		out.Write(exported.ReplaceAll(imports.ReplaceAll(text, nil), nil))
	}
	add(entry)
	return out.Bytes()
}
