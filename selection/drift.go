package selection

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Drift is the reference for later rows, recorded when the selection is made. It contains a model of each response, and
// a prediction of each dropped metric from kept ones.
type Drift struct {
	Centred  bool // several jobs or nodes: each has a level of its own
	Models   []DriftModel
	Columns  []DriftColumn // of all metrics that canaries use, by name
	Canaries []Canary      // by name
}

// DriftModel is the model of a response.
type DriftModel struct {
	Model
	// Renewed: each job has coefficients of its own, so new rows get new ones. LogMSE then refers to 1 − R² of the
	// terms.
	Renewed bool
}

// DriftColumn is the scaling of a metric's values in training. If the metric has several statistics, it is the scaling
// of the mean.
type DriftColumn struct {
	Metric    string
	Statistic string
	Scaling   Scaling
}

// Canary is a dropped metric that kept ones predict. Its scaled value is the sum of these terms, with this mean squared
// error in training. It can be checked on nodes that still measure it.
type Canary struct {
	Metric string
	Terms  []CanaryTerm // the representative first
	Error  float64
}

// CanaryTerm is a kept metric with the coefficient of its scaled value.
type CanaryTerm struct {
	Metric      string
	Coefficient float64
}

// Verdicts of Watch.
const (
	VerdictHold    = "hold"    // the watched relations are unchanged since the selection
	VerdictRedo    = "redo"    // the selection no longer holds: select anew
	VerdictUnknown = "unknown" // too few rows for a verdict
)

// StatisticNodes is the number of nodes with a metric in a row. No method uses it as a term.
const StatisticNodes = "nodes"

// Stretch is the number of rows that are judged together.
const Stretch = 60

const (
	renewedStretch = 240 // rows with coefficients of their own
	renewedRows    = 5   // least number of rows for each coefficient
)

// DriftReport is the verdict on later rows, and the evidence.
type DriftReport struct {
	Verdict   string          `json:"verdict"`
	Why       []string        `json:"why"`
	Rows      int             `json:"rows"`
	Responses []ResponseDrift `json:"responses"`
	Canaries  []CanaryDrift   `json:"canaries"` // only those judged
	Absent    int             `json:"absent"`   // dropped metrics not judged, for lack of rows
	Notes     []string        `json:"notes,omitempty"`
	reasons   [3]int          // of Why: redo, unknown, hold
}

// ResponseDrift is the result for a response.
type ResponseDrift struct {
	Response  string   `json:"response"`
	Stretches int      `json:"stretches"`          // judged
	Rows      int      `json:"rows"`               // with the response and all terms
	Missing   int      `json:"missing"`            // rows with the response but not all terms
	Sum       float64  `json:"sum"`                // highest value of the CUSUM
	Limit     float64  `json:"limit"`              // above it there is an alarm
	AlarmMs   *int64   `json:"alarm_ms,omitempty"` // start of the first row with an alarm
	Gone      bool     `json:"gone"`               // no row has the response
	Without   []string `json:"without,omitempty"`  // metrics of the model that are missing in all rows
}

// CanaryDrift is the result for a dropped metric.
type CanaryDrift struct {
	Metric         string  `json:"metric"`
	Representative string  `json:"representative"`
	Rows           int     `json:"rows"`      // with both
	Stretches      int     `json:"stretches"` // judged
	Parted         int     `json:"parted"`    // stretches with an error above 10 times the training error
	Chance         int     `json:"chance"`    // largest number that chance explains
	Worst          float64 `json:"worst"`     // highest error, as a multiple of the training error
	SinceMs        *int64  `json:"since_ms,omitempty"`
}

