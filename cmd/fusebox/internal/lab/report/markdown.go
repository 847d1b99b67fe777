package report

import (
	"fmt"
	"regexp"
	"strings"
)

// A document in Markdown has places for what an experiment found:
//
//	<!-- lab recovery -->         its parameters and checks
//	<!-- end -->
//	<!-- lab recovery/races -->   its table races, with what it teaches
//	<!-- end -->
var (
	placeBegin = regexp.MustCompile(`^<!-- lab ([a-z0-9_-]+)(?:/([a-z0-9_-]+))? -->$`)
	placeEnd   = "<!-- end -->"
)

// longTable is the number of rows from which on a table is folded.
const longTable = 25

// UpdateMarkdown returns the document with what stands in the places of the
// reports written anew. All else, and places of other reports, stays as it is.
// Every report and each of its tables must have one place.
func UpdateMarkdown(document []byte, reports ...*Report) ([]byte, error) {
	parts := map[string]func(*strings.Builder){} // nil once written
	var names []string
	mine := map[string]bool{}
	add := func(name string, part func(*strings.Builder)) {
		names, parts[name] = append(names, name), part
	}
	for _, r := range reports {
		mine[r.Name] = true
		add(r.Name, r.markdown)
		for _, t := range r.Tables {
			add(r.Name+"/"+t.Name, func(b *strings.Builder) { t.markdown(b, r.Name) })
		}
	}
	var b strings.Builder
	open, since := "", 0 // the place that a line is in
	for i, line := range strings.SplitAfter(string(document), "\n") {
		text := strings.TrimSpace(line)
		place := placeBegin.FindStringSubmatch(text)
		switch {
		case place == nil && text == placeEnd:
			if since == 0 {
				return nil, fmt.Errorf("lab: line %d: %s ends no place", i+1, placeEnd)
			}
			open, since = "", 0
		case place == nil && open != "":
			continue
		case place == nil:
		case since > 0:
			return nil, fmt.Errorf("lab: line %d: no %s before the next place", since, placeEnd)
		default:
			since = i + 1
			if !mine[place[1]] {
				break
			}
			open = strings.TrimSuffix(place[1]+"/"+place[2], "/")
			part, known := parts[open]
			if !known {
				return nil, fmt.Errorf("lab: line %d: %s has no table %s", i+1, place[1], place[2])
			}
			if part == nil {
				return nil, fmt.Errorf("lab: line %d: %s has a place already", i+1, open)
			}
			b.WriteString(text + "\n")
			part(&b)
			parts[open] = nil
			continue
		}
		b.WriteString(line)
	}
	if since > 0 {
		return nil, fmt.Errorf("lab: line %d: no %s after it", since, placeEnd)
	}
	for _, name := range names {
		if parts[name] != nil {
			return nil, fmt.Errorf("lab: the document has no place for %s: <!-- lab %s -->", name, name)
		}
	}
	return []byte(b.String()), nil
}

// markdown writes how to have the tables, and what they were made with. The
// versions of Go and of the project are left out: they change nothing in it.
func (r *Report) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "`fusebox lab %s`: %s", r.Name, escape(r.Title))
	for _, v := range r.Versions {
		if v.Name != "Go" && v.Name != "fusebox" {
			fmt.Fprintf(b, "; beside %s %s", escape(v.Name), escape(v.Value))
		}
	}
	fmt.Fprintf(b, ".\n\nParameters: %s.", escape(strings.Join(append(pairs(r.Parameters), fmt.Sprint("seed ", r.Seed)), ", ")))
	if len(r.Checks) > 0 {
		fmt.Fprintf(b, " %s", escape(r.verdict()))
	}
	b.WriteString("\n")
}

// markdown writes the table under an anchor, EXPERIMENT-TABLE.
func (t *Table) markdown(b *strings.Builder, experiment string) {
	fmt.Fprintf(b, "<a id=\"%s-%s\"></a>\n**%s**\n\n", experiment, t.Name, escape(t.Title))
	folded := len(t.Rows) >= longTable
	if folded {
		fmt.Fprintf(b, "<details><summary>%d rows</summary>\n\n", len(t.Rows))
	}
	row := func(cells func(int, Column) string) {
		for i, c := range t.Columns {
			fmt.Fprintf(b, "| %s ", cells(i, c))
		}
		b.WriteString("|\n")
	}
	row(func(_ int, c Column) string { return escape(c.heading()) })
	row(func(_ int, c Column) string {
		if c.Kind == Text {
			return "---"
		}
		return "---:"
	})
	for _, cells := range t.Rows {
		row(func(i int, c Column) string { return escape(c.format(cells[i])) })
	}
	if folded {
		b.WriteString("\n</details>\n")
	}
	if lesson := t.Lesson(); lesson != "" {
		fmt.Fprintf(b, "\n> %s\n", escape(lesson))
	}
}

// escape writes a text so that Markdown shows it as it is.
func escape(s string) string {
	return escaper.Replace(s)
}

var escaper = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "\n", " ",
)
