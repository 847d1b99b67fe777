package report

import (
	"fmt"
	"strings"
	"testing"
)

const places = `# Title
<!-- lab other/things -->
kept
<!-- end -->
<!-- lab sample -->
old
<!-- end -->
between
<!-- lab sample/things -->
<!-- end -->
`

func TestMarkdownIsWrittenInItsPlaces(t *testing.T) {
	want := `# Title
<!-- lab other/things -->
kept
<!-- end -->
<!-- lab sample -->
` + "`fusebox lab sample`" + `: what &lt;there&gt; is &amp; more.

Parameters: open 1s, seed 7. 1 of 2 checks passed; of 1 statistical ones the worst is 1.0 standard errors off (limit 4.5).
<!-- end -->
between
<!-- lab sample/things -->
<a id="sample-things"></a>
**Things**

| name | n | mean | share, % | at, ms | took, s |
| --- | ---: | ---: | ---: | ---: | ---: |
| a → b | 12 345 | 1.00 | 12.5 | 1500 | 90.0 |
| &lt;c&gt; | 2 | 0.00 | 100.0 | 0 | - |

> Of 2 things 100.0 % are &lt;c&gt;.
<!-- end -->
`
	text := places
	for range 2 { // what it wrote is written over
		got, err := UpdateMarkdown([]byte(text), sample())
		if err != nil {
			t.Fatal(err)
		}
		if text = string(got); text != want {
			t.Fatalf("got\n%s\nwant\n%s", text, want)
		}
	}
}

func TestMarkdownShowsWhatItIsGiven(t *testing.T) {
	r := &Report{Name: "r", Versions: []Named{{"Go", "go1"}, {"gobreaker", "v2"}}}
	table := r.Table("t", "a_b", Column{Key: "x", Title: "x|y*"})
	for range longTable {
		table.Add("[1]\n`<&\\")
	}
	got, err := UpdateMarkdown([]byte("<!-- lab r -->\n<!-- end -->\n<!-- lab r/t -->\n<!-- end -->"), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"; beside gobreaker v2.\n", "**a\\_b**", "| x\\|y\\* |", "| \\[1\\] \\`&lt;&amp;\\\\ |\n\n</details>\n", "<details><summary>25 rows</summary>\n\n| x",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "go1") {
		t.Error("the document changes with the version of Go")
	}
}

func TestADocumentWithoutItsPlacesIsLeftAlone(t *testing.T) {
	const whole, table = "<!-- lab sample -->\n<!-- end -->\n", "<!-- lab sample/things -->\n<!-- end -->\n"
	for document, want := range map[string]string{
		"":                                      "no place for sample:",
		whole:                                   "no place for sample/things: <!-- lab sample/things -->",
		whole + table + table:                   "line 5: sample/things has a place already",
		whole + table + "<!-- lab sample/x -->": "line 5: sample has no table x",
		whole + "<!-- lab sample/things -->\n":  "line 3: no <!-- end --> after it",
		"<!-- lab other -->\n" + whole + table:  "line 1: no <!-- end --> before the next place",
		"\n<!-- end -->\n" + whole + table:      "line 2: <!-- end --> ends no place",
	} {
		got, err := UpdateMarkdown([]byte(document), sample())
		if got != nil || err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %q, %v, want %q", document, got, err, want)
		}
	}
}
