package overview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/machine"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// open is an open finding of a job.
func openFinding(job, rule string) *schemas.Finding {
	return &schemas.Finding{
		Cluster: "c", JobID: job, Rule: rule, RuleHash: "0123456789abcdef", Title: "t", State: schemas.FindingOpen,
		Certainty: schemas.Certain, Class: schemas.ClassMed, Severity: 0.5, Worst: 0.5, IntervalMs: 1000,
		Intervals: 1, Evaluated: 1, Matched: 1,
	}
}

// all is a reader who may see everything.
func all(*schemas.Job, int64) bool { return true }

// TestNewestFrame: one frame has the newest interval that is whole, with what the topics tell of its jobs now.
func TestNewestFrame(t *testing.T) {
	i := topicstest.New(t)
	if _, err := NewestFrame(t.Context(), i.Config, all); !errors.Is(err, errNoFrame) {
		t.Errorf("without summaries: %v", err)
	}
	for n, start := range i.Starts {
		i.WriteNow(schemas.TopicJobSummary, "a/0", topicstest.Summary("a", 0, start, "x"))
		if n < len(i.Starts)-1 {
			i.WriteNow(schemas.TopicJobSummary, "_system/0", topicstest.Summary(schemas.JobSystem, 0, start, "cpu_idle"))
		}
	}
	for _, id := range []string{"a", "gone"} {
		i.WriteNow(schemas.TopicJobs, id+"/0", &schemas.Job{JobID: id, State: "RUNNING", User: "first"})
	}
	i.WriteNow(schemas.TopicJobs, "a/0", &schemas.Job{JobID: "a", State: "RUNNING", User: "last"})
	i.WriteNow(schemas.TopicJobs, "gone/0", nil)
	for _, rule := range []string{"stays", "closes", "is-deleted"} {
		i.WriteNow(schemas.TopicFindings, "a/0/"+rule, openFinding("a", rule))
	}
	closed := openFinding("a", "closes")
	closed.State = schemas.FindingClosed
	i.WriteNow(schemas.TopicFindings, "a/0/closes", closed)
	i.WriteNow(schemas.TopicFindings, "a/0/is-deleted", nil)
	i.WriteNow(schemas.TopicFindings, "rubbish", nil)

	f, err := NewestFrame(t.Context(), i.Config, all)
	if err != nil {
		t.Fatal(err)
	}
	if want := i.Starts[len(i.Starts)-2]; f.StartMs != want || f.Expected != 3 || f.Seen != 2 {
		t.Errorf("%+v, want the interval %d", f, want)
	}
	if len(f.Jobs) != 1 || f.Jobs[0].User != "last" || len(f.Jobs[0].Findings) != 1 ||
		f.Jobs[0].Findings[0].Rule != "stays" {
		t.Errorf("%+v", f.Jobs)
	}
}

