package compact

import (
	"context"
	"io"
)

// joinRollups joins sorted rollups, and calls out with each in order. A rollup of only one reader stays unchanged, bit
// for bit.
func joinRollups(ctx context.Context, from []*rollupReader, out func(*Rollup) error) error {
	for ctx.Err() == nil {
		r, err := nextJoined(from)
		if err != nil || r == nil {
			return err
		}
		if err := out(r); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// nextJoined returns the next rollup of joined readers; nil behind the last.
func nextJoined(from []*rollupReader) (*Rollup, error) {
	least, err := leastOf(from)
	if err != nil || len(least) == 0 {
		return nil, err
	}
	result := least[0].read[0]
	if len(least) > 1 {
		h := newHour(keyOfRollup(&result))
		for _, r := range least {
			h.join(&r.read[0])
		}
		result = h.done()
	}
	for _, r := range least {
		r.read = r.read[1:]
	}
	return &result, nil
}

// leastOf returns the readers with the least next key; none behind the last rollup.
func leastOf(from []*rollupReader) (least []*rollupReader, err error) {
	for _, r := range from {
		next, err := r.current()
		switch {
		case err != nil:
			return nil, err
		case next == nil:
			continue
		}
		c := -1
		if len(least) > 0 {
			c = compareRollups(next, &least[0].read[0])
		}
		if c < 0 {
			least = least[:0]
		}
		if c <= 0 {
			least = append(least, r)
		}
	}
	return least, nil
}

func keyOfRollup(r *Rollup) Rollup {
	return Rollup{
		Cluster: r.Cluster, JobID: r.JobID, Restart: r.Restart, Hour: r.Hour,
		Metric: r.Metric, Unit: r.Unit, Scope: r.Scope,
	}
}

// together joins the readers of a date into one.
func together(from []*rollupReader) *rollupReader {
	return &rollupReader{
		fill: func() ([]Rollup, error) {
			r, err := nextJoined(from)
			if err != nil {
				return nil, err
			}
			if r == nil {
				return nil, io.EOF
			}
			return []Rollup{*r}, nil
		},
		close: func() error { return closeReaders(from) },
	}
}
