package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/sink"
)

// Span is a metric of a job in an hour, or in an interval of a date that is not compacted.
type Span struct {
	Job   string
	Start time.Time
	Count float64
	Hours float64 // Count times the length that was measured, in hours: core-hours of a metric of cores
	Mean  float64
}

// Spans returns a metric of jobs from one date to another: of rollups where a date has them, otherwise of summaries.
// What has no value is left out. They are in order of time.
func Spans(ctx context.Context, dir, first, last, metric string, jobs ...string) (all []Span, err error) {
	err = sink.Reading(ctx, dir, func() error { // at once: between two looks a date may be compacted, and count twice
		all, err = spans(ctx, dir, first, last, metric, jobs)
		return err
	})
	slices.SortStableFunc(all, func(a, b Span) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Job, b.Job))
	})
	return all, err
}

func spans(ctx context.Context, dir, first, last, metric string, jobs []string) ([]Span, error) {
	var lock sync.Mutex
	inputs := map[string]map[string]bool{} // of dates with rollups: the small files that they are made of
	columns := []string{"hour", "count", "measured_ms", "intervals_measured", "mean"}
	all, err := gather(ctx, dir, "rollups", first, last, func(f *file) (spans []Span, err error) {
		has, err := f.inputs()
		lock.Lock()
		inputs[dateOf(f.path)] = has
		lock.Unlock()
		for _, job := range jobs {
			err = cmp.Or(err, f.rows(job, metric, columns,
				func(v []parquet.Value) {
					if n := v[3].Int64(); n > 0 && !v[4].IsNull() {
						spans = append(spans, spanOf(job, v[0], v[1], float64(v[2].Int64())/float64(n), v[4]))
					}
				}))
		}
		return spans, err
	})
	if err != nil {
		return nil, err
	}
	rest, err := gather(ctx, dir, "summaries", first, last, func(f *file) (spans []Span, err error) {
		name := filepath.Base(f.path)
		if has, rolled := inputs[dateOf(f.path)]; rolled && (!isSmall(name) || has[name]) {
			return nil, nil
		}
		for _, job := range jobs {
			err = cmp.Or(err, f.rows(job, metric, []string{"interval_start", "count", "interval_ms", "mean"},
				func(v []parquet.Value) {
					if !v[1].IsNull() && !v[3].IsNull() {
						spans = append(spans, spanOf(job, v[0], v[1], float64(v[2].Int64()), v[3]))
					}
				}))
		}
		return spans, err
	})
	return append(all, rest...), err
}

// isSmall reports whether a file is not compacted, by its name.
func isSmall(name string) bool {
	rest := strings.TrimSuffix(name, ".parquet")
	return !strings.HasPrefix(rest[strings.LastIndexByte(rest, '-')+1:], "c")
}

func spanOf(job string, start, count parquet.Value, lengthMs float64, mean parquet.Value) Span {
	n := float64(count.Int64())
	return Span{job, utc(start), n, n * lengthMs / 3.6e6, mean.Double()}
}

// Ends returns the oldest and the newest date of a table, or empty texts.
func Ends(dir, table string) (oldest, newest string, err error) {
	dates, err := datesOf(dir, table)
	if err != nil || len(dates) == 0 {
		return "", "", err
	}
	return strings.TrimPrefix(slices.Min(dates), "date="), strings.TrimPrefix(slices.Max(dates), "date="), nil
}

// datesOf returns the names of the dates' directories of a table.
func datesOf(dir, table string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, table))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing dates of the archive: %w", err)
	}
	for _, e := range entries {
		date, is := strings.CutPrefix(e.Name(), "date=")
		if _, err := time.Parse(time.DateOnly, date); is && err == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
