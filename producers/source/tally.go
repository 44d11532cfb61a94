package source

import (
	"fmt"
	"time"
)

// A row of a tally begins with these numbers. The sums follow.
const (
	tallyShared = iota // devices in this reading and in the previous one
	tallyResets        // number of times that a counter of a device went back
	tallySums
)

// tally sums the counters of devices that come and go. A device adds the growth of its counters since the previous
// reading. A new device adds nothing, and a device that is gone no longer adds, so neither makes the sums jump.
type tally struct {
	counts func(name string) bool           // whether a device counts. It is asked once for each device.
	growth func(from, to, by []uint64) bool // growth of the counters; false if they were reset
	now    []uint64                         // the counters of the device that add is given next
	by     []uint64
	row    []uint64
	known  map[string]*talliedDevice
	turn   uint64 // the number of the reading
}

// talliedDevice is a device of the last reading.
type talliedDevice struct {
	counts bool
	turn   uint64 // the reading that it was last in
	last   []uint64
}

func newTally(counters int, counts func(name string) bool, growth func(from, to, by []uint64) bool) *tally {
	return &tally{
		counts: counts, growth: growth, known: map[string]*talliedDevice{},
		now: make([]uint64, counters), by: make([]uint64, counters), row: make([]uint64, tallySums+counters),
	}
}

// begin begins a reading.
func (t *tally) begin() {
	t.turn++
	t.row[tallyShared] = 0
}

// add takes the counters now of a device. A device that is there twice in a reading counts once.
func (t *tally) add(name []byte) {
	d := t.known[string(name)]
	if d == nil {
		key := string(name)
		d = &talliedDevice{counts: t.counts(key), turn: t.turn}
		if d.counts {
			d.last = append(d.last, t.now...)
		}
		t.known[key] = d
		return
	}
	if d.turn == t.turn {
		return
	}
	d.turn = t.turn
	if !d.counts {
		return
	}
	t.row[tallyShared]++
	if t.growth(d.last, t.now, t.by) {
		for i, v := range t.by {
			t.row[tallySums+i] += v
		}
	} else {
		t.row[tallyResets]++
	}
	copy(d.last, t.now)
}

// end ends a reading, and returns its row. It forgets the devices that are gone.
func (t *tally) end() []uint64 {
	for name, d := range t.known {
		if d.turn != t.turn {
			delete(t.known, name)
		}
	}
	return t.row
}

// any reports whether a device counts.
func (t *tally) any() bool {
	for _, d := range t.known {
		if d.counts {
			return true
		}
	}
	return false
}

// text is the input of a tally: a file of the kernel, or a substitute for it.
type text interface {
	read() ([]byte, error)
	name() string
	close()
}

// openTally opens a source that is one file about devices that come and go.
func openTally(
	file text, t *tally, parse func(*tally, []byte) error,
	form func(from, to []uint64, elapsed time.Duration, out []float64), metrics []metric, none error,
) (probe, error) {
	read := func(into reading, _ Vitals) (reading, error) {
		data, err := file.read()
		if err != nil {
			return nil, err
		}
		t.begin()
		if err := parse(t, data); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.name(), err)
		}
		return only(into, t.end()...), nil
	}
	p := probe{read: read, form: form, close: file.close}
	if _, err := read(nil, Vitals{}); err != nil {
		file.close()
		return probe{}, err
	}
	if !t.any() {
		p.absent = map[string]error{}
		for _, m := range metrics {
			p.absent[m.name] = none
		}
	}
	return p, nil
}

// comparableTallies reports whether the difference of two rows is the growth of the counters. It is not if the rows
// share no device, or if a device restarted its count.
func comparableTallies(from, to []uint64) bool {
	return to[tallyShared] > 0 && from[tallyResets] == to[tallyResets]
}

// grewAll is the growth of counters as wide as the row.
func grewAll(from, to, by []uint64) bool {
	for i := range by {
		if to[i] < from[i] {
			return false
		}
		by[i] = to[i] - from[i]
	}
	return true
}
