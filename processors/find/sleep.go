package find

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"slices"

	"github.com/weirhpc/weir/rules"
)

// mostAwake is how many jobs of a partition have their rules' counters at hand. Those of further jobs are kept as a
// FindState has them, which takes a tenth of the memory.
const mostAwake = 250

// packing turns the state of a Watch into few bytes, and back. Both sides are used again, since making them is dear.
type packing struct {
	raw    []byte
	packed bytes.Buffer
	writer *flate.Writer
	reader io.ReadCloser
}

func (p *packing) pack(w *rules.Watch) ([]byte, error) {
	raw, err := w.AppendBinary(p.raw[:0])
	if err != nil {
		return nil, err
	}
	p.raw = raw
	p.packed.Reset()
	if p.writer == nil {
		if p.writer, err = flate.NewWriter(nil, flate.BestSpeed); err != nil {
			return nil, err
		}
	}
	p.writer.Reset(&p.packed)
	if _, err := p.writer.Write(raw); err != nil {
		return nil, err
	}
	if err := p.writer.Close(); err != nil {
		return nil, err
	}
	return slices.Clone(p.packed.Bytes()), nil
}

// maxUnpacked bounds the state of a Watch, at some hundred times its usual size.
const maxUnpacked = 1 << 20

func (p *packing) unpack(packed []byte, into *rules.Watch) error {
	from := bytes.NewReader(packed)
	if p.reader == nil {
		p.reader = flate.NewReader(from)
	} else if err := p.reader.(flate.Resetter).Reset(from, nil); err != nil {
		return err
	}
	raw := bytes.NewBuffer(p.raw[:0])
	n, err := raw.ReadFrom(io.LimitReader(p.reader, maxUnpacked+1))
	if err != nil {
		return err
	}
	p.raw = raw.Bytes()
	if n > maxUnpacked {
		return fmt.Errorf("%d bytes and more are too many", n)
	}
	return into.UnmarshalBinary(p.raw)
}

// wake returns the Watch of a job that runs. The job that woke first sleeps where too many are awake.
func (f *finder) wake(w *watched) *rules.Watch {
	if w.watch != nil {
		return w.watch
	}
	w.watch = f.set.NewWatch(f.jobOf(w), f.possible)
	if len(w.asleep) > 0 {
		if err := f.packing.unpack(w.asleep, w.watch); err != nil {
			f.spoiled(w, err)
		}
		w.asleep = nil
	}
	f.awake = append(f.awake, w)
	for n := len(f.awake) - f.mostAwake; n > 0; n-- {
		first := f.awake[0]
		if f.awake = f.awake[1:]; !f.sleep(first) {
			f.awake = append(f.awake, first)
		}
	}
	return w.watch
}

// sleep puts a job to sleep, and reports whether that could be. Findings that are due are not in a Watch's state.
func (f *finder) sleep(w *watched) bool {
	if w.watch == nil {
		return true // it is over
	}
	if w.changed {
		return false
	}
	packed, err := f.packing.pack(w.watch)
	if err != nil {
		return false
	}
	w.watch, w.asleep = nil, packed
	return true
}
