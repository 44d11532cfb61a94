package totals

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
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
// in archive/jobs. It writes nothing to the archive. It returns the end of the last interval in the archive: later rows
// are only in the topic.
func Running(ctx context.Context, o Options, out func(*Total) error) (untilMs int64, err error) {
	scratch, err := os.MkdirTemp("", "weir-totals-")
	if err != nil {
		return 0, fmt.Errorf("making a directory for files in between: %w", err)
	}
	defer os.RemoveAll(scratch)
	m := newMaker(o)
	if _, err := os.Stat(filepath.Dir(sink.DatePath(m.Dir, ""))); errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w in %s: set sink.dir, or --dir, to the sink's directory", compact.ErrNoArchive, m.Dir)
	}
	err = sink.Reading(ctx, m.Dir, func() error {
		if err := m.survey(); err != nil {
			return err
		}
		all, until, err := m.running()
		if err != nil {
			return err
		}
		untilMs = until
		from, err := m.lastEnds(all)
		if err != nil {
			return err
		}
		inputs, err := m.since(all, from)
		if err != nil {
			return err
		}
		p := &picked{}
		f := folder{whose: func(k schemas.JobKey, ms int64) *picked {
			if at, is := from[k]; is && ms < at {
				return nil
			}
			return p
		}, out: out}
		s := &compact.Scratch{Prefix: scratch + "/run-", Progress: o.Progress}
		if err := compact.EachHour(ctx, inputs, s, f.add); err != nil {
			return err
		}
		return f.flush()
	})
	return untilMs, err
}

// running returns the jobs that run, sorted, and the end of the archive.
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
				if end, over := ended[k]; r.IntervalStart >= since && (!over || r.IntervalStart >= end) {
					ended[k] = math.MaxInt64 // it is listed once
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

// recentRow has the columns of a row that identify its job and interval.
type recentRow struct {
	JobID         string `parquet:"job_id,dict"`
	Restart       int32  `parquet:"restart"`
	IntervalStart int64  `parquet:"interval_start,timestamp(millisecond)"`
	IntervalMs    int64  `parquet:"interval_ms"`
}

// endedSince returns the jobs that ended on the date of a time or later, and the pseudo-jobs. For each it returns the
// time from which intervals belong to a namesake.
func (m *maker) endedSince(ms int64) (map[schemas.JobKey]int64, error) {
	ended := map[schemas.JobKey]int64{
		{JobID: schemas.JobRest}: math.MaxInt64, {JobID: schemas.JobSystem}: math.MaxInt64,
	}
	dates, err := jobs.Dates(m.Dir)
	if err != nil {
		return nil, err
	}
	for _, date := range dates {
		if date < dateOf(ms) {
			continue
		}
		over, err := jobs.Lives(m.Dir, date)
		if err != nil {
			return nil, err
		}
		for _, j := range over {
			ended[j.JobKey] = max(ended[j.JobKey], j.EndMs+lateEndMs)
		}
	}
	return ended, nil
}

// lastEnds returns when the last namesake of each job ended. Jobs without a namesake are absent.
func (m *maker) lastEnds(all []schemas.JobKey) (map[schemas.JobKey]int64, error) {
	last := map[schemas.JobKey]int64{}
	dates, err := jobs.Dates(m.Dir)
	if err != nil {
		return nil, err
	}
	for _, date := range dates {
		over, err := jobs.Lives(m.Dir, date)
		if err != nil {
			return nil, err
		}
		for _, j := range over {
			if _, is := slices.BinarySearchFunc(all, j.JobKey, compact.CompareJobs); is {
				last[j.JobKey] = max(last[j.JobKey], j.EndMs)
			}
		}
	}
	return last, nil
}

// since returns the inputs that contain the hours of the jobs. It goes back in time until a date without rows of any of
// these jobs. Dates before the end of a job's last namesake are left out.
func (m *maker) since(all []schemas.JobKey, from map[schemas.JobKey]int64) (inputs []compact.Inputs, err error) {
	cuts := map[schemas.JobKey][]int64{}
	for k, at := range from {
		cuts[k] = []int64{at}
	}
	for _, date := range slices.Backward(m.known) {
		in, err := m.look(date)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(slices.Clone(all), func(k schemas.JobKey) bool {
			at, is := from[k]
			return is && date < dateOf(at)
		})
		in.Jobs, in.Cuts = all, cuts
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