// Watch compares later rows with the reference.
func (w *Drift) Watch(t *Table) *DriftReport {
	v := newRowsInTime(t, w.Centred)
	r := &DriftReport{Rows: t.Rows(), Responses: []ResponseDrift{}, Canaries: []CanaryDrift{}, Notes: t.Notes}
	if v.torn > 0 {
		r.Notes = append(slices.Clone(r.Notes), fmt.Sprintf("%d rows left out: they follow another too soon", v.torn))
	}
	for i := range w.Models {
		r.Responses = append(r.Responses, v.response(&w.Models[i]))
	}
	column := v.columns(w.Columns)
	for i := range w.Canaries {
		if c := v.canary(&w.Canaries[i], column); c.Stretches > 0 {
			r.Canaries = append(r.Canaries, c)
		} else {
			r.Absent++
		}
	}
	for i := range r.Canaries {
		r.Canaries[i].Chance = mostByChance(r.Canaries[i].Stretches, len(r.Canaries))
	}
	r.judge()
	return r
}

// judge draws the conclusion from the evidence.
func (r *DriftReport) judge() {
	r.Verdict = VerdictHold
	for i := range r.Responses {
		verdict, why := r.Responses[i].judge()
		r.conclude(verdict, why)
	}
	parted := 0
	for _, c := range r.Canaries {
		if c.Parted > c.Chance {
			parted++
			r.conclude(VerdictRedo, fmt.Sprintf("%s no longer follows from %s: in %d of %d stretches of %d rows its "+
				"error is above %g times that of training, and chance explains %d", c.Metric, c.Representative,
				c.Parted, c.Stretches, Stretch, canaryLimit, c.Chance))
		}
	}
	if n := len(r.Canaries) - parted; n > 0 {
		follows := counted(n, "dropped metric follows", "dropped metrics follow")
		r.conclude(VerdictHold, follows+" from kept ones as before")
	}
	switch {
	case r.Absent > 0 && len(r.Canaries) == 0 && len(r.Responses) == 0:
		r.conclude(VerdictUnknown, fmt.Sprintf("no dropped metric has %d rows together with kept ones: only canary "+
			"nodes measure them, and a list with canary: 0 has none. --from counters has rows of each node", Stretch))
	case r.Absent > 0:
		r.Notes = append(r.Notes, counted(r.Absent, "dropped metric was", "dropped metrics were")+
			fmt.Sprintf(" not judged: fewer than %d rows have what it takes", Stretch))
	case len(r.Canaries) == 0 && len(r.Responses) == 0:
		r.conclude(VerdictUnknown, "the list has nothing to watch: it has no response that its metrics predict, and "+
			"no dropped metric that follows from kept ones")
	}
}

// conclude adds a reason. The gravest verdict wins, in the order redo, unknown, hold. Its reasons come first.
func (r *DriftReport) conclude(verdict, why string) {
	grave := []string{VerdictRedo, VerdictUnknown, VerdictHold}
	at, behind := slices.Index(grave, verdict), 0
	for _, n := range r.reasons[:at+1] {
		behind += n
	}
	r.Why = slices.Insert(r.Why, behind, why)
	r.reasons[at]++
	r.Verdict = grave[min(at, slices.Index(grave, r.Verdict))]
}

func (d *ResponseDrift) judge() (verdict, why string) {
	switch {
	case d.Gone:
		return VerdictUnknown, fmt.Sprintf("%s: no row has this response: name it by --response, or choose rows that "+
			"have it", d.Response)
	case len(d.Without) > 0 && d.Missing >= 2*Stretch:
		return VerdictRedo, fmt.Sprintf("%s: %d rows have it, but none has the kept metric %s", d.Response, d.Missing,
			d.Without[0])
	case d.AlarmMs != nil:
		return VerdictRedo, fmt.Sprintf("%s: the kept metrics explain it worse than in training: the CUSUM of its "+
			"error reached %.1f in %d stretches, above %g", d.Response, d.Sum, d.Stretches, d.Limit)
	case d.Stretches < 2:
		return VerdictUnknown, fmt.Sprintf("%s: not enough rows: %d have the response and all metrics of its model, "+
			"and %d are needed", d.Response, d.Rows, 2*Stretch)
	}
	return VerdictHold, fmt.Sprintf("%s: the kept metrics explain it as in training: the CUSUM of its error stayed "+
		"at %.1f in %d stretches, below %g", d.Response, d.Sum, d.Stretches, d.Limit)
}

