package browser_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var (
	shots   = flag.String("shots", "", "write pictures in three sizes and two themes to this folder; default: one that is removed")
	picture = flag.String("picture", "", "write the picture of the README to this file")
)

func TestPicturesOfThreeSizesInBothThemes(t *testing.T) {
	t.Parallel()
	folder := *shots
	if folder == "" {
		folder = t.TempDir()
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	past := liveThrough(t)
	views := []struct{ name, address, element, text string }{
		{"list", "#/", "fb-list", "in 12 min"}, // by the clock of the server
		{"detail", "#/breaker/payments", "fb-detail", "At the trip"},
	}
	for _, size := range []struct{ width, height int64 }{{360, 740}, {1440, 900}, {3840, 2160}} {
		p := open(t, past.serve(t), "/")
		p.size(size.width, size.height)
		for _, view := range views {
			eval[any](p, fmt.Sprintf("location.hash = %q", view.address))
			p.reads(view.element, view.text)
			p.hasRates()
			if width := eval[int64](p, "document.documentElement.scrollWidth"); width > size.width {
				t.Errorf("%s at %d: the page is %d wide", view.name, size.width, width)
			}
			for _, look := range []string{"light", "dark"} {
				p.theme(look)
				write(t, filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", view.name, size.width, look)), p.picture())
			}
		}
	}
	if *picture != "" {
		takePicture(t, past)
	}
}

// takePicture takes the picture of the README.
func takePicture(t *testing.T, past *incident) {
	t.Helper()
	p := open(t, past.serve(t), "/#/breaker/payments")
	p.size(1360, 850)
	p.theme("light")
	p.reads("fb-detail", "At the trip")
	p.hasRates()
	write(t, *picture, fewColours(t, p.picture()))
}

// hasRates waits until what is counted a second is there: it takes two answers.
func (p *tab) hasRates() {
	p.Helper()
	p.reads("#status", "Live")
	p.reads("h1", "2 breakers open")
	p.until("not all numbers are there", func() bool {
		return eval[bool](p, `[...document.querySelectorAll('.sizer .c-rejected')].every((c) => c.textContent !== '') &&
			[...document.querySelectorAll('fb-detail:not([hidden]) .line-now')].every((c) => c.textContent !== '–')`)
	})
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// fewColours writes a picture with 256 colours, a third of the bytes: the most
// frequent ones, and of the others those that are least like any of them.
func fewColours(t *testing.T, data []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	times := map[color.RGBA]int{}
	box := from.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			times[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(times), func(a, b color.RGBA) int {
		return cmp.Or(times[b]-times[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	const frequent = 192
	var palette color.Palette
	for _, c := range colours[:min(len(colours), frequent)] {
		palette = append(palette, c)
	}
	for len(palette) < min(len(colours), 256) {
		palette = append(palette, slices.MaxFunc(colours, func(a, b color.RGBA) int {
			return distance(a, palette.Convert(a).(color.RGBA)) - distance(b, palette.Convert(b).(color.RGBA))
		}))
	}
	to := image.NewPaletted(box, palette)
	nearest := map[color.RGBA]uint8{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			c := color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)
			i, known := nearest[c]
			if !known {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			to.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func distance(a, b color.RGBA) int {
	r, g, l := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return r*r + g*g + l*l
}
