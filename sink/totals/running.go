package totals

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
)

// recentRows is how old the last rows of a job may be that counts as running, before the end of the archive.
const recentRows = time.Hour

// Running calls out with the totals so far of all jobs that run. These have rows in the archive's last hour, and no end
// in archive/jobs. It writes nothing to the archive. It returns the end of the last interval that the archive has:
// later rows are only in the topic.
func Running(ctx context.Context, o Options, out func(*Total) error) (untilMs int64, err error) {
	scratch, err := os.MkdirTemp("", "weir-totals-")
	if err != nil {
		return 0, fmt.Errorf("making a directory for files in between: %w", err)
	}
	defer os.RemoveAll(scratch)
	m := newMaker(o)
	if _, err := os.Stat(filepath.Dir(sink.DatePath(m.dir, ""))); errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w in %s: set sink.dir, or --dir, to the sink's directory", compact.ErrNoArchive, m.dir)
	}
	err = sink.Reading(ctx, m.dir, func() error {
		if err := m.survey(); err != nil {
			return err
		}
		all, until, err := m.running()
		if err != nil {
			return err
		}
		untilMs = until
		inputs, err := m.since(all)
		if err != nil {
			return err
		}
		f := folder{final: func(schemas.JobKey) bool { return false }, out: out}
		s := &compact.Scratch{Prefix: scratch + "/run-", Progress: o.Progress}
		if err := compact.EachHour(ctx, inputs, s, f.add); err != nil {
			return err
		}
		return f.flush()
	})
	return untilMs, err
}

// running returns the jobs that run, sorted, and where the archive ends.
func (m *maker) running() (all []schemas.JobKey, untilMs int64, err error) {
	for _, of := range m.files {
		for _, f := range of {
			if f.Footer.Rows > 0 {
				untilMs = max(untilMs, f.Footer.LastInterval)
			}
		}
	}
	since := untilMs - recentRows.Milliseconds()
	ended, err := m.endedSince(since)
	if err != nil {
		return nil, 0, err
	}
	for _, of := range m.files {
		for _, f := range of {
			if f.Footer.Rows == 0 || f.Footer.LastInterval < since {
				continue
			}
			err := read(f.Path, nil, func(r *recentRow) error {
				k := schemas.JobKey{JobID: r.JobID, Restart: r.Restart}
				if r.IntervalStart >= since && !ended[k] {
					ended[k] = true // it is listed once
					all = append(all, k)
				}
				untilMs = max(untilMs, r.IntervalStart+r.IntervalMs)
				return nil
			})
			if err != nil {
				return nil, 0, fmt.Errorf("reading jobs of %s: %w", f.Path, err)
			}
		}
	}
	slices.SortFunc(all, compact.CompareJobs)
	return all, untilMs, nil
}

// recentRow has the columns of a row that say whose it is, and of when.
type recentRow struct {
	JobID         string `parquet:"job_id,dict"`
	Restart       int32  `parquet:"restart"`
	IntervalStart int64  `parquet:"interval_start,timestamp(millisecond)"`
	IntervalMs    int64  `parquet:"interval_ms"`
}

// endedSince returns the jobs that ended on the date of a time or later, and the pseudo-jobs.
func (m *maker) endedSince(ms int64) (map[schemas.JobKey]bool, error) {
	ended := map[schemas.JobKey]bool{{JobID: schemas.JobRest}: true, {JobID: schemas.JobSystem}: true}
	dates, err := jobs.Dates(m.dir)
	if err != nil {
		return nil, err
	}
	for _, date := range dates {
		if date < dateOf(ms) {
			continue
		}
		over, err := jobs.Lives(m.dir, date)
		if err != nil {
			return nil, err
		}
		for _, j := range over {
			ended[j.JobKey] = true
		}
	}
	return ended, nil
}

// since returns what the hours of jobs are read from: back to the date before which none of them has rows.
func (m *maker) since(all []schemas.JobKey) (inputs []compact.Inputs, err error) {
	for _, date := range slices.Backward(m.known) {
		in, err := m.look(date)
		if err != nil {
			return nil, err
		}
		in.Jobs = all
		if all, err = in.Present(); err != nil {
			return nil, err
		}
		if in.Jobs = all; len(all) == 0 {
			break
		}
		inputs = append(inputs, in)
	}
	slices.Reverse(inputs)
	return inputs, nil
}
