package overview

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

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/machine"

	"github.com/weirhpc/weir/analysis/topics"
)

// errNoFrame is returned if no summary came lately.
var errNoFrame = errors.New("no interval of job-summary came lately")

// topPast is the number of intervals that `weir top` reads at its start, for medians over time.
const topPast = 40

// May reports whether the reader of a frame may see a measurement that was made at a time, in Unix milliseconds, by the
// scheduler's record of the job, which is nil if there is none.
type May func(j *schemas.Job, ms int64) bool

// NewestFrame returns the newest interval that is whole, for one frame.
func NewestFrame(ctx context.Context, cfg config.Config, may May) (*machine.Frame, error) {
	ctx, cancel := context.WithTimeout(ctx, topics.ReadTimeout)
	defer cancel()
	t, err := openTop(ctx, cfg, may)
	if err != nil {
		return nil, err
	}
	defer t.reader.Close()
	f := t.fold(t.newestWhole())
	if f == nil {
		return nil, fmt.Errorf("%w: `weir status` reports what is missing", errNoFrame)
	}
	return f, nil
}

// FollowFrames calls each with a frame of the newest interval, and of every interval from now on. A frame is due a
// moment after the summary of the whole machine came, or once nothing of its interval came for long. Summaries that are
// later make its frame anew. It returns nil when ctx ends or each returns false.
func FollowFrames(ctx context.Context, cfg config.Config, may May, each func(*machine.Frame) bool) error {
	first, cancel := context.WithTimeout(ctx, topics.ReadTimeout)
	t, err := openTop(first, cfg, may)
	cancel()
	if err != nil {
		return err
	}
	defer t.reader.Close()
	if f := t.fold(t.newestWhole()); f != nil && !each(f) {
		return nil
	}
	cl, err := topics.Connect(ctx, cfg, kgo.ConsumePartitions(t.next()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	wait := patienceOf(cfg.Interval)
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, wait.whole/2)
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
		if f := t.due(time.Now(), wait); f != nil && !each(f) {
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

// topReader follows the topics, and keeps the last intervals.
type topReader struct {
	cfg       config.Config
	reader    *topics.Reader
	topics    []string
	live      machine.Live
	known     machine.Known
	intervals map[int64][]*schemas.JobSummary
	touched   map[int64]time.Time
	shown     int64                 // the last interval with a frame
	last      []*schemas.JobSummary // of that interval
	before    machine.Live          // live without that interval
	late      bool                  // a summary of that interval came after its frame
}

// openTop reads the topics up to their ends.
func openTop(ctx context.Context, cfg config.Config, may May) (*topReader, error) {
	r, err := topics.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	types := &nodetypes.Types{}
	if cfg.Machine, err = topics.Machine(ctx, r, cfg); err == nil {
		types, err = nodetypes.New(cfg.Machine)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	t := &topReader{
		cfg: cfg, reader: r, intervals: map[int64][]*schemas.JobSummary{}, touched: map[int64]time.Time{},
		topics: []string{cfg.Prefix + schemas.TopicJobs, cfg.Prefix + schemas.TopicJobSummary},
		known: machine.Known{
			Jobs: map[schemas.JobKey]*schemas.Job{}, Findings: map[schemas.JobKey][]schemas.Finding{},
			Type: types.Of, Threads: types.Threads, May: may,
		},
	}
	t.known.MachineHour, t.known.MachineGPUs = machineCores(cfg.Machine), machineGPUs(cfg.Machine)
	each := func(r *kgo.Record) error { t.take(r); return nil }
	err = r.All(ctx, cfg.Prefix+schemas.TopicJobs, each)
	if err == nil {
		err = t.readFindings(ctx, each)
	}
	if err == nil {
		err = r.Since(ctx, cfg.Prefix+schemas.TopicJobSummary, time.Now().Add(-topPast*cfg.Interval), each)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return t, nil
}

// readFindings reads findings, if there is such a topic: an installation may run no find.
func (t *topReader) readFindings(ctx context.Context, each func(*kgo.Record) error) error {
	topic := t.cfg.Prefix + schemas.TopicFindings
	details, err := t.reader.Admin.ListTopics(ctx, topic)
	if err != nil {
		return kafka.Explain(t.cfg.Kafka, fmt.Errorf("listing %s: %w", topic, err))
	}
	if len(details[topic].Partitions) == 0 {
		return nil
	}
	t.topics = append(t.topics, topic)
	return t.reader.All(ctx, topic, each)
}

// next returns the offset behind the last read record of each partition.
func (t *topReader) next() map[string]map[int32]kgo.Offset {
	all := map[string]map[int32]kgo.Offset{}
	for _, topic := range t.topics {
		all[topic] = map[int32]kgo.Offset{}
		for p, b := range t.reader.Ends[topic] {
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
		t.summary(v)
	case *schemas.Job:
		t.known.Jobs[v.Identity()] = v
	case *schemas.Finding:
		t.finding(schemas.JobKey{JobID: v.JobID, Restart: v.Restart}, v.Rule, v)
	}
}

// summary notes a summary. Summaries of intervals before the shown one are ignored.
func (t *topReader) summary(s *schemas.JobSummary) {
	if s.IntervalStart < t.shown {
		return
	}
	for i := range s.Metrics {
		s.Metrics[i].Certified = nil // frames do not use it, and it is most of a summary
	}
	t.touched[s.IntervalStart] = time.Now()
	if s.IntervalStart > t.shown {
		t.intervals[s.IntervalStart] = append(t.intervals[s.IntervalStart], s)
		return
	}
	t.last = append(slices.DeleteFunc(t.last, func(old *schemas.JobSummary) bool {
		return old.JobID == s.JobID && old.Restart == s.Restart
	}), s)
	t.late = true
}

// forget applies a tombstone, which is keyed by a job or a finding.
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

// newestWhole returns the newest interval with a summary of the whole machine, which comes last, or the newest interval
// if there is none.
func (t *topReader) newestWhole() int64 {
	newest, whole := int64(0), int64(0)
	for start, of := range t.intervals {
		newest = max(newest, start)
		if isWhole(of) {
			whole = max(whole, start)
		}
	}
	if whole > 0 {
		return whole
	}
	return newest
}

// isWhole reports whether the summary of the whole machine is there.
func isWhole(of []*schemas.JobSummary) bool {
	return slices.ContainsFunc(of, func(s *schemas.JobSummary) bool { return s.JobID == schemas.JobSystem })
}

// patience is the time without a new summary of an interval after which its frame is due.
type patience struct{ whole, part time.Duration }

func patienceOf(interval time.Duration) patience {
	return patience{whole: min(time.Second, interval/2), part: min(10*time.Second, interval/2)}
}

// due returns the frame that is due at a time, or nil. It is the frame of the newest interval, or the last frame again
// with late summaries.
func (t *topReader) due(now time.Time, wait patience) *machine.Frame {
	if f := t.fold(t.quietSince(now, wait)); f != nil {
		return f
	}
	if !t.late || t.touched[t.shown].After(now.Add(-wait.whole)) {
		return nil
	}
	t.late, t.live = false, t.before
	return t.live.Fold(t.last, &t.known)
}

// quietSince returns the newest interval that is due together with all intervals before it.
func (t *topReader) quietSince(now time.Time, wait patience) (newest int64) {
	for _, start := range slices.Sorted(maps.Keys(t.intervals)) {
		quiet := wait.part
		if isWhole(t.intervals[start]) {
			quiet = wait.whole
		}
		if t.touched[start].After(now.Add(-quiet)) {
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
		t.before, t.last, t.late = t.live, t.intervals[start], false
		last = t.live.Fold(t.last, &t.known)
		delete(t.intervals, start)
		delete(t.touched, t.shown)
		t.shown = start
	}
	return last
}
