package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
)

// PackedBatch is a CounterBatch with its values still in the bytes of its record. A fold keeps it until its interval
// closes, and copies the values from there to their place in the fold.
type PackedBatch struct {
	NodeHeader          // BootID, RunID and Cpus were checked, and are left out
	Layout     *Layout  // of its metrics
	Reported   []string // as in CounterBatch

	metrics []byte // of the record
}

// AppendValues appends the values of one of the Layout's metrics.
func (p *PackedBatch) AppendValues(to []float64, metric int) []float64 {
	m := &p.Layout.Metrics[metric]
	raw, n := p.metrics[m.at:m.at+8*m.Values], len(to)
	to = slices.Grow(to, m.Values)[:n+m.Values]
	readDoubles(to[n:], raw)
	return to
}

// Clock is ClockOf the batch.
func (p *PackedBatch) Clock(appendedMs int64) ClockSign {
	one := func(metric int) float64 {
		if metric < 0 {
			return math.NaN()
		}
		var room [1]float64
		return p.AppendValues(room[:0], metric)[0]
	}
	return clockOf(&p.NodeHeader, one(p.Layout.clockOffset), one(p.Layout.clockBound), appendedMs)
}

// Layout is the common part of the batches of many nodes: everything of their metrics but the values. All batches of a
// BatchReader with equal layouts share one, so that a fold compares pointers and not names.
type Layout struct {
	Metrics []LayoutMetric

	cpus   int     // of the batch
	pieces []piece // ascending, and not empty
	size   int     // of all metrics with their values

	clockOffset, clockBound int // metrics by which the clock is judged; -1: none
}

// LayoutMetric is a metric of a Layout: a CounterBatchMetric with the number of its values in place of these.
type LayoutMetric struct {
	Name, Unit, Scope string
	Values            int

	at int // position of the values in the bytes of the metrics
}

// piece is the text between the values of two metrics: names, units, scopes, and lengths.
type piece struct {
	at   int
	text []byte
}

// maxLayouts is the number of layouts that a BatchReader remembers. Nodes of one kind share one layout, plus one for
// each number of CPUs that a job holds of a node.
const maxLayouts = 16

// maxTexts is the number of names of clusters, nodes, runs and jobs that a BatchReader remembers. Beyond that, it
// forgets all of them, and learns the ones in use anew.
const maxTexts = 1 << 15

// BatchReader reads records, most of which are CounterBatches. It compares each record with earlier ones: known names
// need no memory and no check. Only one goroutine may use it. The zero value is ready.
type BatchReader struct {
	texts   map[string]string
	layouts []*Layout // the latest first
	cpus    []int32
}

// Read is Unmarshal, but a CounterBatch becomes a PackedBatch in batch, and the Record is nil. The batch shares the
// memory of b, which must not change as long as there is a batch of it. For batches of known names and layout it
// allocates nothing. Pinned by TestPackedIsTheBatch, TestPackedAllocations and FuzzBatch.
func (r *BatchReader) Read(b []byte, batch *PackedBatch) (Record, error) {
	e, err := lookup(b)
	if err != nil {
		return nil, err
	}
	if e.isBatch && len(b) <= MaxBatchBytes && r.read(b[headerBytes:], e.hasReported(), batch) {
		return nil, nil
	}
	record, err := Unmarshal(b)
	whole, is := record.(*CounterBatch)
	if err != nil || !is {
		return record, err
	}
	// It is not in weir's own form, so it is encoded again.
	if b, err = Marshal(whole); err != nil {
		return nil, err
	}
	if !r.read(b[headerBytes:], true, batch) {
		return nil, fmt.Errorf("%s: %w", e.name, errUnpacked)
	}
	return nil, nil
}

// errUnpacked does not happen: FuzzBatch looks for it.
var errUnpacked = errors.New("this form cannot be read")

