package ctl

import "strings"

// table is a table whose last columns are running text. On a terminal the last
// one is cut to the width that is left; if that is too little, all running text
// goes on a line of its own, below. Columns with nothing in them are left out
// there. Elsewhere nothing is cut or left out.
type table struct {
	head []column
	rows [][]cell
}

type column struct {
	name  string
	right bool // numbers
	text  bool // running text: after all others
}

type cell struct {
	text   string
	colour colour
}

const (
	gap     = "  "
	nothing = "-"
	least   = 24 // cells for the last column beside the others
)

// lines renders the table. A width of 0 is no bound.
func (t *table) lines(s *style, width int) (lines []string) {
	beside := t.fit(s, width, func(column) bool { return true })
	below := width > 0 && beside.before > width-least
	if below {
		beside = t.fit(s, width, func(c column) bool { return !c.text })
	}
	var head []cell
	for _, c := range t.head {
		head = append(head, cell{c.name, bold})
	}
	lines = append(lines, beside.line(s, head, width))
	for _, row := range t.rows {
		lines = append(lines, beside.line(s, row, width))
		if text := t.running(row); below && text != "" {
			lines = append(lines, gap+gap+s.cells.Truncate(text, max(width-2*len(gap), 1), "…"))
		}
	}
	return lines
}

// running is the running text of a row in one.
func (t *table) running(row []cell) string {
	var parts []string
	for i, c := range t.head {
		if c.text && row[i].text != nothing {
			parts = append(parts, row[i].text)
		}
	}
	return strings.Join(parts, ": ")
}

// layout is the columns that are shown, and where.
type layout struct {
	columns []int
	head    []column
	widths  []int
	before  int // cells before the last column
}

// fit lays out the columns that are wanted.
func (t *table) fit(s *style, width int, want func(column) bool) (l layout) {
	l.head = t.head
	for i, c := range t.head {
		w, used := s.cells.StringWidth(c.name), width == 0
		for _, row := range t.rows {
			w = max(w, s.cells.StringWidth(row[i].text))
			used = used || row[i].text != nothing
		}
		if used && want(c) {
			l.columns, l.widths = append(l.columns, i), append(l.widths, w)
		}
	}
	for _, w := range l.widths[:max(len(l.widths)-1, 0)] {
		l.before += w + len(gap)
	}
	return l
}

func (l *layout) line(s *style, row []cell, width int) string {
	var b strings.Builder
	for n, i := range l.columns {
		c, text := l.head[i], row[i].text
		if c.text && n == len(l.columns)-1 && width > 0 {
			text = s.cells.Truncate(text, width-l.before, "…")
		}
		pad := strings.Repeat(" ", max(l.widths[n]-s.cells.StringWidth(text), 0))
		if text = s.paint(row[i].colour, text); c.right {
			text = pad + text
		} else {
			text += pad
		}
		b.WriteString(text + gap)
	}
	return strings.TrimRight(b.String(), " ")
}
