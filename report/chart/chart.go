// Package chart draws figures as SVG: axes, bands, lines, cells and points. It knows numbers and texts, and nothing of
// weir. Elements have classes, and the page's style gives these their colours. So one figure serves a light page, a
// dark one and print.
//
// Positions are units of the figure's box, y downwards. Paths have one decimal, and one path is a whole band. That
// keeps a page of many metrics small.
package chart

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Figure is a picture with a name. Later elements are drawn over earlier ones.
type Figure struct {
	ID, Title, Desc string  // ID is unique on its page; Title and Desc are read aloud
	W, H            float64 // size of its box; the page sets the width on the screen
	Strip           bool    // it is stretched to fill its place, and so contains no text

	b       bytes.Buffer
	hatched bool
}

// Axes draws a grid line and a label for each tick of y, and the axis of x. The title of y stands above it.
func (f *Figure) Axes(x, y Scale, xTitle, yTitle string) {
	for _, t := range y.Ticks(int(math.Abs(y.to-y.from) / 24)) {
		f.Line([]float64{x.from, x.to}, []float64{t.At, t.At}, "grid")
		f.Text(x.from-5, t.At+4, "tick end", t.Text)
	}
	f.Across(x, y.from, xTitle)
	f.Text(0, y.to-8, "tick", yTitle)
}

// Across draws an axis of x at y, with its labels and its title below. Labels never touch.
func (f *Figure) Across(x Scale, y float64, title string) {
	f.Line([]float64{x.from, x.to}, []float64{y, y}, "axis")
	last := math.Inf(-1)
	for _, t := range x.Ticks(int(math.Abs(x.to-x.from) / 42)) {
		half := 3.2 * float64(len(t.Text)) // of its width, roughly
		at := min(t.At, f.W-half)
		if at-half < last {
			continue
		}
		last = at + half + 6
		f.Line([]float64{t.At, t.At}, []float64{y, y + 4}, "axis")
		f.Text(at, y+16, "tick mid", t.Text)
	}
	f.Text((x.from+x.to)/2, y+32, "tick mid", title)
}

// Band fills the steps between low and high: xs are the len(low)+1 edges. NaN breaks it.
func (f *Figure) Band(xs, low, high []float64, class string) {
	var p pen
	for i := 0; i < len(low); i++ {
		end := i
		for end < len(low) && there(low[end], high[end]) {
			end++
		}
		if end == i {
			continue
		}
		p.move(xs[i], high[i])
		for k := i; k < end; k++ {
			p.step(xs[k], high[k])
			p.step(xs[k+1], high[k])
		}
		for k := end - 1; k >= i; k-- {
			p.step(xs[k+1], low[k])
			p.step(xs[k], low[k])
		}
		p.close()
		i = end
	}
	f.path(class, &p)
}

// Line joins the points. NaN breaks it.
func (f *Figure) Line(xs, ys []float64, class string) {
	var p pen
	for i := range xs {
		switch {
		case !there(xs[i], ys[i]):
		case i == 0 || !there(xs[i-1], ys[i-1]):
			p.move(xs[i], ys[i])
		default:
			p.line(xs[i], ys[i])
		}
	}
	f.path(class, &p)
}

// Cells fills a rectangle for each column between xs and each row between ys. Neighbours in a row with the same class
// and title are one. A cell without class stays empty.
func (f *Figure) Cells(xs, ys []float64, value func(i, row int) (class, title string)) {
	for row := range len(ys) - 1 {
		for i := 0; i < len(xs)-1; {
			class, title := value(i, row)
			end := i + 1
			for ; end < len(xs)-1; end++ {
				if c, t := value(end, row); c != class || t != title {
					break
				}
			}
			if class != "" {
				f.rect(`class="`+class+`"`, title, xs[i], xs[end], ys[row], ys[row+1])
			}
			i = end
		}
	}
}

// Point is a dot with a name, which appears under the pointer.
type Point struct {
	X, Y, R      float64
	Class, Title string
}

// Points draws dots.
func (f *Figure) Points(points []Point) {
	for _, p := range points {
		if there(p.X, p.Y) {
			f.put(`<circle class="%s" cx="%v" cy="%v" r="%v">%s</circle>`, p.Class, unit(p.X), unit(p.Y), unit(p.R),
				named(p.Title))
		}
	}
}

// Text writes s. It begins at x, or ends there with class end, or is centred there with class mid.
func (f *Figure) Text(x, y float64, class, s string) {
	if there(x, y) && s != "" {
		f.put(`<text class="%s" x="%v" y="%v">%s</text>`, class, unit(x), unit(y), template.HTMLEscapeString(s))
	}
}

// Hatch fills a rectangle with diagonal lines.
func (f *Figure) Hatch(x0, x1, y0, y1 float64) {
	f.hatched = true
	f.rect(`class="gap" fill="url(#`+f.ID+`-h)"`, "", x0, x1, y0, y1)
}

// SVG returns the element. Its texts are escaped, so that names from anywhere may stand in it. IDs and classes are the
// program's own.
func (f *Figure) SVG() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg role="img" aria-labelledby="%[1]s-t %[1]s-d" viewBox="0 0 %[2]v %[3]v"`,
		f.ID, unit(f.W), unit(f.H))
	if f.Strip {
		b.WriteString(` class="strip" preserveAspectRatio="none"`)
	}
	fmt.Fprintf(&b, `><title id="%[1]s-t">%[2]s</title><desc id="%[1]s-d">%[3]s</desc>`, f.ID,
		template.HTMLEscapeString(f.Title), template.HTMLEscapeString(f.Desc))
	if f.hatched {
		fmt.Fprintf(&b, `<defs><pattern id="%s-h" width="5" height="5" patternUnits="userSpaceOnUse" `+
			`patternTransform="rotate(45)"><path class="hatch" d="M0 0V5"/></pattern></defs>`, f.ID)
	}
	b.Write(f.b.Bytes())
	return template.HTML(b.String() + `</svg>`)
}

// File returns the figure as a file of its own, which needs no page. The style is its CSS.
func (f *Figure) File(style string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]v %[2]v" `+
		`width="%[1]v" height="%[2]v">`+
		`<style>%[3]s</style><rect class="paper" width="100%%" height="100%%"/>%[4]s</svg>`+"\n",
		unit(f.W), unit(f.H), template.HTMLEscapeString(style), f.SVG())
}

func (f *Figure) rect(attributes, title string, x0, x1, y0, y1 float64) {
	if there(x0, x1) && there(y0, y1) {
		f.put(`<rect %s x="%v" y="%v" width="%v" height="%v">%s</rect>`, attributes,
			unit(min(x0, x1)), unit(min(y0, y1)), unit(math.Abs(x1-x0)), unit(math.Abs(y1-y0)), named(title))
	}
}

func (f *Figure) path(class string, p *pen) {
	if len(p.b) > 0 {
		f.put(`<path class="%s" d="%s"/>`, class, p.b)
	}
}

func (f *Figure) put(format string, args ...any) { fmt.Fprintf(&f.b, format, args...) }

// named returns the element with the name that appears under the pointer.
func named(title string) string {
	if title == "" {
		return ""
	}
	return "<title>" + template.HTMLEscapeString(title) + "</title>"
}

// there reports whether both are positions.
func there(a, b float64) bool { return !math.IsNaN(a-b) && !math.IsInf(a-b, 0) }
