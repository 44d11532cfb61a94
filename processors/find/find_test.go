package find

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/processors/looptest"
	"github.com/weirhpc/weir/schemas"
)

// bench is a broker with the topics, and with the metrics of the find that runs here.
type bench struct {
	*looptest.Bench
	metrics *processors.Metrics
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := looptest.New(t)
	return &bench{b, processors.NewMetrics(b.Shown)}
}

func newBenchOf(t *testing.T, collectors int) *bench {
	t.Helper()
	b := looptest.NewOf(t, collectors)
	return &bench{b, processors.NewMetrics(b.Shown)}
}

// find runs Find; stop ends it and returns its error.
func (b *bench) find() (log *kafkatest.Log, stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done, log := make(chan error, 1), &kafkatest.Log{}
	set := busyRules(b.T)
	go func() { done <- Run(ctx, b.Config, log.Logger(), b.metrics, set) }()
	return log, func() error { cancel(); return <-done }
}

// load puts summaries of a job, one an interval.
func (b *bench) load(job string, start int64, loads ...float64) (next int64) {
	b.T.Helper()
	for _, load := range loads {
		value := foldtest.Encode(b.T, loadOf(job, start, findT, load))
		r := &kgo.Record{
			Topic: b.Config.Prefix + schemas.TopicJobSummary, Value: value, Key: schemas.JobKey{JobID: job}.Key(),
			Timestamp: time.UnixMilli(start + findT),
		}
		if err := b.Kafka.ProduceSync(b.T.Context(), r).FirstErr(); err != nil {
			b.T.Fatal(err)
		}
		start += findT
	}
	return start
}

// tells writes a record of topic jobs.
func (b *bench) tells(j *schemas.Job) {
	b.T.Helper()
	b.PutKeyed(schemas.TopicJobs, string(j.Identity().Key()), foldtest.Encode(b.T, j))
}

// findings are the records of topic findings as values, oldest first.
func (b *bench) findings() (all []string) {
	b.T.Helper()
	_ = b.each(schemas.TopicFindings, func(r *kgo.Record) { all = append(all, string(r.Key)+" "+string(r.Value)) })
	return all
}

func (b *bench) each(topic string, each func(r *kgo.Record)) error {
	b.T.Helper()
	topic = b.Config.Prefix + topic
	start, end, err := kafka.Bounds(b.T.Context(), b.Admin, topic, 0)
	if err != nil {
		b.T.Fatal(err)
	}
	return kafka.ReadPartition(b.T.Context(), b.Config, topic, 0, start, end, func(r *kgo.Record) error {
		each(r)
		return nil
	})
}

// findProgress is the last Progress of find.
func (b *bench) findProgress() *schemas.Progress {
	b.T.Helper()
	all := b.Read(schemas.TopicFindProgress)
	if len(all) == 0 {
		return &schemas.Progress{}
	}
	return all[len(all)-1].(*schemas.Progress)
}

// folded reports whether find has committed so many summaries.
func (b *bench) folded(n int64) func() bool {
	return func() bool { return foldtest.Fates(b.findProgress().Counts) == n }
}

// tellsLives tells topic jobs of the jobs of lifeOf. Call it before find runs: find knows then whose jobs they are
// before it folds.
func (b *bench) tellsLives(start int64) {
	b.T.Helper()
	end := start + 45*findT + findT/2
	b.tells(&schemas.Job{JobID: "1", User: "alice", State: schemas.StateCompleted, Start: &start, End: &end})
	b.tells(&schemas.Job{JobID: "2", User: "bob", State: schemas.StateRunning, Start: &start})
}

// lifeOf puts a life of two jobs, and calls between after each part.
func (b *bench) lifeOf(start int64, between func(folded int64)) {
	b.T.Helper()
	at := start
	for i, loads := range [][]float64{
		{0.6, 0.6}, {0.6, 1, 1}, slices.Repeat([]float64{0}, 25), slices.Repeat([]float64{1}, 14), {1},
	} {
		b.load("2", at, slices.Repeat([]float64{1}, len(loads))...)
		at = b.load("1", at, loads...)
		if i == 1 {
			b.PutTo(schemas.TopicJobSummary, 0, []byte("rubbish"))
		}
		if i < 4 {
			between(2*(at-start)/findT + min(int64(i), 1))
		}
	}
}

