package chart

import (
	"math"
	"strconv"
)

// pen writes the data of a path with relative moves, in whole tenths of a unit. So rounding never adds up.
type pen struct {
	b    []byte
	x, y int64
	run  byte // h or v: the last command, which a step in the same direction prolongs
	from int  // start of the number of run in the path
	sum  int64
}

func (p *pen) move(x, y float64) {
	p.x, p.y, p.run = tenths(x), tenths(y), 0
	p.b = appendTenths(append(appendTenths(append(p.b, 'M'), p.x), ' '), p.y)
}

func (p *pen) line(x, y float64) {
	p.b = appendTenths(append(appendTenths(append(p.b, 'l'), tenths(x)-p.x), ' '), tenths(y)-p.y)
	p.x, p.y, p.run = tenths(x), tenths(y), 0
}

// step goes straight along one axis.
func (p *pen) step(x, y float64) {
	p.straight('h', tenths(x)-p.x)
	p.straight('v', tenths(y)-p.y)
	p.x, p.y = tenths(x), tenths(y)
}

func (p *pen) straight(command byte, by int64) {
	switch {
	case by == 0:
		return
	case p.run == command && (p.sum > 0) == (by > 0):
		p.b = p.b[:p.from]
	default:
		p.b = append(p.b, command)
		p.run, p.from, p.sum = command, len(p.b), 0
	}
	p.sum += by
	p.b = appendTenths(p.b, p.sum)
}

func (p *pen) close() { p.b, p.run = append(p.b, 'z'), 0 }

func tenths(v float64) int64 { return int64(math.Round(v * 10)) }

// appendTenths writes 12 as 1.2, and 5 as .5.
func appendTenths(b []byte, v int64) []byte {
	if v < 0 {
		b, v = append(b, '-'), -v
	}
	if v >= 10 || v == 0 {
		b = strconv.AppendInt(b, v/10, 10)
	}
	if v%10 != 0 {
		b = append(b, '.', byte('0'+v%10))
	}
	return b
}

// unit is a position, formatted for an attribute.
type unit float64

func (u unit) String() string { return string(appendTenths(nil, tenths(float64(u)))) }
