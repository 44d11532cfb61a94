package selection

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// literalScaled runs the literal method on the scale of the forward method, at the threshold of the literal contender.
func (c *chunked) literalScaled(o CompareOptions, literal Contender, threshold float64) Contender {
	out := Contender{Method: "literal, scaled"}
	if literal.Refused != "" {
		threshold = o.Select.Threshold
	}
	first := func(t *Table) *Table {
		one := *t
		one.Metrics = slices.Clone(t.Metrics)
		for i := range one.Metrics {
			one.Metrics[i].Columns = one.Metrics[i].Columns[:1]
		}
		return &one
	}
	plain := o.Select
	plain.Statistics, plain.Quadratic = nil, false
	all := first(c.all)
	d, err := Prepare(first(c.train), plain)
	if err != nil {
		out.Refused = err.Error()
		return out
	}
	names := make([]string, len(d.Metrics))
	for i, g := range d.Metrics {
		names[i] = g.Name
	}
	x, err := d.Values(all, names)
	if err != nil {
		out.Refused = err.Error()
		return out
	}
	all.Metrics = nil
	for i, name := range names {
		all.Metrics = append(all.Metrics, Metric{Name: name, Columns: []Column{{Values: x[i]}}})
	}
	s := *c
	s.all, s.train = all, all.firstRows(len(c.training))
	options := LiteralOptions{Threshold: threshold, FToRemove: 2, Quadratic: o.Select.Quadratic}
	l, err := SelectLiteral(s.train, 0, options)
	if err != nil {
		out.Refused = err.Error()
		return out
	}
	return s.contend(out.Method, l.Selected, newRawColumns(&s, o.Select.Quadratic).of(l.Selected))
}

// random returns the mean over random sets of all metrics, including constant ones.
func (c *chunked) random(raw *rawColumns, count int, o CompareOptions) Contender {
	out := Contender{Method: "RAND", Metrics: count}
	r := rand.New(rand.NewPCG(o.Select.Seed, uint64(count))) //nolint:gosec // draws of a study, from the seed alone
	names := c.all.Names()
	share := 1 / float64(o.Draws)
	for draw := range o.Draws {
		for i := range count { // Fisher and Yates
			j := i + r.IntN(len(names)-i)
			names[i], names[j] = names[j], names[i]
		}
		k := c.contend(out.Method, names[:count], raw.of(names[:count]))
		out.InSample += share * k.InSample
		out.Adjusted += share * k.Adjusted
		out.HeldOut += share * k.HeldOut
		out.saturated = out.saturated || k.saturated
		if draw == 0 {
			out.Chunks = make([]Verified, len(k.Chunks))
		}
		for i, v := range k.Chunks {
			out.Chunks[i].add(v, share)
			out.Chunks[i].Chunk, out.Chunks[i].Rows = v.Chunk, v.Rows
		}
	}
	out.summarise()
	return out
}

// main scores a person's list.
func (c *chunked) main(raw *rawColumns, list []string, out *Comparison) Contender {
	known, unknown := []string{}, []string{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(list))) {
		if _, ok := raw.at[name]; ok {
			known = append(known, name)
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d of %d names of MAIN are not in the table: %s",
			len(unknown), len(list), someNames(unknown)))
	}
	return c.contend("MAIN", known, raw.of(known))
}

// contend scores columns on the training chunks and on each of the others.
func (c *chunked) contend(method string, names []string, x [][]float64) Contender {
	out := Contender{Method: method, Metrics: len(names), Names: slices.Sorted(slices.Values(names))}
	y := c.all.Responses[0].Values
	inSample := func(rows []int) (r2, adjusted float64) {
		out.saturated = out.saturated || len(x) >= len(rows)-1
		return InSample(x, y, rows)
	}
	out.InSample, out.Adjusted = inSample(c.training)
	fit := ridgeFit(x, y, c.training)
	var all []int
	for k := c.verify; k < len(c.bounds)-1; k++ {
		rows := make([]int, 0, c.bounds[k+1]-c.bounds[k])
		for row := c.bounds[k]; row < c.bounds[k+1]; row++ {
			rows = append(rows, row)
		}
		v := Verified{Chunk: c.names[k], Rows: len(rows)}
		v.InSample, v.Adjusted = inSample(rows)
		v.HeldOut = fit.r2(x, y, rows)
		v.Refit = Refit(x, y, [][]int{rows})
		out.Chunks = append(out.Chunks, v)
		all = append(all, rows...)
	}
	out.HeldOut = fit.r2(x, y, all)
	out.summarise()
	return out
}

// summarise sets the mean, the minimum and the maximum over the chunks.
func (k *Contender) summarise() {
	if len(k.Chunks) == 0 {
		return
	}
	k.Mean, k.Low, k.High = Verified{}, k.Chunks[0], k.Chunks[0]
	k.Low.Chunk, k.High.Chunk = "", ""
	for _, v := range k.Chunks {
		k.Mean.add(v, 1/float64(len(k.Chunks)))
		k.Mean.Rows += v.Rows
		k.Low.Rows, k.High.Rows = min(k.Low.Rows, v.Rows), max(k.High.Rows, v.Rows)
		low, high, values := k.Low.values(), k.High.values(), v.values()
		for i, value := range values {
			*low[i], *high[i] = min(*low[i], *value), max(*high[i], *value)
		}
	}
}

func (v *Verified) values() [4]*float64 {
	return [4]*float64{&v.InSample, &v.Adjusted, &v.HeldOut, &v.Refit}
}

// add adds a share of the R² of w.
func (v *Verified) add(w Verified, share float64) {
	from := w.values()
	for i, to := range v.values() {
		*to += share * *from[i]
	}
}

// rawColumns are the columns of each metric as the literal method uses them, for all rows. Missing values are replaced
// by the mean of the training rows, so that a verification chunk keeps all its rows.
type rawColumns struct {
	at        map[string][]float64
	quadratic bool
	training  int
}

func newRawColumns(c *chunked, quadratic bool) *rawColumns {
	r := &rawColumns{
		at: make(map[string][]float64), quadratic: quadratic, training: len(c.training),
	}
	for _, m := range c.all.Metrics {
		r.at[m.Name] = m.Columns[0].Values
	}
	return r
}

// of returns the columns of some metrics, by name. With a quadratic model each is followed by its square.
func (r *rawColumns) of(names []string) [][]float64 {
	names = slices.SortedFunc(slices.Values(names), strings.Compare)
	var out [][]float64
	for _, name := range names {
		x := r.at[name]
		known := make([]float64, 0, r.training)
		gaps := false
		for i, v := range x {
			if !present(v) {
				gaps = true
			} else if i < r.training {
				known = append(known, v)
			}
		}
		mean, sd := 0., 0.
		if len(known) > 0 {
			mean, sd = meanSD(known)
		}
		if gaps {
			x = slices.Clone(x)
			for i, v := range x {
				if !present(v) {
					x[i] = mean
				}
			}
		}
		out = append(out, x)
		if r.quadratic && sd > 0 && !twoValued(known) {
			square := make([]float64, len(x))
			for i, v := range x {
				square[i] = (v - mean) / sd * ((v - mean) / sd)
			}
			out = append(out, square)
		}
	}
	return out
}
