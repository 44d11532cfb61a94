package archive

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/schemas"
)

// withoutCertified returns the columns of a row except for certified summaries.
func withoutCertified[R any]() []column {
	return slices.DeleteFunc(columnsOf[R](nil), func(c column) bool {
		return slices.Contains(certifiedColumns, c.name)
	})
}

// certifiedColumns are the columns of certified summaries, which are most of a row.
var certifiedColumns = []string{
	"eps", "order_statistics", "knot_values", "knot_ranks", "atom_values", "atom_counts",
}

// Wanted identifies rows that a reader may want. The name is empty for a row without a metric.
type Wanted struct{ Metric, Date, File string }

// Columns selects the columns that are read of a row.
type Columns int

// Columns of a row.
const (
	None      Columns = iota
	Bare              // the interval and the number of nodes that reported, without a metric
	Places            // the interval and metric, with the numbers of values and nodes
	Numbers           // the interval and metric, with completeness, mean, and the deciles 0, 5 and 10
	Plain             // all but the certified summary
	Certified         // all
)

// Rows hands the rows of a life on, each time of one metric in a file, in the order of their intervals. The files come
// in the order of their dates and names. The rows are read side by side. fn is called by one goroutine at a time, and
// may keep them.
func (x *Index) Rows(ctx context.Context, key schemas.JobKey, want func(Wanted) Columns,
	fn func(rows []schemas.Row) error,
) error {
	columns := map[Columns][]column{
		Bare: columnsOf[schemas.Row]([]string{
			"cluster", "job_id", "restart", "interval_start", "interval_ms", "nodes_expected", "nodes_reported",
		}),
		Places: columnsOf[schemas.Row]([]string{
			"interval_start", "interval_ms", "metric", "unit", "scope", "nodes", "count",
		}),
		Numbers: columnsOf[schemas.Row]([]string{
			"interval_start", "interval_ms", "metric", "parts", "parts_reported", "nodes_expected", "nodes_reported",
			"nodes", "count", "mean", "d0", "d5", "d10",
		}),
		Plain: withoutCertified[schemas.Row](), Certified: columnsOf[schemas.Row](nil),
	}
	batches := x.batches(key, want)
	return inTurn(ctx, len(batches), func(i int) (rows []schemas.Row, err error) {
		b := &batches[i]
		err = b.file.use(func(f *file) (err error) {
			rows, err = readTable[schemas.Row](f, f.RowGroups()[b.group], b.spans, columns[b.columns], newSlab())
			return err
		})
		return rows, err
	}, func(i int, rows []schemas.Row) error {
		for _, s := range batches[i].spans {
			if err := fn(rows[:s.to-s.from]); err != nil {
				return err
			}
			rows = rows[s.to-s.from:]
		}
		return nil
	})
}

// inTurn makes n things side by side, and hands them on one after the other.
func inTurn[T any](ctx context.Context, n int, produce func(i int) (T, error), take func(i int, made T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	turn := make(chan struct{})
	close(turn)
	for i := range n {
		mine, next := turn, make(chan struct{})
		turn = next
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			made, err := produce(i)
			if err != nil {
				return err
			}
			select {
			case <-mine:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := take(i, made); err != nil {
				return err
			}
			close(next)
			return nil
		})
	}
	return group.Wait()
}

// batch is runs of a row group that are read together, since they may share pages.
type batch struct {
	file    *handle
	group   int
	columns Columns
	spans   []span
}

// batchRows bounds the rows of a batch, except for a single longer run.
const batchRows = 16 << 10

func (x *Index) batches(key schemas.JobKey, want func(Wanted) Columns) (all []batch) {
	at := map[Columns]int{} // index of the last batch with these columns
	for _, r := range x.runs[key] {
		columns := want(Wanted{r.metric, r.file.date, filepath.Base(r.file.path)})
		if columns == None {
			continue
		}
		if i, has := at[columns]; has && all[i].file == r.file && all[i].group == r.group {
			n := r.to - r.from
			for _, s := range all[i].spans {
				n += s.to - s.from
			}
			if n <= batchRows {
				all[i].spans = append(all[i].spans, r.span)
				continue
			}
		}
		at[columns] = len(all)
		all = append(all, batch{r.file, r.group, columns, []span{r.span}})
	}
	return all
}