// lifeStart is where ten minutes of the rules begin. The clock has not reached the end of job 1.
func lifeStart() int64 { return time.Now().UnixMilli()/stateEveryMs*stateEveryMs - 30*findT }

// lifeRecords are the records that lifeOf puts on job-summary.
const lifeRecords = 2*45 + 1

// TestFind: two jobs live on a broker. Findings open, change, close and end.
func TestFind(t *testing.T) {
	b, start := newBench(t), lifeStart()
	b.tellsLives(start)
	log, stop := b.find()
	b.lifeOf(start, func(int64) {})
	b.Eventually("all summaries", b.folded(lifeRecords))
	b.Eventually("the open finding of the job that runs", func() bool {
		shown := looptest.SeriesOf(t, b.Shown, "find")
		low, known := shown["weir_findings_open LOW"]
		return shown["weir_findings_open HIGH"] == 1 && shown["weir_findings_open MED"] == 0 && known && low == 0
	})
	b.StopOrFail(stop)
	if rejects := b.Read(schemas.TopicRejects); log.Count("record cannot be used") != 1 || len(rejects) != 0 {
		t.Errorf("%d rejects were written, the log has\n%s", len(rejects), log.String())
	}
	var states []string
	findings := b.Read(schemas.TopicFindings)
	for _, record := range findings {
		f := record.(*schemas.Finding)
		if f.JobID == "1" {
			states = append(states, f.State+" "+f.Class)
		}
		if f.Final != (f.JobID == "1" && f.Intervals == 45) {
			t.Errorf("final or not: %+v", f)
		}
	}
	want := []string{"OPEN MED", "OPEN HIGH", "OPEN HIGH", "CLOSED HIGH", "CLOSED HIGH"}
	if !slices.Equal(states, want) {
		t.Errorf("job 1: %q, want %q", states, want)
	}
	if p := b.findProgress(); p.Counts.Outputs != int64(len(findings)) || p.Counts.Rejected != 1 {
		t.Errorf("%d findings, %+v", len(findings), p.Counts)
	}
}

// TestFindAgain: a process that ends in the middle, again and again, makes the same bytes as one that does not. Records
// that no transaction wrote are none of its states.
func TestFindAgain(t *testing.T) {
	start := lifeStart()
	steady := newBench(t)
	steady.tellsLives(start)
	_, stop := steady.find()
	steady.lifeOf(start, func(int64) {})
	steady.Eventually("all summaries", steady.folded(lifeRecords))
	steady.StopOrFail(stop)

	b := newBenchOf(t, 1)
	b.tellsLives(start)
	log, stop := b.find()
	b.lifeOf(start, func(folded int64) {
		b.Eventually("the summaries so far", b.folded(folded))
		b.StopOrFail(stop)
		b.PutKeyed(schemas.TopicFindState, "1/0", []byte("rubbish"))
		b.PutKeyed(schemas.TopicFindState, "2/0", foldtest.Encode(t, &schemas.FindState{
			Cluster: foldtest.Cluster, JobID: "2", AsOf: start, Offset: 1, State: []byte("{}"),
		}))
		b.PutKeyed(schemas.TopicFindState, "2/0", nil)
		log, stop = b.find()
	})
	b.Eventually("all summaries", b.folded(lifeRecords))
	b.StopOrFail(stop)
	if got, want := b.findings(), steady.findings(); !slices.Equal(got, want) {
		t.Errorf("findings\n%q\nwant\n%q", got, want)
	}
	if got, want := b.findProgress().Counts, steady.findProgress().Counts; got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if log.Count("records in the topic of states cannot be read") != 1 {
		t.Errorf("the log has\n%s", log.String())
	}
}

