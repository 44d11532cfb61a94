package status

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// A node that is 9 s ahead is named with its offset, whether its agent measures its clock or not. So is one that is 3 s
// behind, where its agent does. A node that was set right is not, although its records of before are there.
func TestClocksOff(t *testing.T) {
	c := clockSigns{}
	add := func(cluster, node string, sentAt, appended int64, offsetUs ...float64) {
		b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Cluster: cluster, Node: node, IntervalMs: 10_000, SentAt: sentAt,
		}}
		for _, v := range offsetUs {
			b.Metrics = append(b.Metrics,
				schemas.CounterBatchMetric{Name: schemas.MetricClockOffset, Values: []float64{v}},
				schemas.CounterBatchMetric{Name: schemas.MetricClockBound, Values: []float64{2000}})
		}
		c.add("c", b, appended, 1)
	}
	add("c", "old", 59_000, 50_000)
	add("c", "ahead", 60_001, 50_000, 10_001_000)
	add("c", "behind", 47_000, 50_000, -3_000_000)
	add("c", "set", 59_000, 50_000, 9_000_000)
	add("c", "set", 60_000, 60_001, 300)
	add("c", "set", 59_000, 50_000, 9_000_000) // of another partition, read later
	add("c", "good", 50_000, 50_001, 300)
	add("other", "foreign", 59_000, 50_000)
	c.add("c", &schemas.Tick{}, 50_000, 1)
	want := []NodeClock{{"ahead", 10_001}, {"old", 9000}, {"behind", -3000}}
	if diff := cmp.Diff(want, c.off(c.brokers())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s := &Status{ClocksOff: c.off(c.brokers())}
	s.judgeClocks(config.Default())
	says := "clocks of 3 nodes are off by more than 1s, against the broker's: " +
		"[ahead +10.001s, old +9s, behind -3s]: set"
	if len(s.Wrong) != 1 || !strings.HasPrefix(s.Wrong[0], says) {
		t.Errorf("%q, want %q", s.Wrong, says)
	}
	s = &Status{ClocksOff: clockSigns{}.off(nil)}
	if s.judgeClocks(config.Default()); len(s.Wrong) != 0 || s.ClocksOff == nil {
		t.Errorf("of nothing: %+v", s)
	}
}

// The newest row of the whole machine that tells counts, in whatever order rows come.
func TestSynchronyIsThatOfTheNewestRow(t *testing.T) {
	row := func(job string, start int64, share ...float64) *schemas.JobSummary {
		s := &schemas.JobSummary{JobID: job, IntervalStart: start}
		for _, v := range share {
			s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{Name: schemas.MetricInWindow, Nodes: 4, Mean: &v})
		}
		return s
	}
	var s *Synchrony
	for _, r := range []*schemas.JobSummary{
		row(schemas.JobSystem, 1000), row("j", 5000, 1), row(schemas.JobSystem, 3000, 0.75),
		row(schemas.JobSystem, 2000, 1), row(schemas.JobSystem, 4000),
	} {
		s = s.newer(r)
	}
	if diff := cmp.Diff(&Synchrony{3000, 4, 0.75}, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestClockOfABroker: if nodes look wrong to one broker alone, that broker is wrong, and the nodes are right. A node
// that looks wrong to another broker stays named. Without another broker this is unknown, and the nodes are named.
func TestClockOfABroker(t *testing.T) {
	say := func(c clockSigns, node string, broker int32, ahead int64) {
		c.add("c", &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Cluster: "c", Node: node, IntervalMs: 10_000, SentAt: 50_000,
		}, Metrics: []schemas.CounterBatchMetric{
			{Name: schemas.MetricClockOffset, Values: []float64{float64(ahead) * 1000}},
			{Name: schemas.MetricClockBound, Values: []float64{2000}},
		}}, 50_000, broker)
	}
	for name, hours := range map[string]int64{"behind": 2, "ahead": -9 * 24} {
		ms := hours * time.Hour.Milliseconds()
		c := clockSigns{}
		for i := range int64(20) {
			say(c, fmt.Sprintf("a%02d", i), 1, ms+i)
			say(c, fmt.Sprintf("b%02d", i), 2, i)
		}
		say(c, "a00", 2, 0)
		alone := maps.Clone(c)
		maps.DeleteFunc(alone, func(w clockWitness, _ clockSaid) bool { return w.broker == 2 })
		say(c, "b00", 2, 9000)
		wrong := c.brokers()
		if len(wrong) != 1 || wrong[0].Broker != 1 || wrong[0].Nodes != 20 ||
			max(wrong[0].OffsetMs+ms, -ms-wrong[0].OffsetMs) > 20 {
			t.Errorf("%s: %+v", name, wrong)
		}
		if diff := cmp.Diff([]NodeClock{{"b00", 9000}}, c.off(wrong)); diff != "" {
			t.Errorf("%s: nodes (-want +got):\n%s", name, diff)
		}
		s := &Status{BrokersOff: wrong}
		s.judgeClocks(config.Default())
		if len(s.Wrong) != 1 || !strings.HasPrefix(s.Wrong[0], "the clock of broker 1 is ") ||
			!strings.Contains(s.Wrong[0], name) || strings.Contains(s.Wrong[0], "deletes") != (name == "ahead") {
			t.Errorf("%s: %q", name, s.Wrong)
		}
		if n := len(alone.off(alone.brokers())); n != 20 {
			t.Errorf("%s: without another broker %d nodes are named, want 20", name, n)
		}
	}
}
