package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/derive"

	"github.com/weirhpc/weir/analysis/topics"
)

// Options are a user's choices.
type Options struct {
	Since, Until time.Time // of interval_start; zero: all that the log holds
	Jobs         []Choice
	Metrics      []string
	Definitions  []derive.Definition
	AsCollected  bool
	Sketch       int
	// Progress is called every five seconds: how many offsets of all were read, and the interval. It may be nil.
	Progress func(read, all, interval int64)
}

// Report is the result of a replay.
type Report struct {
	Tally
	From, To *int64 // the first and the last interval of a summary
	// Notes warn a reader of the summaries.
	Notes []string
	// Absent are the chosen jobs that no summary is of.
	Absent []Choice
}

// ErrUnknownMetric is returned for a metric that is in no record.
var ErrUnknownMetric = errors.New("no record has this metric")

// Run folds the log of counters anew, and calls each with every summary, in the order of intervals and jobs.
func Run(ctx context.Context, cfg config.Config, o Options, each func(*schemas.JobSummary) error) (*Report, error) {
	cl, err := topics.Connect(ctx, cfg, kafka.ReaderOpts()...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	r := &replayer{cfg: cfg, o: o, cl: cl, adm: kadm.NewClient(cl), each: each, streams: map[Source]*recount.Stream{}}
	defer r.close()
	if err := r.run(ctx); err != nil {
		return nil, kafka.Explain(cfg.Kafka, err)
	}
	return &r.report, nil
}

// replayer is the state of a running replay.
type replayer struct {
	cfg     config.Config
	o       Options
	cl      *kgo.Client
	adm     *kadm.Client
	each    func(*schemas.JobSummary) error
	streams map[Source]*recount.Stream
	report  Report
	terms   *Terms
	found   map[Choice]bool

	read, all int64     // offsets
	told      time.Time // when Progress was called last
}

func (r *replayer) run(ctx context.Context) error {
	lives, err := r.lives(ctx)
	if err != nil {
		return err
	}
	since, until := r.o.Since, r.o.Until
	if since.IsZero() {
		since = lives.begin
	}
	if until.IsZero() {
		until = lives.end
	}
	topic, err := recount.Find(ctx, r.cfg, r.adm, schemas.TopicCounters, since)
	if err != nil {
		return err
	}
	terms := Terms{
		Cluster: r.cfg.Cluster, Collectors: int32(len(topic.Ranges)), From: topic.From, To: math.MaxInt64,
		Jobs: r.o.Jobs, Lives: lives.of, Metrics: r.o.Metrics, AsCollected: r.o.AsCollected, Sketch: r.o.Sketch,
	}
	if !until.IsZero() {
		terms.To = until.UnixMilli()
		if err := r.endAt(ctx, topic, until); err != nil {
			return err
		}
	}
	if topic.Gone {
		r.note("topic counters begins at %s: intervals before it are gone", text(topic.From))
	}
	r.noteBegins(lives, topic.From)
	if terms.Set, err = r.define(ctx, topic); err != nil {
		return err
	}
	for _, offsets := range topic.Ranges {
		r.all += 2 * max(0, offsets.To-offsets.From)
	}
	if r.o.AsCollected {
		r.all /= 2
	}
	f := New(terms)
	r.terms = &f.terms
	if err := r.fold(ctx, f, topic); err != nil {
		return err
	}
	r.finish(f)
	return nil
}

func (r *replayer) note(format string, args ...any) {
	r.report.Notes = append(r.report.Notes, fmt.Sprintf(format, args...))
}

func text(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// endAt cuts the ranges at the offset from which only intervals after until can follow.
func (r *replayer) endAt(ctx context.Context, topic recount.Topic, until time.Time) error {
	last := until.Add((config.Outage + 2) * r.cfg.Interval).Add(2 * config.Slack(r.cfg.Interval))
	name := r.cfg.Prefix + schemas.TopicCounters
	later, err := r.adm.ListOffsetsAfterMilli(ctx, max(0, last.UnixMilli()), name)
	if err != nil {
		return fmt.Errorf("looking for %v in %s: %w", last, name, err)
	}
	for p, offsets := range topic.Ranges {
		if l, ok := later.Lookup(name, p); ok && l.Err == nil && l.Offset >= 0 {
			offsets.To = max(offsets.From, min(offsets.To, l.Offset))
			topic.Ranges[p] = offsets
		}
	}
	return nil
}

// fold hands the records of all partitions to the fold, in the order that it asks for.
func (r *replayer) fold(ctx context.Context, f *Fold, topic recount.Topic) error {
	r.found = map[Choice]bool{}
	at := map[Source]int64{}
	for s, ok := f.Next(); ok; s, ok = f.Next() {
		if r.streams[s] == nil {
			offsets := topic.Ranges[s.Partition]
			r.streams[s] = recount.OpenStream(ctx, r.cfg, r.cfg.Prefix+schemas.TopicCounters, s.Partition, offsets)
			at[s] = offsets.From
		}
		e, ok, err := r.streams[s].Next()
		if err != nil {
			return err
		}
		if ok {
			f.Add(s, e)
			r.progress(e.Offset+1-at[s], f.closed())
			at[s] = e.Offset + 1
		} else {
			f.End(s)
		}
		for _, summary := range f.Ready() {
			if err := r.emit(summary); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *replayer) emit(s *schemas.JobSummary) error {
	start := s.IntervalStart
	if r.report.From == nil {
		r.report.From = &start
	}
	r.report.To = &start
	for _, c := range r.o.Jobs {
		if r.terms.is(c, schemas.JobKey{JobID: s.JobID, Restart: s.Restart}, start) {
			r.found[c] = true
		}
	}
	return r.each(s)
}

// progress notes that further offsets were read.
func (r *replayer) progress(offsets, interval int64) {
	const every = 5 * time.Second
	r.read += offsets
	if r.o.Progress == nil || time.Since(r.told) < every {
		return
	}
	if !r.told.IsZero() {
		r.o.Progress(r.read, r.all, interval)
	}
	r.told = time.Now()
}

// shownJobs is the number of jobs that a note names.
const shownJobs = 10

// finish makes the report of a finished fold.
func (r *replayer) finish(f *Fold) {
	r.report.Tally = f.Tally
	without := slices.Collect(maps.Keys(f.Without))
	for _, c := range r.o.Jobs {
		switch {
		case r.found[c]:
		case slices.ContainsFunc(without, c.is):
			r.note("job %s has none of the metrics %s", c, strings.Join(r.o.Metrics, ", "))
		default:
			r.report.Absent = append(r.report.Absent, c)
		}
	}
	var reduced []string
	for job := range f.Reduced {
		if job != machineKey {
			reduced = append(reduced, Choice{JobID: job.JobID, Restart: job.Restart}.String())
		}
	}
	if f.Reduced[machineKey] {
		r.note("%s: in some intervals jobs were reduced on their nodes, and no metrics are computed from the rest",
			machineKey.JobID)
	}
	slices.Sort(reduced)
	for _, job := range reduced[:min(len(reduced), shownJobs)] {
		r.note("job %s: in some intervals it was reduced on its node, so the log has no values to compute metrics "+
			"from: balance.local_max: -1 keeps those of later jobs", job)
	}
	if more := len(reduced) - shownJobs; more > 0 {
		r.note("and %d more jobs that were reduced on their nodes", more)
	}
	t := &f.Tally
	if t.LateTaken > 0 {
		r.note("%d late records count here, which collect left out", t.LateTaken)
	}
	if t.Late > 0 && r.o.AsCollected {
		r.note("%d late records are left out, as collect did", t.Late)
	} else if t.Late > 0 {
		r.note("%d records came more than %d intervals late, and are left out", t.Late, config.Outage)
	}
	if t.Unfinished > 0 {
		r.note("%d jobs of the last intervals are left out: not all partitions have closed these intervals",
			t.Unfinished)
	}
}

func (r *replayer) close() {
	for _, s := range r.streams {
		s.Close()
	}
}
