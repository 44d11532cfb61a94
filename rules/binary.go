package rules

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// binaryVersion is the version of the binary form of a Watch.
const binaryVersion = 1

var (
	// errState is wrapped by the errors of bytes that are not the state of a Watch.
	errState = errors.New("not the state of a job's rules")
	// ErrNewer is wrapped by the error of a state that a newer version wrote.
	ErrNewer = errors.New("a newer version wrote it: run that version")
)

// AppendBinary appends the state of the fold. It leaves the job out: after a restart the reader passes it to Know
// again.
func (w *Watch) AppendBinary(b []byte) ([]byte, error) {
	e := encoder{b}
	e.int(binaryVersion)
	e.int(int64(w.saved()))
	e.flag(w.over)
	for _, v := range w.scalars() {
		e.int(*v)
	}
	e.float(w.cores)
	e.int(int64(w.nodes))
	e.int(int64(w.variants))
	e.names(w.set, w.there)
	e.flag(w.waiting)
	e.int(w.pending.startMs)
	e.int(w.pending.lengthMs)
	e.int(int64(w.pending.expected))
	e.int(int64(w.pending.reported))
	e.int(int64(len(w.set.Rules)))
	for i := range w.set.Rules {
		e.part(w.set.Rules[i].Hash, func() { e.state(w, i) })
	}
	e.part(w.set.layout.mark(), func() { e.life(w) })
	return e.b, nil
}

// UnmarshalBinary restores a state that AppendBinary wrote. A rule with another hash than in the state begins anew.
// After an error the Watch is as new.
func (w *Watch) UnmarshalBinary(b []byte) error {
	fresh := w.set.NewWatch(w.job, w.variants == 2)
	d := decoder{b: b}
	err := d.watch(fresh)
	if err != nil {
		fresh = w.set.NewWatch(w.job, w.variants == 2)
	}
	*w = *fresh
	return err
}

// saved returns the number of variants of tallies in the state. An open finding that was written as possible keeps its
// tally, even if possible findings are no longer wanted, because it must still be closed with its numbers.
func (w *Watch) saved() int {
	if slices.ContainsFunc(w.states, func(st state) bool { return st.written.certainty == schemas.Possible }) {
		return 2
	}
	return w.variants
}

// scalars returns the Watch's own numbers.
func (w *Watch) scalars() []*int64 {
	return []*int64{
		&w.came, &w.counted, &w.firstMs, &w.lastMs, &w.lengthMs, &w.mark, &w.life.fromMs, &w.life.toMs,
	}
}

// mark identifies the layout of a life's numbers. A state with another mark cannot be restored into this layout.
func (l *layout) mark() string {
	text := []byte{}
	for _, i := range l.wholes {
		text = append(append(text, l.inputs[i]...), ' ')
	}
	for _, c := range l.columns {
		text = append(append(append(append(text, l.inputs[c.input]...), '.'), c.kind...), ' ')
	}
	return digest(text)
}

type encoder struct{ b []byte }

func (e *encoder) int(v int64)     { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) float(v float64) { e.b = binary.LittleEndian.AppendUint64(e.b, math.Float64bits(v)) }

func (e *encoder) flag(v bool) {
	if v {
		e.int(1)
		return
	}
	e.int(0)
}

func (e *encoder) text(s string) {
	e.int(int64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) exact(s exact) {
	e.float(s.high)
	e.float(s.low)
}

// part writes a part with its hash and its length, so that a reader can skip an unknown one.
func (e *encoder) part(hash string, write func()) {
	e.text(hash)
	at := len(e.b)
	write()
	n := len(e.b) - at
	e.int(int64(n))
	head := slices.Clone(e.b[at+n:])
	e.b = append(append(e.b[:at:at], head...), e.b[at:at+n]...)
}

// names writes the metrics that appeared in any interval.
func (e *encoder) names(s *Set, there []bool) {
	n := 0
	for _, is := range there {
		if is {
			n++
		}
	}
	e.int(int64(n))
	for i, is := range there {
		if is {
			e.text(s.layout.inputs[i])
		}
	}
}

// state writes the state of a rule, and its part of the pending verdict.
func (e *encoder) state(w *Watch, i int) {
	r, st := &w.set.Rules[i], &w.states[i]
	e.int(st.came)
	e.int(st.usable)
	e.text(st.written.state)
	e.text(st.written.class)
	e.text(st.written.certainty)
	if r.nodes >= 0 {
		e.text(w.pending.nodes[r.nodes])
	}
	for variant := range w.saved() {
		e.tally(&st.tallies[variant])
		if variant < w.variants {
			e.slots(w.pending.slots[variant][r.slot:][:verdictHead+len(r.evidence)])
		}
	}
}

// slots writes numbers that are often 0 or NaN.
func (e *encoder) slots(all []float64) {
	for _, v := range all {
		switch {
		case v == 0:
			e.b = append(e.b, 0)
		case math.IsNaN(v):
			e.b = append(e.b, 1)
		default:
			e.b = append(e.b, 2)
			e.float(v)
		}
	}
}

func (e *encoder) tally(t *tally) {
	for _, v := range t.scalars() {
		e.int(*v)
	}
	for _, v := range t.flags() {
		e.flag(*v)
	}
	e.exact(t.value)
	e.int(int64(len(t.evidence)))
	for i := range t.evidence {
		p := &t.evidence[i]
		e.int(p.n)
		e.float(p.low)
		e.float(p.high)
		e.exact(p.sum)
	}
	e.int(int64(len(t.nodes)))
	for _, n := range t.nodes {
		e.text(n.name)
		e.int(n.n)
	}
}

func (t *tally) scalars() []*int64 {
	return []*int64{
		&t.evaluated, &t.matched, &t.sum, &t.worst, &t.firstMs, &t.lastMs, &t.asOfMs, &t.others, &t.falses, &t.judged,
	}
}

func (t *tally) flags() []*bool { return []*bool{&t.open, &t.guarded, &t.badSeverity} }

// life writes the numbers over the whole life, and their part of the pending verdict.
func (e *encoder) life(w *Watch) {
	for i := range w.life.wholes {
		h := &w.life.wholes[i]
		for _, v := range []float64{h.count, h.nodes, h.least, h.most} {
			e.float(v)
		}
		e.exact(h.sum)
	}
	for variant := range w.variants {
		b := &w.life.bins[variant]
		e.int(b.width)
		e.int(b.first)
		e.int(b.len())
		e.slots(b.cells)
		e.slots(w.pending.cells[variant])
	}
	e.slots(w.pending.wholes)
}
