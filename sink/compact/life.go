package compact

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirhpc/weir/quantile"
)

// EachHour calls out with each hour of the chosen jobs of all dates: by job, restart and metric, and then in time
// order. The dates ascend. At most as many dates are open at a time as a compaction opens files.
func EachHour(ctx context.Context, dates []Inputs, s *Scratch, out func(*Rollup) error) (err error) {
	defer s.remove()
	var from []*rollupReader
	defer func() { err = errors.Join(err, closeReaders(from)) }()
	for i := range dates {
		of, err := dates[i].open(ctx, s)
		if err != nil {
			return err
		}
		from = append(from, together(of))
		if len(from) < fanIn || i == len(dates)-1 {
			continue
		}
		run, err := s.join(ctx, from)
		if err != nil {
			return err
		}
		if err := closeReaders(from); err != nil {
			return errors.Join(err, run.close())
		}
		from = []*rollupReader{run}
	}
	return joinRollups(ctx, from, out)
}

// join writes the rollups of readers to one file, and opens it.
func (s *Scratch) join(ctx context.Context, from []*rollupReader) (*rollupReader, error) {
	path := s.path()
	w, err := newRollupWriter(path)
	if err != nil {
		return nil, fmt.Errorf("making rollups: %w", err)
	}
	err = joinRollups(ctx, from, w.add)
	closed := w.close(rollupsFooter{}, func() error { return nil })
	if err := errors.Join(err, closed); err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return newRollupReader(path, nil)
}

// Life joins the hours of a metric of a job, which come in time order.
type Life struct{ of *hour }

// NewLife returns an empty life with the job, metric, unit and scope of an hour.
func NewLife(r *Rollup) *Life {
	key := keyOfRollup(r)
	key.Hour = 0
	return &Life{newHour(key)}
}

// Has reports whether an hour belongs to the same job, metric, unit and scope.
func (l *Life) Has(r *Rollup) bool {
	key := keyOfRollup(r)
	key.Hour = 0
	return compareRollups(&l.of.Rollup, &key) == 0
}

// Add adds the next hour. It must not be changed afterwards.
func (l *Life) Add(r *Rollup) { l.of.join(r) }

// Done returns all hours together without deciles, and the certified summaries of the hours.
func (l *Life) Done() (Rollup, []quantile.Summary) { return l.of.sums(), l.of.shares }
