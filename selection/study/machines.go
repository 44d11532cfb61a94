package study

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weirhpc/weir/selection"
)

// The published shape: 0.033 Hz for one day in 12 chunks, so 240 rows each; 104 metrics a machine, 41 of them constant.
const (
	chunks         = 12
	chunkRows      = 240
	machineMetrics = 104
	constants      = 41
	machineFactors = 12 // cpu 2, memory 2, network 2, page, disk, cache, interrupts, processes, swap
	mainFactors    = 7  // of them in an administrator's list: its proxies of factors 0 to 6
	shared         = 3  // hidden processes that couple factors of all machines
)

// world is a set of machines with their factors, before metrics observe them.
type world struct {
	r                 *rand.Rand
	layout            *rand.Rand // decides which factors each metric observes: the nodes of a job share it
	rows              int
	quietest, loudest float64     // noise of a good proxy
	jobs              bool        // chunks are jobs, and noise is a share of each job's signal
	factors           [][]float64 // by machine, then by the machine's factor
}

// newWorld makes the factors of the machines. Each is an AR(1) process with bursts, coupled to a process that all
// machines share. Each chunk is a regime with its own gain and level for every factor. In one of eight chunks a factor
// is nearly asleep.
func newWorld(r *rand.Rand, machines, chunkCount int) *world {
	w := &world{r: r, layout: r, quietest: .05, loudest: .25, rows: chunkCount * chunkRows}
	common := make([][]float64, shared)
	for i := range common {
		common[i] = autoregressive(r, w.rows, .9)
	}
	for range machines * machineFactors {
		own, with := bursts(r, w.rows), common[r.IntN(shared)]
		coupling := between(r, 0, .7)
		for t := range own {
			own[t] = (own[t] + coupling*with[t]) / math.Sqrt(1+coupling*coupling)
		}
		w.factors = append(w.factors, regimes(r, own, chunkCount, .12))
	}
	return w
}

// bursts returns an AR(1) process of variance 1, with a burst every 100 rows or so.
func bursts(r *rand.Rand, n int) []float64 {
	phi := between(r, .6, .97)
	x := autoregressive(r, n, phi)
	burst := 0.0
	for t := range x {
		if burst *= .8; r.Float64() < .01 {
			burst += 2 * r.ExpFloat64()
		}
		x[t] += burst
	}
	return standardise(x)
}

func regimes(r *rand.Rand, x []float64, chunkCount int, asleep float64) []float64 {
	for c := range chunkCount {
		gain, level := math.Exp(.35*r.NormFloat64()), .5*r.NormFloat64()
		if r.Float64() < asleep {
			gain = .15
		}
		for t := c * chunkRows; t < (c+1)*chunkRows; t++ {
			x[t] = gain*x[t] + level
		}
	}
	return x
}

// view is one metric of a machine, with its values and the factors that it observes.
type view struct {
	values []float64
	loads  []int
	proxy  bool // observes one factor, with little noise
}

// noisy adds noise with a deviation of share times the signal's.
func (w *world) noisy(signal []float64, share float64) []float64 {
	x := slices.Clone(signal)
	stretch := len(x)
	if w.jobs {
		stretch = chunkRows
	}
	for low := 0; low < len(x); low += stretch {
		part := x[low : low+stretch]
		sd := deviation(part)
		for t := range part {
			part[t] += share * sd * w.r.NormFloat64()
		}
	}
	return x
}

