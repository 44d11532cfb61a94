package selection

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	sweepSteps    = 20 // thresholds 0, .05, … 1
	leastPerChunk = 8  // rows of a chunk: four parts of two
	mostChunks    = 48
)

// CompareOptions are the options of a comparison.
type CompareOptions struct {
	Select Options  // of the forward method; Quadratic applies to all methods
	Main   []string // metrics that a person would choose; empty: no such list
	Chunks int      // equal stretches of time; 0: 12
	Train  int      // number of first chunks that choose, the others verify; 0: half; the paper uses 1 or 2
	Draws  int      // random sets for RAND; 0: 20
}

// Verified is the R² of a set of metrics on one chunk that took no part in choosing it, or the mean over several.
type Verified struct {
	Chunk    string  `json:"chunk,omitempty"` // its number, and its unit if chunks are units
	Rows     int     `json:"rows"`
	InSample float64 `json:"in_sample"` // coefficients from this chunk, as in the paper
	Adjusted float64 `json:"adjusted"`  // InSample, reduced by the expectation for noise
	HeldOut  float64 `json:"held_out"`  // coefficients from the training chunks
	Refit    float64 `json:"refit"`     // new coefficients within this chunk, held out in four parts
}

// Swept is the literal method at one threshold: a point of the paper's figures 2 and 4.
type Swept struct {
	Threshold float64  `json:"threshold"`
	Clusters  int      `json:"clusters"`
	Metrics   int      `json:"metrics"`
	Reduction float64  `json:"reduction_degree"`
	InSample  float64  `json:"in_sample"` // on the training chunks
	Adjusted  float64  `json:"adjusted"`
	HeldOut   float64  `json:"held_out"` // over all verification chunks together, about their common mean
	Verified  Verified `json:"verified"` // mean over the verification chunks
	Refused   string   `json:"refused,omitempty"`
}

// Contender is one method: a bar of each group in the paper's figures 3, 5 and 6.
type Contender struct {
	Method   string     `json:"method"`  // literal, RAND, MAIN or forward
	Metrics  int        `json:"metrics"` // number of metrics
	Names    []string   `json:"names,omitempty"`
	InSample float64    `json:"in_sample"` // on the training chunks
	Adjusted float64    `json:"adjusted"`
	HeldOut  float64    `json:"held_out"` // over all verification chunks together, about their common mean
	Chunks   []Verified `json:"chunks"`
	Mean     Verified   `json:"mean"`
	Low      Verified   `json:"low"` // the least of each
	High     Verified   `json:"high"`
	Refused  string     `json:"refused,omitempty"`

	saturated bool // as many predictors as rows
}

// Comparison shows the metrics that each method keeps, and how well they explain a response that took no part in the
// choice.
type Comparison struct {
	Response   string      `json:"response"`
	Model      string      `json:"model"` // linear or quadratic
	Rows       int         `json:"rows"`
	Metrics    int         `json:"metrics"`
	Chunks     int         `json:"chunks"`
	Train      int         `json:"train"`
	Threshold  float64     `json:"threshold"` // of the literal method: the best in-sample R² in training
	Sweep      []Swept     `json:"sweep"`
	Contenders []Contender `json:"contenders"`
	Warnings   []string    `json:"warnings,omitempty"`
}

// Compare runs every method on the first chunks of a table, and scores its selection on the others. Chunks are equal
// stretches of time, or the units if there are at least as many. All methods see the same rows, without torn ones and
// wild responses. If there are several responses, the first counts.
//
// Literal, RAND and MAIN regress on unscaled values of the first column of each metric, as in the paper. "literal,
// scaled" uses the scale of the forward method, to separate the gain of scaling from the gain of selecting.
func Compare(t *Table, o CompareOptions) (*Comparison, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	if len(t.Responses) == 0 {
		return nil, errors.New("a comparison needs a response: name what the metrics shall explain")
	}
	c, err := newChunked(t, &o)
	if err != nil {
		return nil, err
	}
	out := &Comparison{
		Response: c.all.Responses[0].Name, Model: "linear", Rows: c.all.Rows(), Metrics: len(c.all.Metrics),
		Chunks: len(c.bounds) - 1, Train: o.Train, Warnings: c.warnings,
	}
	if o.Select.Quadratic {
		out.Model = "quadratic"
	}
	if o.Train < 3 {
		out.Warnings = append(out.Warnings, fmt.Sprintf(
			"%d of %d chunks choose the metrics: what so few regimes choose may not last", o.Train, out.Chunks))
	}
	raw := newRawColumns(c, o.Select.Quadratic)
	literal := c.sweep(out, raw, o)
	out.Contenders = append(out.Contenders, literal)
	forward, scaled := c.forward(o, out), c.literalScaled(o, literal, out.Threshold)
	if literal.Metrics > 0 {
		out.Contenders = append(out.Contenders, c.random(raw, literal.Metrics, o))
	}
	if forward.Metrics > 0 && forward.Metrics != literal.Metrics {
		out.Contenders = append(out.Contenders, c.random(raw, forward.Metrics, o))
	}
	if len(o.Main) > 0 {
		out.Contenders = append(out.Contenders, c.main(raw, o.Main, out))
	}
	out.Contenders = append(out.Contenders, scaled, forward)
	for _, k := range out.Contenders {
		if k.saturated {
			out.Warnings = append(out.Warnings, fmt.Sprintf(
				"%s has as many predictors as a chunk has rows: in-sample R² is 1 for any response, and adjusted 0",
				k.Method))
		}
	}
	return out, nil
}