// TestNewestFrameWithoutFindings: an installation that runs no find may not have the topic.
func TestNewestFrameWithoutFindings(t *testing.T) {
	i := topicstest.New(t)
	i.WriteNow(schemas.TopicJobSummary, "a/0", topicstest.Summary("a", 0, i.Starts[5], "x"))
	adm := kadm.NewClient(i.Client)
	if _, err := adm.DeleteTopics(t.Context(), i.Config.Prefix+schemas.TopicFindings); err != nil {
		t.Fatal(err)
	}
	if f, err := NewestFrame(t.Context(), i.Config, all); err != nil || len(f.Jobs) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestFollowFrames: every interval has one frame, in order, the newest of the past first. News of jobs reach the next.
func TestFollowFrames(t *testing.T) {
	i := topicstest.New(t)
	i.Every(time.Second)
	i.Config.Interval = 20 * time.Second // a frame without the whole machine waits for ten seconds
	for _, start := range i.Starts {
		i.WriteNow(schemas.TopicJobSummary, "a/0", topicstest.Summary("a", 0, start, "x"))
		i.WriteNow(schemas.TopicJobSummary, "_system/0", topicstest.Summary(schemas.JobSystem, 0, start))
	}
	ctx, cancel := context.WithCancel(t.Context())
	frames, done := make(chan *machine.Frame), make(chan error, 1)
	go func() {
		done <- FollowFrames(ctx, i.Config, all, func(f *machine.Frame) bool {
			select {
			case frames <- f:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	next := func() (f *machine.Frame) {
		t.Helper()
		kafkatest.Eventually(t, "a frame", func() bool {
			select {
			case f = <-frames:
				return true
			case err := <-done:
				t.Fatal("it has ended: ", err)
			default:
			}
			return false
		})
		return f
	}
	last := i.Starts[len(i.Starts)-1]
	if f := next(); f.StartMs != last {
		t.Fatalf("first %d, want %d", f.StartMs, last)
	}
	for n := range int64(3) {
		start, user := last+1000*(n+1), fmt.Sprint("u", n)
		i.WriteNow(schemas.TopicJobs, "a/0", &schemas.Job{JobID: "a", State: "RUNNING", User: user})
		for _, job := range []string{"a", "b", schemas.JobSystem} {
			i.WriteNow(schemas.TopicJobSummary, job+"/0", topicstest.Summary(job, 0, start, "x"))
		}
		f := next()
		names := []string{}
		for _, j := range f.Jobs {
			names = append(names, j.JobID)
		}
		if f.StartMs != start || !slices.Equal(names, []string{"a", "b"}) || f.Jobs[0].User != user {
			t.Errorf("%d: %d, jobs %v", n, f.StartMs-last, f.Jobs)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestFramesAreWhole: an interval waits for the summary of the whole machine, but not for ever. What comes later makes
// its frame anew, with all of it, and what is older than it is not seen.
func TestFramesAreWhole(t *testing.T) {
	r := &topReader{intervals: map[int64][]*schemas.JobSummary{}, touched: map[int64]time.Time{}}
	take := func(s *schemas.JobSummary) {
		for i := range s.Metrics {
			s.Metrics[i].Deciles = &[]float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		}
		r.summary(s)
	}
	wait := patienceOf(time.Minute)
	expect := func(after time.Duration, start int64, ids ...string) {
		t.Helper()
		f := r.due(time.Now().Add(after), wait)
		if f == nil {
			if start > 0 {
				t.Errorf("no frame of %d", start)
			}
			return
		}
		var got []string
		for i := range f.Jobs {
			got = append(got, f.Jobs[i].JobID)
		}
		if f.StartMs != start || !slices.Equal(got, ids) {
			t.Errorf("a frame of %d with jobs %v, want %d with %v", f.StartMs, got, start, ids)
		}
		if past := f.Jobs[0].Metrics[0].Past; len(past) != int(start/1000) {
			t.Errorf("the frame of %d has medians of %d intervals", start, len(past))
		}
	}
	take(topicstest.Summary("a", 0, 1000, "x"))
	expect(-time.Hour, 0)
	expect(wait.whole, 0) // the other collectors may be late
	take(topicstest.Summary("b", 0, 1000, "x"))
	take(topicstest.Summary(schemas.JobSystem, 0, 1000))
	expect(wait.whole, 1000, "a", "b")
	expect(time.Hour, 0)
	take(topicstest.Summary("c", 0, 1000, "x"))
	take(topicstest.Summary("b", 0, 1000, "x", "y"))
	expect(-time.Hour, 0)
	expect(wait.whole, 1000, "a", "b", "c")
	expect(time.Hour, 0)
	take(topicstest.Summary("a", 0, 2000, "x"))
	take(topicstest.Summary("d", 0, 1000, "x"))
	expect(wait.part, 2000, "a") // the whole machine is not coming
	take(topicstest.Summary("d", 0, 1000, "x"))
	expect(time.Hour, 0)
}

// TestFetchError: silence is no error, and does not hide that of another partition.
func TestFetchError(t *testing.T) {
	quiet := kgo.NewErrFetch(context.DeadlineExceeded)
	if err := fetchError(quiet); err != nil {
		t.Error(err)
	}
	if err := fetchError(append(quiet, kgo.NewErrFetch(errNoFrame)...)); !errors.Is(err, errNoFrame) {
		t.Errorf("%v, want the second error", err)
	}
}
