// Package chart draws figures as SVG: scales, axes, bands, lines, cells and points. It knows no metric and no colour.
// Elements have classes, and the page's style gives these their colours, so that one figure serves a light page, a dark
// one and print.
//
// Positions are units of the figure's box, x to the right and y down. Paths have one decimal, and one path draws a whole
// band: that keeps a page of many metrics small.
package chart

import (
	"bytes"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Figure is a picture with a name. What is drawn later lies above.
type Figure struct {
	ID, Title, Desc string  // ID is unique on its page; Title and Desc are read aloud
	W, H            float64 // of its box; it is as wide as the page lets it
	Strip           bool    // it fills its place whatever its shape, and so has no text

	b       bytes.Buffer
	hatched bool
}

// Axes draws a grid line and a label for each tick of y, and the axis of x. The title of y stands above it.
func (f *Figure) Axes(x, y Scale, xTitle, yTitle string) {
	for _, t := range y.Ticks(int(math.Abs(y.to-y.from) / 24)) {
		f.path("grid", func(p *pen) { p.move(x.from, t.At); p.line(x.to, t.At) })
		f.Text(x.from-5, t.At+4, "tick end", t.Text)
	}
	f.Across(x, y.from, xTitle)
	if yTitle != "" {
		f.Text(0, y.to-8, "tick", yTitle)
	}
}

// Across draws an axis of x at y, with its labels and its title below.
func (f *Figure) Across(x Scale, y float64, title string) {
	f.path("axis", func(p *pen) { p.move(x.from, y); p.line(x.to, y) })
	last := math.Inf(-1)
	for _, t := range x.Ticks(int(math.Abs(x.to-x.from) / 42)) {
		half := 3.2 * float64(len(t.Text)) // of its width, roughly: so that labels never touch
		at := min(t.At, f.W-half)
		if at-half < last {
			continue
		}
		last = at + half + 6
		f.path("axis", func(p *pen) { p.move(t.At, y); p.line(t.At, y+4) })
		f.Text(at, y+16, "tick mid", t.Text)
	}
	if title != "" {
		f.Text((x.from+x.to)/2, y+32, "tick mid", title)
	}
}

// Band fills the steps between low and high: xs are the len(low)+1 edges. NaN breaks it.
func (f *Figure) Band(xs, low, high []float64, class string) {
	f.path(class, func(p *pen) {
		for i := 0; i < len(low); i++ {
			if absent(low[i]) || absent(high[i]) {
				continue
			}
			end := i
			for end < len(low) && !absent(low[end]) && !absent(high[end]) {
				end++
			}
			p.move(xs[i], high[i])
			for k := i; k < end; k++ {
				p.to(xs[k], high[k])
				p.to(xs[k+1], high[k])
			}
			for k := end - 1; k >= i; k-- {
				p.to(xs[k+1], low[k])
				p.to(xs[k], low[k])
			}
			p.close()
			i = end
		}
	})
}

// Line joins the points. NaN breaks it.
func (f *Figure) Line(xs, ys []float64, class string) {
	f.path(class, func(p *pen) {
		pending := true
		for i := range xs {
			switch {
			case absent(xs[i]) || absent(ys[i]):
				pending = true
			case pending:
				p.move(xs[i], ys[i])
				pending = false
			default:
				p.line(xs[i], ys[i])
			}
		}
	})
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
				f.rect(xs[i], xs[end], ys[row], ys[row+1], ` class="`+template.HTMLEscapeString(class)+`"`, title)
			}
			i = end
		}
	}
}

// Point is a dot, with a name that appears where one points at it.
type Point struct {
	X, Y, R      float64
	Class, Title string
}

// Points draws dots.
func (f *Figure) Points(points []Point) {
	for _, p := range points {
		if absent(p.X) || absent(p.Y) {
			continue
		}
		f.b.WriteString(`<circle class="` + template.HTMLEscapeString(p.Class) + `" cx="` + decimal(p.X) +
			`" cy="` + decimal(p.Y) + `" r="` + decimal(p.R) + `"`)
		f.end("circle", p.Title)
	}
}

// Text writes s. It begins at x, or ends there with class end, or has its middle there with class mid.
func (f *Figure) Text(x, y float64, class, s string) {
	if absent(x) || absent(y) {
		return
	}
	f.b.WriteString(`<text class="` + template.HTMLEscapeString(class) + `" x="` + decimal(x) + `" y="` + decimal(y) +
		`">` + template.HTMLEscapeString(s) + `</text>`)
}

// Hatch fills a rectangle with diagonal lines.
func (f *Figure) Hatch(x0, x1, y0, y1 float64) {
	f.hatched = true
	f.rect(x0, x1, y0, y1, ` class="gap" fill="url(#`+template.HTMLEscapeString(f.ID)+`-h)"`, "")
}

