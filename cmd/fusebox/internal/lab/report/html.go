package report

import (
	_ "embed" // page.html
	"fmt"
	"html/template"
	"io"
)

//go:embed page.html
var pageSource string

// WriteHTML writes the reports as one page that needs nothing else.
func WriteHTML(w io.Writer, reports ...*Report) error {
	page, err := template.New("page").Parse(pageSource)
	if err != nil {
		return fmt.Errorf("lab: page.html: %w", err)
	}
	// Rendered to the end before anything is written.
	views := make([]view, len(reports))
	for i, r := range reports {
		if views[i], err = r.view(); err != nil {
			return err
		}
	}
	return page.Execute(w, views)
}

// view is a report as page.html shows it.
type view struct {
	*Report
	Plots   []template.HTML
	Tables  []tableView
	Verdict string
	Failed  []Check
}

type tableView struct {
	Title, Lesson string
	Heads         []cellView
	Rows          [][]cellView
}

type cellView struct {
	Text   string
	Number bool // set to the right
}

func (r *Report) view() (view, error) {
	v := view{Report: r, Failed: r.Failed()}
	if len(r.Checks) > 0 {
		v.Verdict = r.verdict()
	}
	for _, p := range r.Plots {
		svg, err := p.SVG()
		if err != nil {
			return view{}, err
		}
		v.Plots = append(v.Plots, svg)
	}
	for _, t := range r.Tables {
		v.Tables = append(v.Tables, t.view())
	}
	return v, nil
}

func (t *Table) view() tableView {
	v := tableView{Title: t.Title, Lesson: t.Lesson()}
	for _, c := range t.Columns {
		v.Heads = append(v.Heads, cellView{c.heading(), c.Kind != Text})
	}
	for _, row := range t.Rows {
		cells := make([]cellView, len(row))
		for i, c := range t.Columns {
			cells[i] = cellView{c.format(row[i]), c.Kind != Text}
		}
		v.Rows = append(v.Rows, cells)
	}
	return v
}
