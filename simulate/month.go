// Package simulate makes the archive of a made-up machine: weeks of jobs in minutes, without a broker.
//
// The records of its nodes go through the folds of collect and merge, and through the files of the sink. Only the
// measurements are made up, so the archive is the same as a sink would have written.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"

	"github.com/weirhpc/weir/rules"
)

// Options describe the archive to make.
type Options struct {
	Dir        string
	Topic      string // of the summaries
	JobsTopic  string
	Cluster    string
	From       time.Time // a UTC date
	Days       int
	Nodes      int
	Interval   time.Duration // divides an hour
	Period     time.Duration // of a small file
	Partitions int           // of the summaries
	Sketch     int           // bytes of a certified summary
	Seed       uint64
	Jobs       string // Habits, Healthy or Problems; empty: Habits
	Progress   func(at time.Time, rows int64)

	// Rules are evaluated over the jobs of a machine with node types. nil: no rules.
	Rules *rules.Set
	// Findings receives the final findings.
	Findings func(ctx context.Context, all []schemas.Finding) error
}

// The mixes of jobs.
const (
	Habits   = "habits"   // six users with habits that the archive's queries find, on small nodes
	Healthy  = "healthy"  // jobs in which no rule finds anything, odd ones among them
	Problems = "problems" // healthy jobs that are not odd, and two with a problem for each rule
)

// machine returns the machine of a mix with its jobs.
func (o *Options) machine() *machine {
	m := &machine{cluster: o.Cluster, intervalMs: o.Interval.Milliseconds(), sketch: o.Sketch}
	m.layout, m.measure = bigLayout(o.Nodes, 0), m.measureNode
	mix := jobMix{load: 0.55, people: healthy()}
	switch o.Jobs {
	case Problems:
		mix.planted = planted()
	case Healthy:
		m.layout, mix.people = bigLayout(o.Nodes, smtNodes), append(mix.people, odd()...)
	default:
		m.layout, m.measure = habitsLayout(o.Nodes), measureHabits
		mix = jobMix{load: 0.9, people: habits(o.Nodes)}
	}
	m.jobs = makeJobs(o.Seed, &m.layout, &mix, o.From, o.From.AddDate(0, 0, o.Days))
	return m
}

// Made counts the parts of a finished archive.
type Made struct {
	Days      int   `json:"days"`
	Jobs      int   `json:"jobs"`
	Files     int   `json:"files"`
	Rows      int64 `json:"rows"`
	Intervals int   `json:"intervals"`

	Planted []Problem `json:"planted,omitempty"`
}

// ErrThere is returned if the directory already contains summaries.
var ErrThere = errors.New("there is an archive already")