// TestFindLearnsOfEnds: topic jobs tells of an end when all summaries are folded. The finding becomes final at once.
func TestFindLearnsOfEnds(t *testing.T) {
	b := newBench(t)
	_, stop := b.find()
	start := time.Now().UnixMilli()/findT*findT - 20*findT
	b.tells(&schemas.Job{JobID: "1", State: schemas.StateRunning, Start: &start})
	end := b.load("1", start, 1, 1, 1, 1, 1)
	b.Eventually("the summaries", b.folded(5))
	b.tells(&schemas.Job{JobID: "1", State: schemas.StateCompleted, Start: &start, End: &end})
	b.Eventually("the last finding", func() bool {
		all := b.Read(schemas.TopicFindings)
		return len(all) > 0 && all[len(all)-1].(*schemas.Finding).Final
	})
	b.load("1", end, 1)
	b.Eventually("a late summary", func() bool { return b.findProgress().Counts.Late == 1 })
	b.StopOrFail(stop)
}

// TestFindWithoutStates: where topic find-state was deleted, running jobs begin anew, and the log tells it.
func TestFindWithoutStates(t *testing.T) {
	b := newBench(t)
	_, stop := b.find()
	at := b.load("1", time.Now().UnixMilli()/findT*findT-20*findT, 1, 1, 1)
	b.Eventually("the summaries", b.folded(3))
	b.StopOrFail(stop)
	if err := b.Broker.DeleteTopic(b.Config.Prefix + schemas.TopicFindState); err != nil {
		t.Fatal(err)
	}
	b.CreateTopics()
	log, stop := b.find()
	b.load("1", at, 1, 1, 1)
	b.Eventually("the summaries of its new life", b.folded(6))
	b.StopOrFail(stop)
	if log.Count("running jobs begin anew") != 1 || len(b.Read(schemas.TopicFindings)) != 2 {
		t.Errorf("%d findings, the log has\n%s", len(b.Read(schemas.TopicFindings)), log.String())
	}
}

// TestFindWaitsForStates: a FindState that only a newer weir can read is not passed over.
func TestFindWaitsForStates(t *testing.T) {
	b := newBench(t)
	_, stop := b.find()
	b.load("1", time.Now().UnixMilli()/findT*findT-20*findT, 1, 1, 1)
	b.Eventually("the summaries", b.folded(3))
	b.StopOrFail(stop)
	newer := b.Client(kgo.TransactionalID("newer"))
	if err := newer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	value := append([]byte{0xC3, 0x01}, "a schema"...)
	r := &kgo.Record{Topic: b.Config.Prefix + schemas.TopicFindState, Key: []byte("1/0"), Value: value}
	if err := newer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := newer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	at := b.findProgress().Position
	log, stop := b.find()
	b.load("1", time.Now().UnixMilli()/findT*findT-10*findT, 1)
	b.Eventually("two tries", func() bool {
		return looptest.SeriesOf(t, b.Shown, "find")["weir_loop_restarts_total"] >= 2
	})
	b.StopOrFail(stop)
	if now := b.findProgress().Position; now != at || log.Count("a newer weir wrote it") == 0 {
		t.Errorf("position %d after %d; the log has\n%s", now, at, log.String())
	}
}

// TestFindingsLeaveWithTheirSummaries: the topic has findings of an ended job as long as job-summary has the job.
func TestFindingsLeaveWithTheirSummaries(t *testing.T) {
	b := newBench(t)
	b.Config.Topics.SummaryRetention = time.Hour
	start := time.Now().UnixMilli()/findT*findT - 2*time.Hour.Milliseconds()
	end := start + 3*findT
	b.tells(&schemas.Job{JobID: "1", State: schemas.StateCompleted, Start: &start, End: &end})
	_, stop := b.find()
	b.load("1", start, 1, 1, 1)
	b.load(schemas.JobSystem, start+30*60_000, 1)
	b.Eventually("the finding", func() bool { return len(b.findings()) > 0 })
	if all := b.findings(); !strings.Contains(all[len(all)-1], "busy") {
		t.Errorf("%q", all)
	}
	b.load(schemas.JobSystem, start+time.Hour.Milliseconds()+10*60_000, 1)
	b.Eventually("it leaves", func() bool { all := b.findings(); return all[len(all)-1] == "1/0/busy " })
	b.StopOrFail(stop)
}
