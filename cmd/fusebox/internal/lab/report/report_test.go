package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sample is a report with something of everything.
func sample() *Report {
	r := &Report{
		Name: "sample", Title: "what <there> is & more", Seed: 7,
		Versions:   []Named{{"fusebox", "devel"}, {"Go", "go1"}},
		Parameters: []Named{{"open", "1s"}},
	}
	t := r.Table("things", "Things",
		Column{Key: "name", Title: "name"},
		Column{Key: "n", Title: "n", Kind: Count},
		Column{Key: "mean", Title: "mean", Kind: Number, Decimals: 2},
		Column{Key: "share", Title: "share", Kind: Share, Decimals: 1},
		Column{Key: "at", Title: "at", Kind: Duration, Unit: time.Millisecond},
		Column{Key: "took", Title: "took", Kind: Duration, Decimals: 1},
	)
	t.Add("a → b", 12345, 1.005, 0.125, 1500*time.Millisecond, 90*time.Second)
	t.Add("<c>", 2, -0.001, 1.0, 25*time.Microsecond, nil)
	t.Teach(func(t *Table) bool { return t.Row("n", 2).Number("share") == 100 }, "Of %s things %s %% are <c>.", t.Row("n", 2).Text("n"), t.Row("n", 2).Text("share"))
	t.Teach(func(t *Table) bool { return t.Row("n", 3).Number("share") < 1 }, "There are three.")
	r.Plot(Plot{Title: "a < b & c", X: "x", Y: "y", Series: []Series{
		{Name: "one & two", Points: []Point{{0, 1}, {1, 2}}},
		{Name: "steps", Style: Steps, Points: []Point{{0, 2}, {1, 1}}},
		{Name: "dashed", Style: Dashed, Points: []Point{{0, 0}, {1, 1}}},
		{Name: "dots", Style: Dots, Points: []Point{{0, 0}, {1, 1}}},
	}})
	r.Plot(Plot{Title: "log", LogX: true, LogY: true, Series: []Series{{Points: []Point{{1, 1}, {1000, 10}}}}})
	r.Statistical("mean", 1, 1.1, 0.1, 0)
	r.Near("exact", 3, 2, 0.5, "calls")
	r.Widgets = []Widget{{Title: "a <widget>", HTML: "<b>trusted</b>"}}
	return r
}

func TestTextIsAligned(t *testing.T) {
	var b bytes.Buffer
	if err := WriteText(&b, sample()); err != nil {
		t.Fatal(err)
	}
	want := `sample: what <there> is & more
open 1s, seed 7
fusebox devel, Go go1

Things

  name        n  mean  share, %  at, ms  took, s
  -----  ------  ----  --------  ------  -------
  a → b  12 345  1.00      12.5    1500     90.0
  <c>         2  0.00     100.0       0        -

Of 2 things 100.0 % are <c>.

1 of 2 checks passed; of 1 statistical ones the worst is 1.0 standard errors off (limit 4.5).
FAILED exact: got 3, want 2: 1 calls off, limit 0.5
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestJSONHasTheRowsByKeyAndUnit(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, sample()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Name   string
		Seed   int
		Tables []struct {
			Teaches string
			Rows    []map[string]any
		}
		Checks []Check
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	first, second := got.Tables[0].Rows[0], got.Tables[0].Rows[1]
	if got.Name != "sample" || got.Seed != 7 || first["n"] != 12345.0 || first["share"] != 0.125 || first["at_ms"] != 1500.0 || first["took_s"] != 90.0 {
		t.Errorf("read %+v", got)
	}
	if v, ok := second["took_s"]; !ok || v != nil {
		t.Errorf("a cell without a value is %v (%v)", v, ok)
	}
	if got.Tables[0].Teaches != "Of 2 things 100.0 % are <c>." || len(got.Checks) != 2 || got.Checks[1].OK || !got.Checks[0].OK {
		t.Errorf("read %+v", got)
	}
	if i, j := strings.Index(b.String(), `"name": "a`), strings.Index(b.String(), `"took_s"`); i < 0 || j < i || !strings.Contains(b.String(), "<c>") {
		t.Errorf("the columns' order is not kept, or characters are escaped:\n%s", b.String())
	}
	for n, want := range map[int]string{0: "[]\n", 2: "["} {
		b.Reset()
		reports := []*Report{sample(), sample()}[:n]
		if err := WriteJSON(&b, reports...); err != nil || !strings.HasPrefix(b.String(), want) {
			t.Errorf("%d reports: %v, %.20q", n, err, b.String())
		}
	}
}

