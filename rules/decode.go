package rules

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
)

// Bounds on the numbers of a state. They lie far above all real numbers.
const (
	maxCount = 1 << 32
	maxMs    = 1 << 50
)

// decoder reads the form that encoder writes. It checks everything that a finding relies on, since the state comes from
// a topic.
type decoder struct {
	b      []byte
	saved  int // variants of tallies in the state
	judged int // variants of verdicts and bins in the state
	failed bool
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.failed, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// between reads an integer, which must lie within bounds.
func (d *decoder) between(least, most int64) int64 {
	v := d.int()
	if v < least || v > most {
		d.failed = true
		return least
	}
	return v
}

func (d *decoder) flag() bool { return d.between(0, 1) == 1 }

// float reads a number, which must be finite.
func (d *decoder) float() float64 {
	if len(d.b) < 8 {
		d.failed, d.b = true, nil
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(d.b))
	d.b = d.b[8:]
	if math.IsNaN(v) || math.IsInf(v, 0) {
		d.failed = true
		return 0
	}
	return v
}

func (d *decoder) bytes(most int64) []byte {
	n := d.between(0, most)
	if n > int64(len(d.b)) {
		d.failed, n = true, 0
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) text() string { return string(d.bytes(maxBytes)) }

func (d *decoder) exact() exact { return exact{d.float(), d.float()} }

// slots reads numbers, some of which may be NaN.
func (d *decoder) slots(into []float64) {
	for i := range into {
		if len(d.b) == 0 {
			d.failed = true
			return
		}
		kind := d.b[0]
		d.b = d.b[1:]
		switch kind {
		case 0:
			into[i] = 0
		case 1:
			into[i] = math.NaN()
		case 2:
			into[i] = d.float()
		default:
			d.failed = true
		}
	}
}

// part returns a part and its hash.
func (d *decoder) part() (hash string, p decoder) {
	return d.text(), decoder{b: d.bytes(math.MaxInt64), saved: d.saved, judged: d.judged}
}

func (d *decoder) watch(w *Watch) error {
	switch version := d.int(); {
	case version > binaryVersion && !d.failed:
		return fmt.Errorf("%w: version %d: %w", errState, version, ErrNewer)
	case version < 1:
		return fmt.Errorf("%w: version %d", errState, version)
	}
	d.saved = int(d.between(1, 2))
	w.over = d.flag()
	for _, v := range w.scalars() {
		*v = d.between(-maxMs, maxMs)
	}
	w.cores, w.nodes = d.float(), int32(d.between(0, math.MaxInt32))
	d.judged = int(d.between(1, int64(d.saved)))
	for range d.between(0, 1<<14) {
		if i, known := slices.BinarySearch(w.set.layout.inputs, d.text()); known {
			w.there[i] = true
		}
	}
	p := &w.pending
	w.waiting = d.flag()
	p.startMs, p.lengthMs = d.between(-maxMs, maxMs), d.between(0, maxMs)
	p.expected, p.reported = int32(d.between(0, math.MaxInt32)), int32(d.between(0, math.MaxInt32))
	d.rules(w)
	if hash, part := d.part(); hash == w.set.layout.mark() {
		part.life(w)
		d.failed = d.failed || part.failed || len(part.b) > 0
	} else {
		w.lifeAnew()
	}
	sound := w.counted >= 0 && w.came >= w.counted && w.lengthMs >= 0 && w.life.toMs >= w.life.fromMs
	if d.failed || len(d.b) > 0 || !sound || w.waiting && p.lengthMs == 0 {
		return errState
	}
	return nil
}

// lifeAnew resets the numbers of a life. Rules over the whole life keep their findings until their guards hold again:
// they would judge a life by its last minutes.
func (w *Watch) lifeAnew() {
	w.life.fromMs = w.life.toMs
	for i := range w.set.Rules {
		if st := &w.states[i]; w.set.Rules[i].Job {
			st.came, st.usable = 0, 0
			for variant := range st.tallies {
				st.tallies[variant].guarded = false
			}
		}
	}
}

// rules reads the state of each rule. A rule that is missing in the state begins anew, and skips the pending interval.
func (d *decoder) rules(w *Watch) {
	at := map[string]int{}
	for i := range w.set.Rules {
		r := &w.set.Rules[i]
		at[r.Hash] = i
		for variant := range w.pending.slots {
			w.pending.slots[variant][r.slot] = math.NaN()
		}
	}
	for range d.between(0, maxRules) {
		hash, part := d.part()
		i, known := at[hash]
		if !known {
			continue
		}
		delete(at, hash) // a part counts once
		part.state(w, i)
		d.failed = d.failed || part.failed || len(part.b) > 0
	}
}

func (d *decoder) state(w *Watch, i int) {
	r, st := &w.set.Rules[i], &w.states[i]
	st.came, st.usable = d.between(0, maxCount), d.between(0, maxCount)
	st.written = written{d.text(), d.text(), d.text()}
	if !st.written.sound() {
		d.failed = true
	}
	if r.nodes >= 0 {
		node := d.text()
		w.pending.nodes[r.nodes] = node
		d.failed = d.failed || node != "" && !naming.Valid(node)
	}
	unwanted := make([]float64, verdictHead+len(r.evidence))
	for variant := range d.saved {
		t, slots := &st.tallies[variant], unwanted
		if d.tally(t, r); t.evaluated > w.came {
			d.failed = true
		}
		if variant >= d.judged {
			continue
		}
		if variant < w.variants {
			slots = w.pending.slots[variant][r.slot:][:len(unwanted)]
		}
		if d.slots(slots); slots[verdictSeverity] < 0 || slots[verdictSeverity] > 1 {
			d.failed = true
		}
	}
}

// sound reports whether a Watch can have written such a record.
func (a *written) sound() bool {
	return a.state == "" && a.class == "" && a.certainty == "" ||
		(a.state == schemas.FindingOpen || a.state == schemas.FindingClosed) &&
			(a.class == schemas.ClassLow || a.class == schemas.ClassMed || a.class == schemas.ClassHigh) &&
			(a.certainty == schemas.Certain || a.certainty == schemas.Possible)
}

func (d *decoder) tally(t *tally, r *Rule) {
	for _, v := range t.scalars() {
		*v = d.between(-maxMs, 1<<62)
	}
	for _, v := range t.flags() {
		*v = d.flag()
	}
	t.value = d.exact()
	for range d.between(0, int64(len(r.evidence))) {
		p := proof{n: d.between(0, maxCount), low: d.float(), high: d.float(), sum: d.exact()}
		t.evidence = append(t.evidence, p)
		d.failed = d.failed || p.low > p.high
	}
	matches := t.others
	for range d.between(0, maxNodesOfRule) {
		n := nodeCount{d.text(), d.between(1, maxCount)}
		t.nodes = append(t.nodes, n)
		t.nodeBytes += len(n.name)
		matches += n.n
		d.failed = d.failed || !naming.Valid(n.name)
	}
	counts := t.evaluated >= t.matched && t.matched >= 0 && t.evaluated <= maxCount && t.others >= 0 &&
		matches <= t.matched
	severities := t.sum >= 0 && t.worst >= 0 && t.worst <= grains && t.sum <= t.worst*t.matched
	if !counts || !severities || t.falses < 0 || t.firstMs > t.lastMs {
		d.failed = true
	}
}

func (d *decoder) life(w *Watch) {
	for i := range w.life.wholes {
		h := &w.life.wholes[i]
		h.count, h.nodes, h.least, h.most = d.float(), d.float(), d.float(), d.float()
		h.sum = d.exact()
	}
	l := &w.set.layout
	for variant := range d.judged {
		b, cells := &bins{}, make([]float64, l.stride)
		if variant < w.variants {
			b, cells = &w.life.bins[variant], w.pending.cells[variant]
		}
		b.width, b.first, b.stride = d.between(0, maxMs), d.between(-maxMs, maxMs), l.stride
		n := d.between(0, maxBins)
		if b.cells = make([]float64, int(n)*l.stride); n > 0 && b.width == 0 {
			d.failed = true
		}
		d.slots(b.cells)
		d.slots(cells)
	}
	d.slots(w.pending.wholes)
}
