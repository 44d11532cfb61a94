package find

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

// factsOf are facts about a node with so much memory.
func factsOf(t *testing.T, node string, memory int64) []byte {
	t.Helper()
	return foldtest.Encode(t, &schemas.NodeFacts{
		Cluster: foldtest.Cluster, Node: node, Source: schemas.FactsAgent, CPUs: 4, ThreadsPerCore: 1, Memory: memory,
	})
}

// TestFindKnowsNodesByTheirFacts: without `machine`, a rule that needs the memory of a node finds jobs by what agents
// report. Facts that come while a job runs count from then on, and facts under another node's key never.
func TestFindKnowsNodesByTheirFacts(t *testing.T) {
	b := newBench(t)
	b.PutKeyed(schemas.TopicFacts, "n1", factsOf(t, "n1", 1<<30))
	b.PutKeyed(schemas.TopicFacts, "n2", factsOf(t, "n3", 1<<30))
	start := time.Now().Add(-time.Hour).Truncate(time.Minute).UnixMilli()
	for job, node := range map[string]string{"1": "n1", "2": "n2"} {
		b.tells(&schemas.Job{JobID: job, State: schemas.StateRunning, Start: &start, Nodes: []string{node}})
	}
	set := busyRules(t, "load.mean > 0.5", "load.mean > 0.5 && node.memory > 0")
	ctx, cancel := context.WithCancel(context.Background())
	done, log := make(chan error, 1), &kafkatest.Log{}
	go func() { done <- Run(ctx, b.Config, log.Logger(), b.metrics, set) }()
	defer b.StopOrFail(func() error { cancel(); return <-done })
	b.load("1", start, 1, 1, 1, 1)
	b.load("2", start, 1, 1, 1, 1)
	b.Eventually("8 summaries", b.folded(8))
	found := func(job string) bool {
		for _, r := range b.Read(schemas.TopicFindings) {
			if f := r.(*schemas.Finding); f.JobID == job && f.State == schemas.FindingOpen {
				return true
			}
		}
		return false
	}
	b.Eventually("a finding of the job on n1", func() bool { return found("1") })
	if found("2") {
		t.Error("the facts of n3 decide for n2")
	}
	if log.Count("record of topic facts cannot be used") != 1 {
		t.Errorf("the foreign record is not logged once: %s", log)
	}
}

// TestNewFactsReachRunningJobs: a look takes what is new alone, follows a topic that is made anew, and goes on with
// what it knows where the topic is gone.
func TestNewFactsReachRunningJobs(t *testing.T) {
	b := newBench(t)
	k, err := newKnownTypes(b.Config, (&kafkatest.Log{}).Logger())
	if err != nil {
		t.Fatal(err)
	}
	topic := b.Config.Prefix + schemas.TopicFacts
	look := func() error { return k.look(t.Context(), b.Client(kafka.ReaderOpts()...), topic) }
	memory := func(node string) int64 { return k.get().Of([]string{node}).Memory }
	if err := look(); err != nil || memory("n1") != 0 {
		t.Fatal(err)
	}
	b.PutKeyed(schemas.TopicFacts, "n1", factsOf(t, "n1", 1<<30))
	if err := look(); err != nil || memory("n1") != 1<<30 {
		t.Errorf("%d, %v", memory("n1"), err)
	}
	before := k.get()
	if err := look(); err != nil || k.get() != before {
		t.Errorf("types are made again without news: %v", err)
	}
	b.PutKeyed(schemas.TopicFacts, "n2", factsOf(t, "n2", 2<<30))
	if err := look(); err != nil || memory("n1") != 1<<30 || memory("n2") != 2<<30 {
		t.Errorf("%d, %d, %v", memory("n1"), memory("n2"), err)
	}
	if _, err := kadm.NewClient(b.Kafka).DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if err := look(); err == nil || memory("n1") != 1<<30 {
		t.Errorf("the topic is gone: %d, %v", memory("n1"), err)
	}
	b.CreateTopics()
	b.Kafka = b.Client() // a client does not follow a topic that is made anew
	b.PutKeyed(schemas.TopicFacts, "n1", factsOf(t, "n1", 3<<30))
	if err := look(); err != nil || memory("n1") != 3<<30 || memory("n2") != 0 {
		t.Errorf("the topic is made anew: %d, %d, %v", memory("n1"), memory("n2"), err)
	}
}