func (o CompareOptions) complete() (CompareOptions, error) {
	if o.Chunks == 0 {
		o.Chunks = 12
	}
	if o.Draws == 0 {
		o.Draws = 20
	}
	switch {
	case o.Chunks < 2 || o.Chunks > mostChunks:
		return o, fmt.Errorf("%d chunks: there must be 2 to %d", o.Chunks, mostChunks)
	case o.Draws < 1 || o.Draws > 1000:
		return o, fmt.Errorf("%d random sets: there must be 1 to 1000", o.Draws)
	case o.Train < 0 || o.Train >= o.Chunks:
		return o, fmt.Errorf("%d of %d chunks choose the metrics: at least one must, and one must verify",
			o.Train, o.Chunks)
	}
	s, err := o.Select.complete()
	if err != nil {
		return o, err
	}
	o.Select = s
	o.Select.Halves, o.Select.Coverage = 0, 0 // these belong to a report, not to a comparison
	return o, nil
}

// chunked is a table with its rows in the order of chunks. The first chunks choose metrics, the others verify them.
type chunked struct {
	all, train *Table
	bounds     []int // chunk c consists of rows bounds[c] to bounds[c+1]-1
	names      []string
	training   []int // rows
	verify     int   // the first chunk that verifies
	warnings   []string
}

// newChunked orders rows by chunk and metrics by name, so that the order of a table's columns changes no bit.
func newChunked(t *Table, o *CompareOptions) (*chunked, error) {
	one := *t
	one.Responses = t.Responses[:1:1]
	d := &Design{Responses: []string{one.Responses[0].Name}}
	rows, _ := ordered(&one)
	rows = d.withoutTorn(&one, rows)
	rows, err := d.withResponse(&one, rows)
	if err != nil {
		return nil, err
	}
	c := &chunked{warnings: d.Warnings}
	if lost := d.Out.Torn + d.Out.NoResponse + d.Out.Outlying; lost > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("%d of %d rows are out: %s", lost, t.Rows(), d.Out))
	}
	rows = c.cut(&one, rows, o)
	least := len(rows)
	for i := range len(c.bounds) - 1 {
		least = min(least, c.bounds[i+1]-c.bounds[i])
	}
	if least < leastPerChunk {
		return nil, fmt.Errorf(
			"a chunk has %d rows and needs %d (%d rows, %d chunks): measure longer, or cut fewer chunks",
			least, leastPerChunk, len(rows), len(c.bounds)-1)
	}
	c.all = one.arranged(rows)
	c.verify = o.Train
	n := c.bounds[o.Train]
	c.train = c.all.firstRows(n)
	for row := range n {
		c.training = append(c.training, row)
	}
	if y := c.train.Responses[0]; constant(y.Values) {
		return nil, fmt.Errorf("response %q is constant (%g) over the %d rows that choose: let more chunks choose",
			y.Name, y.Values[0], n)
	}
	return c, nil
}

// cut orders rows by chunk, and sets the number of chunks that choose.
func (c *chunked) cut(t *Table, rows []int, o *CompareOptions) []int {
	units := unitStarts(t, rows)
	if count := len(units) - 1; count >= o.Chunks && count > 1 {
		order := make([]int, count) // jobs by their start: later ones verify
		for u := range order {
			order[u] = u
		}
		start := func(u int) int64 { return t.Start[rows[units[u]]] }
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(start(a), start(b)) })
		chunks := min(count, mostChunks)
		var out []int
		for k := range chunks {
			c.bounds = append(c.bounds, len(out))
			from, to := k*count/chunks, (k+1)*count/chunks
			for _, u := range order[from:to] {
				out = append(out, rows[units[u]:units[u+1]]...)
			}
			name := t.unitName(rows[units[order[from]]])
			if to-from > 1 {
				name = fmt.Sprintf("%s and %d more", name, to-from-1)
			}
			c.names = append(c.names, name)
		}
		c.bounds = append(c.bounds, len(out))
		if o.Train == 0 {
			o.Train = chunks / 2
		}
		return out
	}
	out := slices.Clone(rows)
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(t.Start[a], t.Start[b]) })
	for k := range o.Chunks + 1 {
		c.bounds = append(c.bounds, k*len(out)/o.Chunks)
		c.names = append(c.names, strconv.Itoa(k+1))
	}
	if o.Train == 0 {
		o.Train = o.Chunks / 2
	}
	return out
}