// read reads the body of a CounterBatch. It is not ok if Unmarshal must decide.
func (r *BatchReader) read(body []byte, hasReported bool, batch *PackedBatch) bool {
	in := bodyReader{body: body}
	h := &batch.NodeHeader
	h.Cluster, h.Node, h.BootID, h.RunID = r.text(&in), r.text(&in), r.text(&in), r.text(&in)
	h.Seq, h.IntervalStart, h.IntervalMs = in.long(), in.long(), in.long()
	h.SampledAt, h.SentAt = in.long(), in.long()
	h.JobID, h.Restart, h.Epoch = r.text(&in), in.int(), in.long()
	r.cpus = r.cpus[:0]
	n := in.items(1)
	for range n {
		r.cpus = append(r.cpus, in.int())
	}
	in.end(n)
	h.Cpus = r.cpus
	if in.failed || h.validate() != nil {
		return false
	}
	h.BootID, h.RunID, h.Cpus = "", "", nil
	batch.metrics = body[in.at:]
	if batch.Layout = r.layout(batch.metrics, n); batch.Layout == nil {
		return false
	}
	in.at += batch.Layout.size
	batch.Reported = nil
	if hasReported {
		n = in.items(1)
		for range n {
			batch.Reported = append(batch.Reported, string(in.bytes()))
		}
		in.end(n)
	}
	if in.failed || in.at < len(body) {
		return false
	}
	metrics := batch.Layout.Metrics
	return n == 0 || checkReported(batch.Reported, len(metrics),
		func(i int) string { return metrics[i].Name }, func(i int) string { return metrics[i].Scope }) == nil
}

// text reads a name, and returns it in memory of its own.
func (r *BatchReader) text(in *bodyReader) string {
	b := in.bytes()
	if text, known := r.texts[string(b)]; known {
		return text
	}
	if len(b) > maxNameBytes { // no name is as long
		in.fail()
		return ""
	}
	if r.texts == nil || len(r.texts) >= maxTexts {
		r.texts = map[string]string{}
	}
	text := string(b)
	r.texts[text] = text
	return text
}

// layout finds the layout of metrics for so many CPUs, or makes it. It is nil if Unmarshal must decide.
func (r *BatchReader) layout(metrics []byte, cpus int) *Layout {
	for i, l := range r.layouts {
		if l.fits(metrics, cpus) {
			if i > 0 {
				copy(r.layouts[1:], r.layouts[:i])
				r.layouts[0] = l
			}
			return l
		}
	}
	l := newLayout(metrics, cpus)
	if l == nil {
		return nil
	}
	r.layouts = slices.Insert(r.layouts[:min(len(r.layouts), maxLayouts-1)], 0, l)
	return l
}

// fits reports whether metrics are of this layout. If all pieces are equal, so are the lengths in them, and the checks
// of the layout hold for the metrics.
func (l *Layout) fits(metrics []byte, cpus int) bool {
	if cpus != l.cpus || len(metrics) < l.size {
		return false
	}
	for i := range l.pieces {
		if p := &l.pieces[i]; !bytes.Equal(metrics[p.at:p.at+len(p.text)], p.text) {
			return false
		}
	}
	return true
}

// newLayout reads the layout of metrics, which other bytes may follow. It is nil if Unmarshal must decide.
func newLayout(metrics []byte, cpus int) *Layout {
	in := bodyReader{body: metrics}
	n := in.items(4)
	if n > MaxMetrics {
		return nil
	}
	l := &Layout{Metrics: make([]LayoutMetric, n), cpus: cpus, clockOffset: -1, clockBound: -1}
	from := 0 // of the next piece
	for i := range l.Metrics {
		m := &l.Metrics[i]
		m.Name, m.Unit, m.Scope = string(in.bytes()), string(in.bytes()), string(in.bytes())
		m.Values = in.items(8)
		least, most := places(m.Scope, cpus)
		if in.failed || checkMetric(m.Name, m.Unit, m.Scope) != nil || m.Values < least || m.Values > most {
			return nil
		}
		l.pieces = append(l.pieces, piece{from, bytes.Clone(metrics[from:in.at])})
		m.at = in.at
		in.at += 8 * m.Values
		from = in.at
		in.end(m.Values)
		switch {
		case m.Values != 1:
		case m.Name == MetricClockOffset:
			l.clockOffset = i
		case m.Name == MetricClockBound:
			l.clockBound = i
		}
	}
	in.end(n)
	if in.failed || checkMetrics(n, func(i int) string { return l.Metrics[i].Name }) != nil {
		return nil
	}
	l.pieces = append(l.pieces, piece{from, bytes.Clone(metrics[from:in.at])})
	l.size = in.at
	return l
}