func TestAnEmptyReportHasNoNull(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, &Report{}); err != nil || strings.Contains(b.String(), "null") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestThePageIsOneFileAndEscapes(t *testing.T) {
	var b bytes.Buffer
	if err := WriteHTML(&b, sample(), sample()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"what &lt;there&gt; is &amp; more", "&lt;c&gt;", "<svg", "a &lt; b &amp; c", "one &amp; two",
		"a &lt;widget&gt;", "<b>trusted</b>", "FAILED exact", `class="number">12 345<`, "<nav>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, no := range []string{"<c>", "<there>", "<?xml", "src=", "<link", "ZgotmplZ", "There are three."} {
		if strings.Contains(page, no) {
			t.Errorf("the page has %q", no)
		}
	}
	if n := strings.Count(page, "</section>"); n != 2 {
		t.Errorf("%d sections", n)
	}
}

func TestTheSameReportIsTheSameBytes(t *testing.T) {
	for name, write := range map[string]func(io.Writer) error{
		"text": func(w io.Writer) error { return WriteText(w, sample()) },
		"JSON": func(w io.Writer) error { return WriteJSON(w, sample()) },
		"HTML": func(w io.Writer) error { return WriteHTML(w, sample()) },
		"SVG":  func(w io.Writer) error { return WritePlots(w, "svg", sample().Plots...) },
		"PNG":  func(w io.Writer) error { return WritePlots(w, "png", sample().Plots...) },
	} {
		var a, b bytes.Buffer
		if err := errors.Join(write(&a), write(&b)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a.Len() == 0 || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: %d and %d bytes, not the same", name, a.Len(), b.Len())
		}
	}
}

func TestPlotsAreImages(t *testing.T) {
	var b bytes.Buffer
	if err := WritePlots(&b, "png", sample().Plots...); err != nil {
		t.Fatal(err)
	}
	image, err := png.Decode(&b)
	if err != nil || image.Bounds().Dx() < 800 || image.Bounds().Dy() < 800 {
		t.Errorf("%v, %v", err, image)
	}
	b.Reset()
	if err := WritePlots(&b, "svg", sample().Plots...); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(&b)
	texts := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(xml.CharData); ok {
			texts += string(s)
		}
	}
	for _, want := range []string{"a < b & c", "one & two", "log"} {
		if !strings.Contains(texts, want) {
			t.Errorf("the SVG does not say %q", want)
		}
	}
	if err := WritePlots(&b, "gif"); err == nil || !strings.Contains(err.Error(), "gif") {
		t.Errorf("gif: %v", err)
	}
	if err := WritePlots(&b, "svg", &Plot{Title: "t", Series: []Series{{Name: "s", Points: []Point{{math.NaN(), 1}}}}}); err == nil {
		t.Error("a point that is not a number was drawn")
	}
}

func TestAddWantsCellsThatFit(t *testing.T) {
	columns := []Column{{Key: "s", Title: "s"}, {Key: "x", Title: "x", Kind: Number}}
	for name, cells := range map[string][]any{
		"too few":       {"a"},
		"too many":      {"a", 1.0, 2.0},
		"an int":        {"a", 1},
		"a number":      {1.0, 1.0},
		"not a number":  {"a", math.NaN()},
		"infinite":      {"a", math.Inf(1)},
		"a duration":    {"a", time.Second},
		"another thing": {"a", true},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: added", name)
				}
			}()
			(&Report{}).Table("t", "t", columns...).Add(cells...)
		}()
	}
}

