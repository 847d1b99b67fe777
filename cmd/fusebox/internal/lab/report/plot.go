package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Plot is one diagram.
type Plot struct {
	Title  string
	X, Y   string // labels, with their units
	Series []Series
	// LogX and LogY are for values above 0.
	LogX, LogY bool
	// YTicks, if any, name the values 0, 1, 2 and so on of y.
	YTicks []string
}

// Series is one line of a diagram.
type Series struct {
	Name   string
	Points []Point
	Style  Style
}

// Point is a point of a series.
type Point struct{ X, Y float64 }

// Style is how a series is drawn.
type Style uint8

const (
	// Line joins the points, and marks them.
	Line Style = iota
	// Steps keeps each value until the next point.
	Steps
	// Dashed joins the points without marks, as is fit for theory.
	Dashed
	// Dots marks the points only.
	Dots
)

const (
	plotWidth  = 20 * vg.Centimeter
	plotHeight = 10 * vg.Centimeter
)

// palette is Okabe and Ito's, which the colour-blind can tell apart.
func palette(i int) color.Color {
	colours := [...]color.RGBA{
		{0, 114, 178, 255},
		{213, 94, 0, 255},
		{0, 158, 115, 255},
		{204, 121, 167, 255},
		{230, 159, 0, 255},
		{86, 180, 233, 255},
		{0, 0, 0, 255},
	}
	return colours[i%len(colours)]
}

func (p *Plot) build() (*plot.Plot, error) {
	out := plot.New()
	out.Title.Text, out.X.Label.Text, out.Y.Label.Text = p.Title, p.X, p.Y
	out.Title.Padding = vg.Millimeter
	for _, text := range []*text.Style{
		&out.Title.TextStyle, &out.X.Label.TextStyle, &out.Y.Label.TextStyle,
		&out.X.Tick.Label, &out.Y.Tick.Label, &out.Legend.TextStyle,
	} {
		text.Font.Variant = "Sans"
	}
	if p.LogX {
		out.X.Scale, out.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if p.LogY {
		out.Y.Scale, out.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if len(p.YTicks) > 0 {
		ticks := make([]plot.Tick, len(p.YTicks))
		for i, name := range p.YTicks {
			ticks[i] = plot.Tick{Value: float64(i), Label: name}
		}
		out.Y.Tick.Marker = plot.ConstantTicks(ticks)
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{230}, color.Gray{230}
	out.Add(grid)
	for i, s := range p.Series {
		width := vg.Points(1.5)
		if len(p.YTicks) > 0 {
			width += vg.Points(2) * vg.Length(len(p.Series)-1-i) // those below show where they agree
		}
		if err := s.addTo(out, palette(i), width); err != nil {
			return nil, fmt.Errorf("lab: plot %q, series %q: %w", p.Title, s.Name, err)
		}
	}
	out.Legend.Top, out.Legend.Padding = true, vg.Millimeter
	if len(p.Series) > 1 {
		roomForNames(out, len(p.Series), p.LogY)
	}
	return out, nil
}

// roomForNames makes the axis longer than what is drawn, for the legend stands above
// the highest point. It has no ticks there.
func roomForNames(p *plot.Plot, names int, log bool) {
	const height = 0.068 // of a name, as a part of the axis
	room := float64(height * float64(names))
	longer := room / (1 - room)
	p.Y.Tick.Marker = ticksUpTo{p.Y.Tick.Marker, p.Y.Max}
	if log {
		p.Y.Max *= math.Pow(p.Y.Max/p.Y.Min, longer)
	} else {
		p.Y.Max += float64((p.Y.Max - p.Y.Min) * longer)
	}
}

// ticksUpTo are those of another that are not above top.
type ticksUpTo struct {
	plot.Ticker
	top float64
}

// Ticks implements [plot.Ticker].
func (t ticksUpTo) Ticks(from, to float64) []plot.Tick {
	return slices.DeleteFunc(t.Ticker.Ticks(from, min(to, t.top)), func(tick plot.Tick) bool { return tick.Value > t.top })
}

func (s Series) addTo(p *plot.Plot, c color.Color, width vg.Length) error {
	points := make(plotter.XYs, len(s.Points))
	for j, pt := range s.Points {
		points[j] = plotter.XY(pt)
	}
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = c, width
	marks.Color, marks.Shape, marks.Radius = c, draw.CircleGlyph{}, vg.Points(2.2)
	switch s.Style {
	case Steps:
		line.StepStyle = plotter.PostStep
		p.Add(line)
		p.Legend.Add(s.Name, line)
	case Dashed:
		line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		p.Add(line)
		p.Legend.Add(s.Name, line)
	case Dots:
		p.Add(marks)
		p.Legend.Add(s.Name, marks)
	default:
		p.Add(line, marks)
		p.Legend.Add(s.Name, line, marks)
	}
	return nil
}

// drawPlots draws the plots below one another.
func drawPlots(c draw.Canvas, plots []*Plot) error {
	column := make([][]*plot.Plot, len(plots))
	for i, p := range plots {
		built, err := p.build()
		if err != nil {
			return err
		}
		column[i] = []*plot.Plot{built}
	}
	pad := 3 * vg.Millimeter
	tiles := draw.Tiles{Rows: len(plots), Cols: 1, PadTop: pad, PadBottom: pad, PadLeft: pad, PadRight: 2 * pad, PadY: 2 * pad}
	for i, row := range plot.Align(column, tiles, c) {
		column[i][0].Draw(row[0])
	}
	return nil
}

// WritePlots writes the plots below one another, as "svg" or "png".
func WritePlots(w io.Writer, format string, plots ...*Plot) error {
	height := plotHeight * vg.Length(len(plots))
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch format {
	case "svg":
		canvas = vgsvg.NewWith(vgsvg.UseWH(plotWidth, height))
	case "png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(plotWidth, height), vgimg.UseDPI(144))}
	default:
		return fmt.Errorf("lab: plot format %q, must be svg or png", format)
	}
	if err := drawPlots(draw.New(canvas), plots); err != nil {
		return err
	}
	_, err := canvas.WriteTo(w)
	return err
}

// PlotFormat returns the format that a file's name asks for.
func PlotFormat(path string) (string, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".svg", ".png":
		return ext[1:], nil
	}
	return "", fmt.Errorf("lab: --plot %s: the name must end with .svg or .png", path)
}

// SVG returns the plot as an element for a page.
func (p *Plot) SVG() (template.HTML, error) {
	var b bytes.Buffer
	if err := WritePlots(&b, "svg", p); err != nil {
		return "", err
	}
	s := b.String()
	if i := strings.Index(s, "<svg"); i >= 0 {
		s = s[i:] // without the XML declaration
	}
	// What the drawing library wrote, with its texts escaped.
	return template.HTML(strings.TrimSpace(s)), nil
}