// SVG returns the element. Its text is escaped, so that names from anywhere may stand in it.
func (f *Figure) SVG() template.HTML {
	id := template.HTMLEscapeString(f.ID)
	var b strings.Builder
	b.WriteString(`<svg role="img" aria-labelledby="` + id + `-t` + ifSet(f.Desc, ` `+id+`-d`) +
		`" viewBox="0 0 ` + decimal(f.W) + ` ` + decimal(f.H) + `"`)
	if f.Strip {
		b.WriteString(` class="strip" preserveAspectRatio="none"`)
	}
	b.WriteString(`><title id="` + id + `-t">` + template.HTMLEscapeString(f.Title) + `</title>`)
	b.WriteString(ifSet(f.Desc, `<desc id="`+id+`-d">`+template.HTMLEscapeString(f.Desc)+`</desc>`))
	if f.hatched {
		b.WriteString(`<defs><pattern id="` + id + `-h" width="5" height="5" patternUnits="userSpaceOnUse" ` +
			`patternTransform="rotate(45)"><path class="hatch" d="M0 0V5"/></pattern></defs>`)
	}
	b.Write(f.b.Bytes())
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // every text in it was escaped above
}

func (f *Figure) rect(x0, x1, y0, y1 float64, attributes, title string) {
	if absent(x0) || absent(x1) || absent(y0) || absent(y1) {
		return
	}
	f.b.WriteString(`<rect` + attributes + ` x="` + decimal(min(x0, x1)) + `" y="` + decimal(min(y0, y1)) +
		`" width="` + decimal(math.Abs(x1-x0)) + `" height="` + decimal(math.Abs(y1-y0)) + `"`)
	f.end("rect", title)
}

// end closes an element, which has a name if title is set.
func (f *Figure) end(element, title string) {
	if title == "" {
		f.b.WriteString(`/>`)
		return
	}
	f.b.WriteString(`><title>` + template.HTMLEscapeString(title) + `</title></` + element + `>`)
}

// path draws what the pen did. An empty path is left out.
func (f *Figure) path(class string, draw func(*pen)) {
	var p pen
	if draw(&p); len(p.b) > 0 {
		f.b.WriteString(`<path class="` + template.HTMLEscapeString(class) + `" d="`)
		f.b.Write(p.b)
		f.b.WriteString(`"/>`)
	}
}

// pen writes the data of a path with relative moves, in whole tenths of a unit. So rounding never adds up.
type pen struct {
	b    []byte
	x, y int64
	run  byte // of the command h or v that the last number belongs to
	from int  // where that number begins
	sum  int64
}

func tenths(v float64) int64 { return int64(math.Round(v * 10)) }

func (p *pen) move(x, y float64) {
	p.x, p.y, p.run = tenths(x), tenths(y), 0
	p.number(append(p.b, 'M'), p.x)
	p.number(append(p.b, ' '), p.y)
}

// to goes straight along one axis. A step in the direction of the last one prolongs that.
func (p *pen) to(x, y float64) {
	if dx := tenths(x) - p.x; dx != 0 {
		p.straight('h', dx)
	}
	if dy := tenths(y) - p.y; dy != 0 {
		p.straight('v', dy)
	}
	p.x, p.y = tenths(x), tenths(y)
}

func (p *pen) straight(command byte, by int64) {
	if p.run == command && (p.sum > 0) == (by > 0) {
		p.sum += by
		p.number(p.b[:p.from], p.sum)
		return
	}
	p.run, p.sum = command, by
	p.b = append(p.b, command)
	p.from = len(p.b)
	p.number(p.b, by)
}

func (p *pen) line(x, y float64) {
	p.number(append(p.b, 'l'), tenths(x)-p.x)
	p.number(append(p.b, ' '), tenths(y)-p.y)
	p.x, p.y, p.run = tenths(x), tenths(y), 0
}

func (p *pen) close() { p.b, p.run = append(p.b, 'z'), 0 }

// number appends tenths to b: 12 is 1.2, and 5 is .5.
func (p *pen) number(b []byte, tenths int64) {
	if tenths < 0 {
		b, tenths = append(b, '-'), -tenths
	}
	if tenths >= 10 || tenths == 0 {
		b = strconv.AppendInt(b, tenths/10, 10)
	}
	if tenths%10 != 0 {
		b = append(b, '.', byte('0'+tenths%10))
	}
	p.b = b
}

func decimal(v float64) string {
	var p pen
	p.number(nil, tenths(v))
	return string(p.b)
}

func absent(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

func ifSet(s, then string) string {
	if s == "" {
		return ""
	}
	return then
}