// Write makes an archive. The same options make the same rows. An interrupted run leaves its files behind.
func Write(ctx context.Context, o Options) (Made, error) {
	switch _, err := os.Stat(filepath.Join(o.Dir, "summaries")); {
	case err == nil:
		return Made{}, fmt.Errorf("%s: %w", o.Dir, ErrThere)
	case !errors.Is(err, os.ErrNotExist):
		return Made{}, fmt.Errorf("looking for an archive: %w", err)
	}
	to := o.From.AddDate(0, 0, o.Days)
	m := o.machine()
	made := Made{Days: o.Days, Jobs: len(m.jobs), Planted: m.planted()}
	add, err := sink.Appender(o.Dir, o.Topic)
	if err != nil {
		return made, err
	}
	w := &writer{o: o, add: add, made: &made, ends: make([]end, o.Partitions)}
	if o.Rules != nil && m.gpus > 0 {
		if w.finder, err = newFinder(m, o.Rules); err != nil {
			return made, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for hour := range m.hours(ctx, o.From, to) {
		done := <-hour
		if done.err != nil {
			return made, done.err
		}
		if err := w.hour(ctx, done); err != nil {
			return made, err
		}
	}
	if err := ctx.Err(); err != nil {
		return made, err
	}
	return made, w.finish(ctx, m, to)
}

// finish writes the files that do not belong to a partition.
func (w *writer) finish(ctx context.Context, m *machine, to time.Time) error {
	o := &w.o
	if err := jobs.Write(ctx, o.Dir, o.JobsTopic, o.Cluster, m.known(to)); err != nil {
		return err
	}
	if m.gpus == 0 {
		return nil // these nodes have no types
	}
	if w.finder != nil && o.Findings != nil {
		if err := o.Findings(ctx, w.finder.final); err != nil {
			return err
		}
	}
	return m.writeConfig(o)
}

// known returns the records of all jobs, as a scheduler would know them at a time.
func (m *machine) known(at time.Time) []schemas.Job {
	var all []schemas.Job
	for i := range m.jobs {
		all = append(all, *m.jobs[i].at(at.UnixMilli()))
	}
	return all
}

// at returns the record of a job as a scheduler would know it at a time.
func (j *job) at(nowMs int64) *schemas.Job {
	r := j.Job
	if *r.End > nowMs {
		r.End, r.State, r.Reason = nil, schemas.StateRunning, ""
	}
	return &r
}

// hour holds the summaries of one hour, in the order of their intervals.
type hour struct {
	start     time.Time
	summaries []*schemas.JobSummary
	err       error
}

// hours folds several hours side by side, and delivers them in order.
func (m *machine) hours(ctx context.Context, from, to time.Time) <-chan chan hour {
	order := make(chan chan hour, runtime.GOMAXPROCS(0))
	go func() {
		defer close(order)
		for at := from; at.Before(to); at = at.Add(time.Hour) {
			one := make(chan hour, 1)
			select {
			case order <- one:
			case <-ctx.Done():
				return
			}
			go func() {
				summaries, err := m.fold(at.UnixMilli(), at.Add(time.Hour).UnixMilli())
				one <- hour{at, summaries, err}
			}()
		}
	}()
	return order
}

// end is the position at which the next file of a partition begins.
type end struct {
	next int64
	date string
}

// writer writes the files of a sink that keeps up with its topic.
type writer struct {
	o    Options
	add  func(date string, rows []schemas.Row, f sink.Footer) error
	made *Made
	ends []end

	finder *finder // nil: no rules
}

func (w *writer) hour(ctx context.Context, h hour) error {
	period := max(w.o.Period, w.o.Interval).Milliseconds()
	for len(h.summaries) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		first := h.summaries[0].IntervalStart / period
		n := slices.IndexFunc(h.summaries, func(s *schemas.JobSummary) bool { return s.IntervalStart/period != first })
		if n < 0 {
			n = len(h.summaries)
		}
		if err := w.files(h.start, h.summaries[:n]); err != nil {
			return err
		}
		for _, s := range h.summaries[:n] {
			if w.finder != nil {
				w.finder.add(s)
			}
		}
		h.summaries = h.summaries[n:]
	}
	w.made.Intervals += int(time.Hour / w.o.Interval)
	if w.o.Progress != nil {
		w.o.Progress(h.start.Add(time.Hour), w.made.Rows)
	}
	return nil
}

// files writes one file for each partition.
func (w *writer) files(at time.Time, summaries []*schemas.JobSummary) error {
	for p := range w.ends {
		end := &w.ends[p]
		f := sink.Footer{Topic: w.o.Topic, Partition: int32(p), Start: end.next, Next: end.next, PreviousDate: end.date}
		var rows []schemas.Row
		for _, s := range summaries {
			if int(hashOf(s.JobID)%uint64(len(w.ends))) != p {
				continue
			}
			if len(rows) == 0 {
				f.FirstInterval = s.IntervalStart
			}
			f.LastInterval = s.IntervalStart
			rows = append(rows, s.Rows()...)
			f.Next++
		}
		if len(rows) == 0 {
			continue
		}
		f.Rows = int64(len(rows))
		date := at.UTC().Format(time.DateOnly)
		if err := w.add(date, rows, f); err != nil {
			return err
		}
		w.made.Files++
		w.made.Rows += f.Rows
		end.next, end.date = f.Next, date
	}
	return nil
}
