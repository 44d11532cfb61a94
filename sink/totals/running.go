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
)

// recentRows is how old the last rows of a job may be that counts as running, before the end of the archive.
const recentRows = time.Hour

// Running calls out with the totals so far of all jobs that run. These have rows in the archive's last hour, and no end
// in archive/jobs. It writes nothing to the archive. It returns the end of the last interval that the archive has: later
// rows are only in the topic.
func Running(ctx context.Context, o Options, out func(*Total) error) (untilMs int64, err error) {
	scratch, err := os.MkdirTemp("", "weir-totals-")
	if err != nil {
		return 0, fmt.Errorf("making a directory for files in between: %w", err)
	}
	defer os.RemoveAll(scratch)
	m := newMaker(o)
	if _, err := os.Stat(filepath.Dir(sink.DatePath(m.dir, ""))); errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w in %s: set sink.dir to the sink's directory", compact.ErrNoArchive, m.dir)
	}
	err = sink.Reading(ctx, m.dir, func() error {
		if err := m.survey(); err != nil {
			return err
		}
		jobs, until, err := m.running()
		if err != nil {
			return err
		}
		untilMs = until
		inputs, err := m.since(jobs)
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
func (m *maker) running() (jobs []schemas.JobKey, untilMs int64, err error) {
	for _, of := range m.files {
		for _, f := range of {
			if f.Footer.Rows > 0 {
				untilMs = max(untilMs, f.Footer.LastInterval)
			}
		}
	}
	since := untilMs - recentRows.Milliseconds()
	ended := map[schemas.JobKey]bool{schemas.JobKey{JobID: schemas.JobRest}: true, {JobID: schemas.JobSystem}: true}
	dates, err := datesIn(func(date string) string { return jobsPath(m.dir, date) })
	if err != nil {
		return nil, 0, err
	}
	for _, date := range dates {
		if date < dateOf(since) {
			continue
		}
		over, err := jobsOf(m.dir, date)
		if err != nil {
			return nil, 0, err
		}
		for _, j := range over {
			ended[j.JobKey] = true
		}
	}
	for _, of := range m.files {
		for _, f := range of {
			if f.Footer.Rows == 0 || f.Footer.LastInterval < since {
				continue
			}
			err := read(f.Path, nil, func(r *struct {
				JobID         string `parquet:"job_id,dict"`
				Restart       int32  `parquet:"restart"`
				IntervalStart int64  `parquet:"interval_start,timestamp(millisecond)"`
				IntervalMs    int64  `parquet:"interval_ms"`
			}) error {
				k := schemas.JobKey{JobID: r.JobID, Restart: r.Restart}
				if r.IntervalStart >= since && !ended[k] {
					ended[k] = true // it is listed once
					jobs = append(jobs, k)
				}
				untilMs = max(untilMs, r.IntervalStart+r.IntervalMs)
				return nil
			})
			if err != nil {
				return nil, 0, fmt.Errorf("reading jobs of %s: %w", f.Path, err)
			}
		}
	}
	slices.SortFunc(jobs, compact.CompareJobs)
	return jobs, untilMs, nil
}

// since returns what the hours of jobs are read from: back to the date before which none of them has rows.
func (m *maker) since(jobs []schemas.JobKey) (inputs []compact.Inputs, err error) {
	for _, date := range slices.Backward(m.known) {
		in, err := m.look(date)
		if err != nil {
			return nil, err
		}
		in.Jobs = jobs
		if jobs, err = in.Present(); err != nil {
			return nil, err
		}
		if in.Jobs = jobs; len(jobs) == 0 {
			break
		}
		inputs = append(inputs, in)
	}
	slices.Reverse(inputs)
	return inputs, nil
}
