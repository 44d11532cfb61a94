package recount

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// entries is a log of one partition, whose intervals have 10 s.
type entries struct {
	t   *testing.T
	log []Entry
}

func (l *entries) put(r schemas.Record, appendedMs int64) {
	l.t.Helper()
	value, err := schemas.Marshal(r)
	if err != nil {
		l.t.Fatal(err)
	}
	l.log = append(l.log, Entry{int64(len(l.log)), appendedMs, value})
}

// send puts a record of a node into the log, at the end of an interval.
func (l *entries) send(node, job string, interval, at int64) {
	l.put(&schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: "c", Node: node, JobID: job, IntervalStart: interval * 10_000, IntervalMs: 10_000,
	}}, at*10_000+10_000)
}

func (l *entries) tick(interval int64, jobs ...schemas.TickJob) {
	l.put(&schemas.Tick{IntervalStart: interval * 10_000, IntervalMs: 10_000, Jobs: jobs}, interval*10_000+11_000)
}

func (l *entries) fold(p *Partition) (fates map[Fate]int, shares []string) {
	fates = map[Fate]int{}
	for _, e := range l.log {
		fx := p.Apply(e)
		for _, m := range fx.Met {
			fates[m.Fate]++
		}
		for _, s := range fx.Shares {
			var nodes []string
			for _, r := range s.Records {
				nodes = append(nodes, r.Node)
			}
			shares = append(shares, fmt.Sprintf("%d %s %d/%d %s",
				s.Start/10_000, s.Job.JobID, s.Reported(), len(s.Nodes), strings.Join(nodes, "+")))
		}
	}
	return fates, shares
}

// TestFates: each record meets the first fate that holds, and a Tick takes the records of the nodes that it lists.
func TestFates(t *testing.T) {
	l := &entries{t: t}
	a := schemas.TickJob{JobID: "a", Parts: 1, JobNodes: 2, Nodes: []string{"n1", "n2"}}
	l.send("n2", "a", 10, 10)
	l.send("n1", "a", 10, 10)
	l.send("n1", "a", 10, 10) // duplicate
	l.send("n3", "a", 10, 10) // misrouted: not listed
	l.send("n1", "b", 10, 10) // ended
	l.send("n1", "a", 13, 10) // rejected: from the future
	l.put(&schemas.Job{}, 110_000)
	l.tick(10, a, schemas.TickJob{JobID: "b", JobNodes: 1, Nodes: []string{"n1"}})
	l.tick(10, a)
	l.send("n1", "a", 10, 11) // late
	l.send("n1", "a", 11, 11)
	l.send("n1", "a", 12, 12)
	l.send("n1", "a", 76, 76) // drops interval 11
	l.send("n1", "a", 11, 76)
	l.tick(12, a)
	fates, shares := l.fold(NewPartition("c", 0, 1))
	want := map[Fate]int{Summarized: 3, Duplicate: 1, Misrouted: 1, EndedJob: 1, Rejected: 2, Late: 1, Dropped: 2}
	if fmt.Sprint(fates) != fmt.Sprint(want) {
		t.Errorf("fates %v, want %v", fates, want)
	}
	if want := []string{
		"10 a 2/2 n1+n2", "10 b 1/1 n1", "10 _system 2/2 ", "12 a 1/2 n1", "12 _system 1/2 ",
	}; !slices.Equal(shares, want) {
		t.Errorf("shares %q, want %q", shares, want)
	}
}

// TestBelated: records that are handed over when an interval is closed count behind all others.
func TestBelated(t *testing.T) {
	l := &entries{t: t}
	l.send("n1", "a", 10, 10)
	l.send("n1", "b", 10, 10)
	l.tick(10, schemas.TickJob{JobID: "a", Parts: 1, JobNodes: 2, Nodes: []string{"n1", "n2"}})
	late := func(node string) *Record {
		h := &schemas.NodeHeader{Node: node, JobID: "a", IntervalStart: 100_000, IntervalMs: 10_000}
		return &Record{NodeHeader: h}
	}
	p := NewPartition("c", 0, 1)
	p.Keeps = func(h *schemas.NodeHeader) bool { return h.JobID == "a" }
	p.Belated = func(start int64) []*Record {
		if start != 100_000 {
			t.Errorf("asked for interval %d", start)
		}
		return []*Record{late("n1"), late("n2")}
	}
	fates, shares := l.fold(p)
	if fates[Duplicate] != 1 || fates[Summarized] != 2 || fates[Misrouted] != 0 || shares[0] != "10 a 2/2 n1+n2" {
		t.Errorf("%v, %q", fates, shares)
	}
}
