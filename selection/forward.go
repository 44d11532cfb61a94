package selection

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

const (
	ridge   = 1e-3 // of the variance of a column, added to it
	spent   = .01  // share of its variance below which a column is closed: the chosen ones contain it
	tie     = .005 // of the best gain: metrics this close are equal
	noGain  = 1e-6
	overrun = .25 // share of the training range by which predictions may exceed it
)

// state is a regression of one problem on some of its blocks. It grows column by column, by Gram–Schmidt on inner
// products, so that only the rows to be predicted are read.
type state struct {
	p      problem
	n      float64
	blocks []int
	mean   []float64 // of each term
	meanY  float64
	total  float64 // sum of squares of the response
	start  []float64
	d, c   []float64   // residual sum of squares of each term, and residual product with the response
	inner  [][]float64 // residual products within each metric
	steps  [][]float64 // of each column taken: its products with all terms, orthogonal to the earlier ones
	terms  []int       // the columns taken

	low, high  float64
	held       []int       // blocks to predict
	basis      [][]float64 // of each column taken: its orthogonal values in the rows of held
	prediction []float64
}

func newState(p problem, train, held []int) *state {
	terms := len(p.g.d.Terms)
	s := &state{
		p: p, blocks: train, held: held,
		mean: make([]float64, terms), start: make([]float64, terms),
		d: make([]float64, terms), c: make([]float64, terms),
		low: math.Inf(1), high: math.Inf(-1),
	}
	var square float64
	for _, b := range train {
		s.n += float64(p.g.rows(b))
		s.meanY += p.target.sum[b]
		square += p.target.square[b]
		floats.Add(s.mean, p.g.sum[b*terms:(b+1)*terms])
		floats.Add(s.d, p.g.square[b*terms:(b+1)*terms])
		floats.Add(s.c, p.target.cross[b*terms:(b+1)*terms])
		for _, y := range p.g.part(p.target.y, b) {
			s.low, s.high = min(s.low, y), max(s.high, y)
		}
	}
	s.meanY /= s.n
	s.total = max(0, square-s.n*s.meanY*s.meanY)
	floats.Scale(1/s.n, s.mean)
	for i, m := range s.mean {
		s.d[i] = max(0, s.d[i]-s.n*m*m)
		s.c[i] -= s.n * m * s.meanY
	}
	copy(s.start, s.d)
	s.centreInner()
	room := overrun * (s.high - s.low)
	s.low, s.high = s.low-room, s.high+room
	rows := 0
	for _, b := range held {
		rows += p.g.rows(b)
	}
	s.prediction = make([]float64, rows)
	for i := range s.prediction {
		s.prediction[i] = s.meanY
	}
	return s
}

func (s *state) centreInner() {
	g := s.p.g
	s.inner = make([][]float64, len(g.inner))
	for k, in := range g.inner {
		if in == nil {
			continue
		}
		terms := g.d.Metrics[k].Terms
		m := len(terms)
		sum := make([]float64, m*m)
		for _, b := range s.blocks {
			floats.Add(sum, in[b*m*m:(b+1)*m*m])
		}
		for i, a := range terms {
			for j, b := range terms {
				sum[i*m+j] -= s.n * s.mean[a] * s.mean[b]
			}
		}
		s.inner[k] = sum
	}
}

// open reports whether a term has enough residual variance. A term that is constant in these blocks is closed from the
// start.
func (s *state) open(term int) bool {
	return s.d[term] > spent*s.start[term] && s.start[term] > 1e-6*s.n
}

// gain returns the share of the response's sum of squares that a metric would add: cᵀD⁻¹c over its open terms.
func (s *state) gain(metric int) float64 {
	if s.total <= 0 {
		return 0
	}
	terms := s.p.g.d.Metrics[metric].Terms
	if len(terms) == 1 {
		t := terms[0]
		if !s.open(t) {
			return 0
		}
		return s.c[t] * s.c[t] / (s.d[t] + ridge*s.start[t]) / s.total
	}
	return s.gainOfSeveral(metric, terms) / s.total
}

// gainOfSeveral solves with the Cholesky factor of D: gain = |L⁻¹c|².
func (s *state) gainOfSeveral(metric int, terms []int) float64 {
	m := len(terms)
	var openTerms []int
	for i, t := range terms {
		if s.open(t) {
			openTerms = append(openTerms, i)
		}
	}
	factor := make([]float64, len(openTerms)*len(openTerms))
	solved := make([]float64, len(openTerms))
	gain := 0.
	for i, a := range openTerms {
		row := factor[i*len(openTerms):]
		for j, b := range openTerms[:i+1] {
			v := s.inner[metric][a*m+b]
			if i == j {
				v += ridge * s.start[terms[a]]
			}
			for k := range j {
				v -= row[k] * factor[j*len(openTerms)+k]
			}
			if i == j {
				row[j] = math.Sqrt(max(v, ridge*ridge*s.start[terms[a]]))
			} else {
				row[j] = v / factor[j*len(openTerms)+j]
			}
		}
		v := s.c[terms[a]]
		for k := range i {
			v -= row[k] * solved[k]
		}
		solved[i] = v / row[i]
		gain += solved[i] * solved[i]
	}
	return gain
}

