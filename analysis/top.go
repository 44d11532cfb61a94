package analysis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/machine"
	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// errNoFrame is returned where no summary came lately.
var errNoFrame = errors.New("no interval of job-summary came lately")

// topPast is how many intervals `weir top` reads at its start, for medians over time.
const topPast = 40

// NewestFrame returns the newest interval that is whole, for one frame.
func NewestFrame(ctx context.Context, cfg config.Config) (*machine.Frame, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	t, err := openTop(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer t.reader.close()
	f := t.fold(t.newestWhole())
	if f == nil {
		return nil, fmt.Errorf("%w: `weir status` reports what is missing", errNoFrame)
	}
	return f, nil
}

// FollowFrames calls each with a frame of the newest interval, and of every interval from now on. A frame is due once
// no summary of its interval came for a moment. It returns nil when ctx ends or each returns false.
func FollowFrames(ctx context.Context, cfg config.Config, each func(*machine.Frame) bool) error {
	first, cancel := context.WithTimeout(ctx, readTimeout)
	t, err := openTop(first, cfg)
	cancel()
	if err != nil {
		return err
	}
	defer t.reader.close()
	if f := t.fold(t.newestWhole()); f != nil && !each(f) {
		return nil
	}
	cl, err := Connect(ctx, cfg, kgo.ConsumePartitions(t.next()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	quiet := min(time.Second, cfg.Interval/2)
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, quiet/2)
		fetches := cl.PollFetches(poll)
		cancel()
		if err := fetchError(fetches); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return kafka.Explain(cfg.Kafka, fmt.Errorf("reading the topics: %w", err))
		}
		for r := range fetches.RecordsAll() {
			t.take(r)
		}
		if f := t.fold(t.quietSince(time.Now().Add(-quiet))); f != nil && !each(f) {
			return nil
		}
	}
	return nil
}

// fetchError is the first error of any partition but that nothing came in time.
func fetchError(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) {
			return e.Err
		}
	}
	return nil
}

// topReader has what the topics tell of the last intervals.
type topReader struct {
	cfg       config.Config
	reader    *reader
	topics    []string
	live      machine.Live
	known     machine.Known
	intervals map[int64][]*schemas.JobSummary
	touched   map[int64]time.Time
	shown     int64
}

// openTop reads the topics up to their ends.
func openTop(ctx context.Context, cfg config.Config) (*topReader, error) {
	types, err := rules.NewTypes(cfg.Machine)
	if err != nil {
		return nil, err
	}
	r, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t := &topReader{
		cfg: cfg, reader: r, intervals: map[int64][]*schemas.JobSummary{}, touched: map[int64]time.Time{},
		topics: []string{cfg.Prefix + schemas.TopicJobs, cfg.Prefix + schemas.TopicJobSummary},
		known: machine.Known{
			Jobs: map[schemas.JobKey]*schemas.Job{}, Findings: map[schemas.JobKey][]schemas.Finding{},
			Type: types.Of, Threads: threadsOf(cfg.Machine, types),
		},
	}
	t.known.MachineHour = machineCores(cfg.Machine)
	each := func(r *kgo.Record) error { t.take(r); return nil }
	err = r.all(ctx, cfg.Prefix+schemas.TopicJobs, each)
	if err == nil {
		err = t.readFindings(ctx, each)
	}
	if err == nil {
		err = r.since(ctx, cfg.Prefix+schemas.TopicJobSummary, time.Now().Add(-topPast*cfg.Interval), each)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return t, nil
}

// readFindings reads findings, if there is such a topic: an installation may run no find.
func (t *topReader) readFindings(ctx context.Context, each func(*kgo.Record) error) error {
	topic := t.cfg.Prefix + schemas.TopicFindings
	details, err := t.reader.adm.ListTopics(ctx, topic)
	if err != nil {
		return kafka.Explain(t.cfg.Kafka, fmt.Errorf("listing %s: %w", topic, err))
	}
	if len(details[topic].Partitions) == 0 {
		return nil
	}
	t.topics = append(t.topics, topic)
	return t.reader.all(ctx, topic, each)
}

// next is where each partition goes on that was read.
func (t *topReader) next() map[string]map[int32]kgo.Offset {
	all := map[string]map[int32]kgo.Offset{}
	for _, topic := range t.topics {
		all[topic] = map[int32]kgo.Offset{}
		for p, b := range t.reader.ends[topic] {
			all[topic][p] = kgo.NewOffset().At(b.To)
		}
	}
	return all
}

// take notes a record. One that cannot be decoded is passed over: `weir tail` shows it.
func (t *topReader) take(r *kgo.Record) {
	if len(r.Value) == 0 {
		t.forget(string(r.Key))
		return
	}
	v, err := schemas.Unmarshal(r.Value)
	if err != nil {
		return
	}
	switch v := v.(type) {
	case *schemas.JobSummary:
		if v.IntervalStart <= t.shown {
			return // its frame was shown
		}
		for i := range v.Metrics {
			v.Metrics[i].Certified = nil // nobody looks at it, and it is most of a summary
		}
		t.intervals[v.IntervalStart] = append(t.intervals[v.IntervalStart], v)
		t.touched[v.IntervalStart] = time.Now()
	case *schemas.Job:
		t.known.Jobs[v.Identity()] = v
	case *schemas.Finding:
		t.finding(schemas.JobKey{JobID: v.JobID, Restart: v.Restart}, v.Rule, v)
	}
}

// forget takes a tombstone: its key is that of a job, or of a finding.
func (t *topReader) forget(key string) {
	parts := strings.Split(key, "/")
	if len(parts) < 2 {
		return
	}
	restart, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return
	}
	job := schemas.JobKey{JobID: parts[0], Restart: int32(restart)}
	if len(parts) == 2 {
		delete(t.known.Jobs, job)
		return
	}
	t.finding(job, parts[2], nil)
}

// finding notes an open finding, or that a rule holds no longer.
func (t *topReader) finding(key schemas.JobKey, rule string, f *schemas.Finding) {
	of := slices.DeleteFunc(slices.Clone(t.known.Findings[key]), func(f schemas.Finding) bool { return f.Rule == rule })
	if f != nil && f.State == schemas.FindingOpen {
		of = append(of, *f)
	}
	if len(of) == 0 {
		delete(t.known.Findings, key)
		return
	}
	t.known.Findings[key] = of
}

// newestWhole is the newest interval that has a summary of the whole machine, which comes last. Without any, it is the
// newest one.
func (t *topReader) newestWhole() int64 {
	newest, whole := int64(0), int64(0)
	for start, of := range t.intervals {
		newest = max(newest, start)
		if slices.ContainsFunc(of, func(s *schemas.JobSummary) bool { return s.JobID == schemas.JobSystem }) {
			whole = max(whole, start)
		}
	}
	if whole > 0 {
		return whole
	}
	return newest
}

// quietSince is the newest interval for which nothing came since a time, nor for any before it.
func (t *topReader) quietSince(since time.Time) (newest int64) {
	for _, start := range slices.Sorted(maps.Keys(t.intervals)) {
		if t.touched[start].After(since) {
			break
		}
		newest = start
	}
	return newest
}

// fold folds all intervals up to one, and returns the frame of the last.
func (t *topReader) fold(through int64) (last *machine.Frame) {
	for _, start := range slices.Sorted(maps.Keys(t.intervals)) {
		if start > through {
			break
		}
		if f := t.live.Fold(t.intervals[start], &t.known); f != nil {
			last = f
		}
		delete(t.intervals, start)
		delete(t.touched, start)
		t.shown = start
	}
	return last
}
