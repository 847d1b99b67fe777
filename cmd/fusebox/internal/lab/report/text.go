package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// WriteText writes the reports as aligned text.
func WriteText(w io.Writer, reports ...*Report) error {
	var b strings.Builder
	for i, r := range reports {
		if i > 0 {
			b.WriteString("\n\n")
		}
		r.text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s: %s\n", r.Name, r.Title)
	fmt.Fprintf(b, "%s\n", strings.Join(append(pairs(r.Parameters), fmt.Sprint("seed ", r.Seed)), ", "))
	fmt.Fprintf(b, "%s\n", strings.Join(pairs(r.Versions), ", "))
	for _, t := range r.Tables {
		fmt.Fprintf(b, "\n%s\n\n", t.Title)
		t.text(b)
		if lesson := t.Lesson(); lesson != "" {
			fmt.Fprintf(b, "\n%s\n", wrap(lesson, 100))
		}
	}
	if len(r.Checks) > 0 {
		fmt.Fprintf(b, "\n%s\n", r.verdict())
	}
	for _, c := range r.Failed() {
		fmt.Fprintf(b, "FAILED %s\n", c)
	}
}

func pairs(named []Named) (texts []string) {
	for _, n := range named {
		texts = append(texts, n.Name+" "+cmp.Or(n.Value, `""`))
	}
	return texts
}

// Lesson returns what the table teaches: the claims that hold.
func (t *Table) Lesson() string {
	var texts []string
	for _, c := range t.Claims {
		if c.Holds(t) {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, " ")
}

// verdict sums up the checks.
func (r *Report) verdict() string {
	failed := len(r.Failed())
	worst, statistical := 0.0, 0
	for _, c := range r.Checks {
		if c.Unit == StandardErrors {
			worst, statistical = max(worst, c.Distance), statistical+1
		}
	}
	s := fmt.Sprintf("%d of %d checks passed", len(r.Checks)-failed, len(r.Checks))
	if statistical > 0 {
		s += fmt.Sprintf("; of %d statistical ones the worst is %.1f standard errors off (limit %.1f)", statistical, worst, Limit)
	}
	return s + "."
}

// String returns the check on one line.
func (c Check) String() string {
	if c.Unit == "" {
		return c.Name
	}
	return fmt.Sprintf("%s: got %.6g, want %.6g: %.3g %s off, limit %.3g", c.Name, c.Got, c.Want, c.Distance, c.Unit, c.Limit)
}

func (t *Table) text(b *strings.Builder) {
	lines := make([][]string, len(t.Rows)+1)
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		lines[0] = append(lines[0], c.heading())
		for j, row := range t.Rows {
			lines[j+1] = append(lines[j+1], c.format(row[i]))
		}
		for _, line := range lines {
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
	}
	for j, line := range lines {
		var out strings.Builder
		for i, cell := range line {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				out.WriteString("  ")
			}
			if t.Columns[i].Kind == Text {
				out.WriteString(cell + gap)
			} else {
				out.WriteString(gap + cell)
			}
		}
		fmt.Fprintf(b, "  %s\n", strings.TrimRight(out.String(), " "))
		if j == 0 {
			rules := make([]string, len(widths))
			for i, n := range widths {
				rules[i] = strings.Repeat("-", n)
			}
			fmt.Fprintf(b, "  %s\n", strings.Join(rules, "  "))
		}
	}
}

// wrap breaks a text into lines of at most width characters, where words allow.
func wrap(s string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