func TestRows(t *testing.T) {
	table := sample().Tables[0]
	if n := len(table.Select()); n != 2 {
		t.Errorf("%d rows", n)
	}
	row := table.Row("name", "a → b", "n", 12345)
	if !row.Found() || row.Number("at") != 1500 || row.Text("n") != "12 345" || row.Cell("took") != 90*time.Second {
		t.Errorf("got %v", row)
	}
	none := table.Row("name", "a → b", "n", 2)
	if none.Found() || none.Number("n") > 0 || none.Number("n") <= 0 || none.Text("n") != "-" || none.Cell("n") != nil {
		t.Errorf("got %v", none)
	}
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "has no column nothing") {
			t.Errorf("recovered %q", p)
		}
	}()
	row.Number("nothing")
}

func TestGroup(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0.00": "0.00", "1234": "1234", "12345": "12 345", "-1234567.8901": "-1 234 567.8901", "0.12345": "0.12345",
	} {
		if got := group(in); got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
	}
}

func TestStatisticalChecks(t *testing.T) {
	for _, c := range []struct {
		name                string
		got, want, se, each float64
		distance            float64
		ok                  bool
	}{
		{"near", 1.4, 1, 0.1, 0, 4, true},
		{"far", 0.5, 1, 0.1, 0, -5, false},
		{"equal without an error", 1, 1, 0, 0, 0, true},
		{"rounding", 1 + 1e-12, 1, 0, 0, 0, true},
		{"unequal without an error", 1.001, 1, 0, 1, 999, false},
		{"one event where hardly one is expected", 0.001, 1e-8, 3e-6, 0.001, 1.732, true},
		{"ten of them", 0.010, 1e-8, 3e-6, 0.001, 5.477, false},
	} {
		r := &Report{}
		d := r.Statistical(c.name, c.got, c.want, c.se, c.each)
		if math.Abs(d-c.distance) > 0.001 || r.Checks[0].OK != c.ok || (len(r.Failed()) == 0) != c.ok || r.Checks[0].Distance != math.Abs(d) {
			t.Errorf("%s: %v off, %+v", c.name, d, r.Checks[0])
		}
	}
}

func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	write := func(text string, err error) error {
		return WriteFile(path, func(w io.Writer) error {
			if _, e := io.WriteString(w, text); e != nil {
				return e
			}
			return err
		})
	}
	if err := write("one", nil); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	if err := write("two", failed); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "one" {
		t.Errorf("the file has %q", got)
	}
	if err := write("three", nil); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(path)
	files, _ := os.ReadDir(dir)
	if string(got) != "three" || len(files) != 1 {
		t.Errorf("the file has %q, beside it: %v", got, files)
	}
	if err := WriteFile(filepath.Join(dir, "no", "out"), nil); err == nil {
		t.Error("a folder that is not there")
	}
	if err := WriteFile(dir, nil); err == nil {
		t.Error("a folder")
	}
}

func TestPlotFormat(t *testing.T) {
	for path, want := range map[string]string{"a.svg": "svg", "b/c.PNG": "png", "svg": "", "a.pdf": ""} {
		got, err := PlotFormat(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestWrap(t *testing.T) {
	if got, want := wrap("aa bb  cc ddddddd e", 5), "aa bb\ncc\nddddddd\ne"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := wrap("", 5); got != "" {
		t.Errorf("nothing is %q", got)
	}
}

func TestADeviceStaysADevice(t *testing.T) {
	device := filepath.Join(t.TempDir(), "device")
	if err := os.Symlink(os.DevNull, device); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(device, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(device); err != nil || info.Mode().IsRegular() {
		t.Errorf("%v, %v", err, info.Mode())
	}
}