// arranged returns a copy of t with some rows, and metrics by name.
func (t *Table) arranged(rows []int) *Table {
	out := &Table{Start: pick(t.Start, rows), Units: t.Units}
	if t.Unit != nil {
		out.Unit = pick(t.Unit, rows)
	}
	for _, r := range t.Responses {
		out.Responses = append(out.Responses, Response{Name: r.Name, Values: pick(r.Values, rows)})
	}
	for _, m := range t.Metrics {
		m.Columns = slices.Clone(m.Columns)
		for i := range m.Columns {
			m.Columns[i].Values = pick(m.Columns[i].Values, rows)
		}
		out.Metrics = append(out.Metrics, m)
	}
	slices.SortFunc(out.Metrics, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// firstRows returns the first n rows of t. It shares the values.
func (t *Table) firstRows(n int) *Table {
	out := &Table{Start: t.Start[:n], Units: t.Units}
	if t.Unit != nil {
		out.Unit = t.Unit[:n]
	}
	for _, r := range t.Responses {
		out.Responses = append(out.Responses, Response{Name: r.Name, Values: r.Values[:n]})
	}
	for _, m := range t.Metrics {
		m.Columns = slices.Clone(m.Columns)
		for i := range m.Columns {
			m.Columns[i].Values = m.Columns[i].Values[:n]
		}
		out.Metrics = append(out.Metrics, m)
	}
	return out
}

// sweep runs the literal method at each threshold. The threshold with the best in-sample R² becomes the contender, as
// in the paper.
func (c *chunked) sweep(out *Comparison, raw *rawColumns, o CompareOptions) Contender {
	thresholds := make([]float64, sweepSteps+1)
	for i := range thresholds {
		thresholds[i] = float64(i) / sweepSteps
	}
	options := LiteralOptions{FToRemove: 2, Quadratic: o.Select.Quadratic}
	all, errs := sweepLiteral(c.train, 0, options, thresholds)
	best := Contender{Method: "literal", Refused: "it refuses at every threshold"}
	for i, l := range all {
		s := Swept{Threshold: thresholds[i], Clusters: len(l.Clusters)}
		if errs[i] != nil {
			s.Refused = l.Error
			out.Sweep = append(out.Sweep, s)
			continue
		}
		k := c.contend("literal", l.Selected, raw.of(l.Selected))
		s.Metrics, s.Reduction = k.Metrics, l.ReductionDegree
		s.InSample, s.Adjusted, s.HeldOut, s.Verified = k.InSample, k.Adjusted, k.HeldOut, k.Mean
		out.Sweep = append(out.Sweep, s)
		if best.Refused != "" || k.InSample > best.InSample {
			best, out.Threshold = k, thresholds[i]
		}
	}
	return best
}

// forward runs the recommended method.
func (c *chunked) forward(o CompareOptions, all *Comparison) Contender {
	out := Contender{Method: "forward"}
	s, err := Select(c.train, o.Select)
	if err == nil {
		all.Warnings = append(all.Warnings, s.Warnings...)
		var names []string
		for _, k := range s.Kept {
			if k.Tier == TierResponse {
				names = append(names, k.Name)
			}
		}
		var x [][]float64
		if x, err = c.scaled(o.Select, s.Scale, names); err == nil {
			out = c.contend(out.Method, names, x)
			if !s.Predictable {
				out.Refused = "the metrics do not predict the response: it chooses none"
			}
		}
	}
	if err != nil {
		out.Refused = err.Error()
	}
	return out
}

// scaled returns the columns of some metrics on the scale of a design of the training rows.
func (c *chunked) scaled(o Options, scale string, names []string) ([][]float64, error) {
	if len(names) == 0 {
		return nil, nil
	}
	names = slices.Sorted(slices.Values(names))
	d, err := Prepare(c.train, o)
	if err != nil {
		return nil, err
	}
	if scale == "linear" {
		d = d.linear(d.named(names))
	}
	return d.Values(c.all, names)
}