// Numbers of the CUSUM, chosen on seeds 300 to 319 of the drift study.
const (
	cusumSlack = 1  // standard deviations by which a stretch may be worse
	cusumLimit = 4  // of the sum
	cusumCap   = 4  // of one stretch, so that a single one never raises an alarm
	leastSD    = .3 // of log mean squared errors: a quiet training is no promise for later
)

// cusum sums the excess of log errors over training, in standard deviations, and never falls below 0. It returns the
// highest sum, and the first stretch above the limit; -1 if there is none. Source: Page, Continuous Inspection Schemes,
// Biometrika 41 (1954). TestCusum pins it.
func cusum(logs []float64, centre, sd float64) (highest float64, alarm int) {
	sum, alarm := 0.0, -1
	for i, x := range logs {
		sum = max(0, sum+min((x-centre)/max(sd, leastSD), cusumCap)-cusumSlack)
		highest = max(highest, sum)
		if sum > cusumLimit && alarm < 0 {
			alarm = i
		}
	}
	return highest, alarm
}

const (
	canaryLimit = 10.0  // multiple of the training error
	canaryLeast = 1e-4  // least training error: 1 % of the spread of the metric
	canaryFalse = .0014 // share of quiet stretches above the limit, as measured
	canaryLevel = .05   // probability of any false alarm among all dropped metrics
)

// mostByChance returns the number of stretches above the limit that chance explains. The number is binomial, and the
// probability that any of the metrics exceeds it by chance is below canaryLevel.
func mostByChance(stretches, metrics int) int {
	p := math.Pow(1-canaryFalse, float64(stretches)) // of exactly k
	more := 1 - p
	k := 0
	for more*float64(metrics) >= canaryLevel && k < stretches {
		p *= float64(stretches-k) / float64(k+1) * canaryFalse / (1 - canaryFalse)
		more -= p
		k++
	}
	return k
}

// response judges the model of a response.
func (v *rowsInTime) response(m *DriftModel) ResponseDrift {
	d := ResponseDrift{Response: m.Response, Limit: cusumLimit}
	y := v.t.response(m.Response)
	if y == nil {
		d.Gone = true
		return d
	}
	y = v.levelled(y)
	x := make([][]float64, len(m.Terms))
	for i, term := range m.Terms {
		if x[i] = v.scaled(term.Metric, term.Statistic, term.Scaling); x[i] == nil &&
			!slices.Contains(d.Without, term.Metric) {
			d.Without = append(d.Without, term.Metric)
		}
	}
	var rows []int // positions in time
	for i := range y {
		switch {
		case !present(y[i]):
		case slices.ContainsFunc(x, func(c []float64) bool { return c == nil || !present(c[i]) }):
			d.Missing++
		default:
			rows = append(rows, i)
		}
	}
	d.Rows = len(rows)
	var found []stretch
	if m.Renewed {
		found = v.renewed(x, y, rows)
	} else {
		found = v.errors(rows, func(i int) float64 { return square(y[i] - m.predict(x, i)) })
		for i := range found {
			found[i].value = math.Log(max(found[i].value, 1e-300))
		}
	}
	d.Stretches = len(found)
	logs := make([]float64, len(found))
	for i, s := range found {
		logs[i] = s.value
	}
	var alarm int
	if d.Sum, alarm = cusum(logs, m.LogMSE, m.LogMSESD); alarm >= 0 {
		d.AlarmMs = &found[alarm].endMs
	}
	return d
}

func (m *DriftModel) predict(x [][]float64, row int) float64 {
	y := m.Intercept
	for i, term := range m.Terms {
		y += term.Coefficient * x[i][row]
	}
	return max(m.Low, min(m.High, y))
}

