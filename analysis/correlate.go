package analysis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/analysis/like"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics"
)

// Correlated is how two metrics of a life of a job move together over time.
type Correlated struct {
	JobID   string
	Restart int32
	A, B    string
	From    string // the sources of its rows: archive, topic or both
	like.Correlation
}

var errSame = errors.New("name two different metrics")

// Correlate returns how the means of two metrics of a job move together, over the complete intervals that have both.
func (s *Sources) Correlate(ctx context.Context, jobID, a, b string, ask Ask) (*Correlated, error) {
	if a == b {
		return nil, fmt.Errorf("%w, not %s twice", errSame, a)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*topics.ReadTimeout)
	defer cancel()
	ask.Metrics = []string{a, b}
	l, err := s.loader(ctx, nil, jobID, ask)
	if err != nil {
		return nil, err
	}
	l.pair = &pair{names: [2]string{a, b}, of: map[int64][2]float64{}}
	l.pair.from, l.pair.to = math.MinInt64, math.MaxInt64
	if !ask.From.IsZero() {
		l.pair.from = ask.From.UnixMilli()
	}
	if !ask.To.IsZero() {
		l.pair.to = ask.To.UnixMilli()
	}
	j, err := l.load(ctx)
	if err != nil {
		return nil, err
	}
	x, y := l.pair.series()
	c, err := like.Correlate(ctx, x, y)
	if err != nil {
		return nil, fmt.Errorf("correlating %d intervals of job %s: %w", len(x), j.JobID, err)
	}
	return &Correlated{j.JobID, j.Restart, a, b, j.From, c}, nil
}

// pair collects the means of two metrics by interval.
type pair struct {
	names    [2]string
	from, to int64 // of the intervals that count
	of       map[int64][2]float64
}

func (p *pair) add(r *schemas.Row, metric string) {
	i := 0
	switch metric {
	case p.names[0]:
	case p.names[1]:
		i = 1
	default:
		return
	}
	if r.NodesReported < r.NodesExpected || r.Mean == nil || r.Count == nil || *r.Count <= 0 ||
		r.IntervalStart < p.from || r.IntervalStart >= p.to {
		return
	}
	means, has := p.of[r.IntervalStart]
	if !has {
		means = [2]float64{math.NaN(), math.NaN()}
	}
	means[i] = *r.Mean
	p.of[r.IntervalStart] = means
}

// series returns the means of the intervals that have both, in time order.
func (p *pair) series() (x, y []float64) {
	for _, at := range slices.Sorted(maps.Keys(p.of)) {
		if m := p.of[at]; !math.IsNaN(m[0]) && !math.IsNaN(m[1]) {
			x, y = append(x, m[0]), append(y, m[1])
		}
	}
	return x, y
}