// take adds the open terms of a metric to the regression.
func (s *state) take(metric int) {
	for _, t := range s.p.g.d.Metrics[metric].Terms {
		if s.open(t) {
			s.takeTerm(t)
		}
	}
}

func (s *state) takeTerm(term int) {
	g := s.p.g
	terms := len(s.d)
	v := make([]float64, terms)
	products := g.products(term)
	for _, b := range s.blocks {
		floats.Add(v, products[b*terms:(b+1)*terms])
	}
	floats.AddScaled(v, -s.n*s.mean[term], s.mean)
	for _, before := range s.steps {
		floats.AddScaled(v, -before[term], before)
	}
	root := math.Sqrt(s.d[term])
	floats.Scale(1/root, v)
	s.predict(term, root)
	share := s.c[term] / root
	for i, w := range v {
		s.d[i] = max(0, s.d[i]-w*w)
	}
	floats.AddScaled(s.c, -share, v)
	s.d[term], s.c[term] = 0, 0
	for k, in := range s.inner {
		if in == nil {
			continue
		}
		of := g.d.Metrics[k].Terms
		for i, a := range of {
			for j, b := range of {
				in[i*len(of)+j] -= v[a] * v[b]
			}
		}
	}
	s.steps = append(s.steps, v)
	s.terms = append(s.terms, term)
}

// predict adds the part of a term that is orthogonal to the earlier ones to the prediction of the held-out rows.
func (s *state) predict(term int, root float64) {
	if len(s.held) == 0 {
		return
	}
	basis := make([]float64, 0, len(s.prediction))
	for _, b := range s.held {
		for _, x := range s.p.g.part(s.p.g.d.Terms[term].X, b) {
			basis = append(basis, x-s.mean[term])
		}
	}
	for i, before := range s.basis {
		floats.AddScaled(basis, -s.steps[i][term], before)
	}
	floats.Scale(1/root, basis)
	coefficient := s.c[term] / root * s.d[term] / (s.d[term] + ridge*s.start[term])
	floats.AddScaled(s.prediction, coefficient, basis)
	s.basis = append(s.basis, basis)
}

// errors returns the sum of squared errors of the held-out rows. If each is not nil, it also stores the error of each
// row of the design there.
func (s *state) errors(each []float64) float64 {
	sum, i := 0., 0
	for _, b := range s.held {
		for j, y := range s.p.g.part(s.p.target.y, b) {
			e := y - min(max(s.prediction[i], s.low), s.high)
			sum += e * e
			if each != nil {
				each[s.p.g.d.Bounds[b]+j] = e
			}
			i++
		}
	}
	return sum
}

// path takes metric after metric for all its problems together. The problems share the metrics, and each has
// coefficients of its own.
type path struct {
	d      *Design
	states []*state
	prefer preference
	taken  []bool
	chosen []int
	gains  []float64
	now    []float64 // of the current step
}

func newPath(d *Design, prefer preference, states []*state) *path {
	return &path{
		d: d, states: states, prefer: prefer,
		taken: make([]bool, len(d.Metrics)), now: make([]float64, len(d.Metrics)),
	}
}

// next takes the metric with the largest gain, averaged over the problems as a share of their own response. It returns
// false if no metric adds anything.
func (p *path) next() bool {
	if len(p.states) == 0 {
		return false
	}
	gains := p.now
	clear(gains)
	best := 0.
	for m := range gains {
		if p.taken[m] {
			continue
		}
		for _, s := range p.states {
			gains[m] += s.gain(m)
		}
		gains[m] /= float64(len(p.states))
		best = max(best, gains[m])
	}
	if best < noGain {
		return false
	}
	found := -1
	for m, gain := range gains {
		if gain >= best*(1-tie) && !p.taken[m] && (found < 0 || p.prefer.before(p.d, m, found, p.chosen)) {
			found = m
		}
	}
	for _, s := range p.states {
		s.take(found)
	}
	p.taken[found] = true
	p.chosen = append(p.chosen, found)
	p.gains = append(p.gains, gains[found])
	return true
}

// preference decides between metrics with equal gains.
type preference struct {
	keep, previous map[string]bool
	cost           map[string]float64
}

func newPreference(o Options) preference {
	p := preference{keep: make(map[string]bool), previous: make(map[string]bool), cost: o.Cost}
	for _, name := range o.Keep {
		p.keep[name] = true
	}
	for _, name := range o.Previous {
		p.previous[name] = true
	}
	return p
}

// before reports whether metric a is preferred to b. Metrics to be kept in any case come first, then metrics on the
// list in force. Next comes the cheaper source, which costs nothing if it is read for a chosen metric anyway. The name
// decides last.
func (p preference) before(d *Design, a, b int, chosen []int) bool {
	x, y := d.Metrics[a], d.Metrics[b]
	if p.keep[x.Name] != p.keep[y.Name] {
		return p.keep[x.Name]
	}
	if p.previous[x.Name] != p.previous[y.Name] {
		return p.previous[x.Name]
	}
	costX, costY := p.cost[x.Source], p.cost[y.Source]
	for _, c := range chosen {
		if d.Metrics[c].Source == x.Source {
			costX = 0
		}
		if d.Metrics[c].Source == y.Source {
			costY = 0
		}
	}
	if costX != costY {
		return costX < costY
	}
	return x.Name < y.Name
}
