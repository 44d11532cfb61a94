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

// Span is a metric of a job in an hour.
type Span struct {
	Job     string
	Restart int32
	Start   time.Time
	Hours   float64 // core-hours of a metric of cores: the count times the length that was measured
	Mean    float64
}

// Spans returns a metric of jobs by hour, from one date to another, in order of time. It reads rollups of the dates
// that have them, and summaries of the others. Without names of jobs, it reads all jobs. Rows without a value are left
// out.
func Spans(ctx context.Context, dir, first, last, metric string, jobs ...string) ([]Span, error) {
	sums := spanSums{}
	err := sink.Reading(ctx, dir, func() error { // at once: between two looks a date may be compacted, and count twice
		return sums.read(ctx, dir, first, last, metric, jobs)
	})
	all := make([]Span, 0, len(sums))
	for k, v := range sums {
		all = append(all, Span{k.job, k.restart, time.UnixMilli(k.hourMs).UTC(), v.hours, v.weighted / v.hours})
	}
	slices.SortFunc(all, func(a, b Span) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Job, b.Job), cmp.Compare(a.Restart, b.Restart))
	})
	return all, err
}

// spanSums adds up values by job and hour: all intervals of a month would not fit into memory.
type spanSums map[spanKey]spanSum

type spanKey struct {
	job     string
	restart int32
	hourMs  int64
}

type spanSum struct{ hours, weighted float64 }

func (s spanSums) add(job, restart, start, count parquet.Value, lengthMs, mean float64) {
	hours := float64(count.Int64()) * lengthMs / 3.6e6
	if hours > 0 {
		key := spanKey{string(job.ByteArray()), restart.Int32(), start.Int64() - start.Int64()%3_600_000}
		s[key] = spanSum{s[key].hours + hours, s[key].weighted + hours*mean}
	}
}

func (s spanSums) read(ctx context.Context, dir, first, last, metric string, jobs []string) error {
	var lock sync.Mutex
	inputs := map[string]map[string]bool{} // of dates with rollups: the small files that they are made of
	columns := []string{"job_id", "restart", "hour", "count", "measured_ms", "intervals_measured", "mean"}
	err := s.files(ctx, dir, "rollups", first, last, func(f *file, of spanSums) error {
		has, err := f.inputs()
		if err != nil {
			return err
		}
		lock.Lock()
		inputs[dateOf(f.path)] = has
		lock.Unlock()
		return f.rowsOf(jobs, metric, columns, func(v []parquet.Value) {
			if n := v[5].Int64(); n > 0 && !v[6].IsNull() {
				of.add(v[0], v[1], v[2], v[3], float64(v[4].Int64())/float64(n), v[6].Double())
			}
		})
	})
	if err != nil {
		return err
	}
	columns = []string{"job_id", "restart", "interval_start", "count", "interval_ms", "mean"}
	return s.files(ctx, dir, "summaries", first, last, func(f *file, of spanSums) error {
		name := filepath.Base(f.path)
		if has, rolled := inputs[dateOf(f.path)]; rolled && (!IsSmall(name) || has[name]) {
			return nil
		}
		return f.rowsOf(jobs, metric, columns, func(v []parquet.Value) {
			if !v[3].IsNull() && !v[5].IsNull() {
				of.add(v[0], v[1], v[2], v[3], float64(v[4].Int64()), v[5].Double())
			}
		})
	})
}

// files adds up the files of a table. They are read side by side, and added in order, so that sums are the same again.
func (s spanSums) files(ctx context.Context, dir, table, first, last string, read func(*file, spanSums) error) error {
	paths, err := filesOf(dir, table, first, last)
	if err != nil {
		return err
	}
	return inTurn(ctx, len(paths), func(i int) (of spanSums, err error) {
		of = spanSums{}
		return of, (&handle{path: paths[i]}).use(func(f *file) error { return read(f, of) })
	}, func(_ int, of spanSums) error {
		for k, v := range of {
			s[k] = spanSum{s[k].hours + v.hours, s[k].weighted + v.weighted}
		}
		return nil
	})
}

// rowsOf hands the columns of a metric on, of some jobs, or of all if none is named.
func (f *file) rowsOf(jobs []string, metric string, columns []string, each func([]parquet.Value)) error {
	if len(jobs) > 0 {
		for _, job := range jobs {
			if err := f.rows(job, metric, columns, each); err != nil {
				return err
			}
		}
		return nil
	}
	choose := ofMetrics([]string{metric})
	return f.groups(columns, func(g parquet.RowGroup) ([]span, error) { return choose(f, g) }, each)
}

// IsSmall reports whether a file is not compacted, by its name.
func IsSmall(name string) bool {
	rest := strings.TrimSuffix(name, ".parquet")
	return !strings.HasPrefix(rest[strings.LastIndexByte(rest, '-')+1:], "c")
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