func square(x float64) float64 { return x * x }

// stretch is a group of rows that are judged together.
type stretch struct {
	endMs int64 // start of the last row
	value float64
}

// errors returns the mean errors over stretches, in the order of their ends. The rest of a unit is joined with the next
// unit, so that short jobs count too.
func (v *rowsInTime) errors(rows []int, of func(row int) float64) (found []stretch) {
	for part := range slices.Chunk(rows, Stretch) {
		if len(part) < Stretch {
			break
		}
		s := stretch{endMs: math.MinInt64}
		for _, i := range part {
			s.value += of(i) / Stretch
			s.endMs = max(s.endMs, v.t.Start[v.order[i]])
		}
		found = append(found, s)
	}
	sortByEnd(found)
	return found
}

func sortByEnd(all []stretch) {
	slices.SortStableFunc(all, func(a, b stretch) int { return cmp.Compare(a.endMs, b.endMs) })
}

// renewed returns log(1 − R²) of stretches with coefficients of their own, each within one unit.
func (v *rowsInTime) renewed(x [][]float64, y []float64, rows []int) (found []stretch) {
	for u := range len(v.bounds) - 1 {
		from, _ := slices.BinarySearch(rows, v.bounds[u])
		to, _ := slices.BinarySearch(rows, v.bounds[u+1])
		of := rows[from:to]
		n := max(1, len(of)/renewedStretch)
		for k := range n {
			part := of[len(of)*k/n : len(of)*(k+1)/n]
			if value, is := renewedError(x, y, part); is {
				found = append(found, stretch{v.t.Start[v.order[part[len(part)-1]]], value})
			}
		}
	}
	sortByEnd(found)
	return found
}

// renewedError returns log(1 − R²) of new coefficients, each fitted on other rows of the stretch. It returns false for
// too few rows, or for a constant response.
func renewedError(x [][]float64, y []float64, rows []int) (float64, bool) {
	if len(rows) < max(Stretch, renewedRows*(len(x)+1)) {
		return 0, false
	}
	steady := !slices.ContainsFunc(rows, func(i int) bool { return y[i] != y[rows[0]] })
	r2 := Refit(x, y, [][]int{rows})
	return math.Log(max(1-r2, 1e-9)), !steady && present(r2)
}

// canary judges a dropped metric. Only rows with the same number of nodes for it and for the kept metrics count,
// because a mean over canary nodes cannot be compared with a mean over all nodes.
func (v *rowsInTime) canary(c *Canary, column func(string) []float64) CanaryDrift {
	d := CanaryDrift{Metric: c.Metric, Representative: c.Terms[0].Metric}
	x, nodes := column(c.Metric), v.t.column(c.Metric, StatisticNodes)
	z, on := make([][]float64, len(c.Terms)), make([][]float64, len(c.Terms))
	for i, t := range c.Terms {
		z[i], on[i] = column(t.Metric), v.t.column(t.Metric, StatisticNodes)
		if z[i] == nil {
			return d
		}
	}
	if x == nil {
		return d
	}
	var rows []int
	for i, row := range v.order {
		all := present(x[i])
		for k := range z {
			all = all && present(z[k][i]) && (nodes == nil || on[k] == nil || nodes[row] == on[k][row])
		}
		if all {
			rows = append(rows, i)
		}
	}
	found := v.errors(rows, func(i int) float64 {
		left := x[i]
		for k, t := range c.Terms {
			left -= t.Coefficient * z[k][i]
		}
		return square(left) / max(c.Error, canaryLeast)
	})
	d.Rows, d.Stretches = len(rows), len(found)
	for _, s := range found {
		d.Worst = max(d.Worst, s.value)
		if s.value > canaryLimit {
			d.Parted++
			if d.SinceMs == nil {
				d.SinceMs = &s.endMs
			}
		}
	}
	return d
}