// views returns the metrics of one machine with factors numbered from first. Good proxies come first, factor by factor.
func (w *world) views(factors, first, count, constant int) []view {
	var all []view
	for f := range factors {
		proxy := w.noisy(w.factors[first+f], between(w.layout, w.quietest, w.loudest))
		all = append(all, view{proxy, []int{first + f}, true})
	}
	for i := range count / 10 {
		all = append(all, view{unrelated(w.r, w.rows, i), nil, false})
	}
	rest := count - constant - len(all)
	twins, poor := int(math.Round(.65*float64(rest))), int(math.Round(.20*float64(rest)))
	for i := range rest {
		f := w.layout.IntN(factors)
		switch {
		case i < twins:
			share := []float64{0, .02, .10}[w.layout.IntN(3)]
			twin := w.noisy(all[f].values, share)
			all = append(all, view{twin, all[f].loads, true})
		case i < twins+poor:
			all = append(all, view{w.noisy(w.factors[first+f], between(w.layout, .4, 1.3)), all[f].loads, false})
		default:
			g := (f + 1 + w.layout.IntN(factors-1)) % factors
			all = append(all, view{w.mixture(first+f, first+g), []int{first + f, first + g}, false})
		}
	}
	for range constant {
		all = append(all, view{values: make([]float64, w.rows)})
	}
	return all
}

func (w *world) mixture(f, g int) []float64 {
	x := make([]float64, w.rows)
	a, b := sign(w.layout)*between(w.layout, .5, 1), sign(w.layout)*between(w.layout, .5, 1)
	for t := range x {
		x[t] = a*w.factors[f][t] + b*w.factors[g][t]
	}
	return w.noisy(x, .1)
}

// unrelated returns an AR(1) process, a random walk or a rare 0/1, in turn.
func unrelated(r *rand.Rand, n, turn int) []float64 {
	switch turn % 3 {
	case 0:
		return autoregressive(r, n, between(r, 0, .97))
	case 1:
		x := make([]float64, n)
		for t := 1; t < n; t++ {
			x[t] = x[t-1] + r.NormFloat64()
		}
		return standardise(x)
	}
	x := make([]float64, n)
	for t := range x {
		if r.Float64() < .01 {
			x[t] = 1
		}
	}
	return x
}

// table makes the metrics of all machines, and links that observe the networks of two machines. Names are independent
// of the observed factors, so that ties decided by name cannot help a method.
func (w *world) table(machines, links int) *Case {
	c := &Case{Table: &selection.Table{}, Oracle: make([]int, len(w.factors))}
	c.Chunks = stretches(w.rows, w.rows/chunkRows)
	for t := range w.rows {
		c.Table.Start = append(c.Table.Start, int64(t)*30_000)
	}
	for m := range machines {
		all := w.views(machineFactors, m*machineFactors, machineMetrics, constants)
		for place, i := range w.r.Perm(len(all)) {
			name := fmt.Sprintf("m%d.%03d", m, place)
			if i < machineFactors {
				c.Oracle[m*machineFactors+i] = len(c.Table.Metrics)
			}
			if i < mainFactors {
				c.Main = append(c.Main, name)
			}
			c.add(w.r, name, all[i])
		}
	}
	for i := range links {
		f, g := w.layout.IntN(machines)*machineFactors+4, w.layout.IntN(machines)*machineFactors+5
		c.add(w.r, fmt.Sprintf("link.%d", i), view{values: w.mixture(f, g), loads: []int{f, g}})
	}
	return c
}

// add gives a metric a unit and an offset of its own.
func (c *Case) add(r *rand.Rand, name string, v view) {
	scale, offset := sign(r)*math.Pow(10, between(r, -2, 7)), between(r, -20, 20)
	values := make([]float64, len(v.values))
	for t, x := range v.values {
		values[t] = scale * (x + offset)
	}
	c.Loads = append(c.Loads, v.loads)
	columns := []selection.Column{{Values: values}}
	c.Table.Metrics = append(c.Table.Metrics, selection.Metric{Name: name, Columns: columns})
}

// respond sets the response: the signal, and AR(.5) noise with a deviation of share times the signal's. The oracle is
// reduced to the active factors.
func (c *Case) respond(r *rand.Rand, signal []float64, active []int, share float64) *Case {
	y, noise := standardise(signal), autoregressive(r, len(signal), .5)
	for t := range y {
		y[t] = 100 + 10*(y[t]+share*noise[t])
	}
	c.Table.Responses = []selection.Response{{Name: "y", Values: y}}
	c.Active, c.Oracle = active, pick(c.Oracle, active)
	return c
}
