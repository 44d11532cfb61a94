package integration

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/schemas"
)

const (
	// awayFor is how long a broker is broken.
	awayFor = 15 * time.Second
	// resumeLimit is how long commits may stay away after a broker's end: until its session with the controller is
	// over, and 10 s.
	resumeLimit = 6*time.Second + 10*time.Second
	// pausedLimit is the same for a broker that is silent on open connections. Clients may wait until it is back, and
	// then for their requests: 10 to 24 s were seen.
	pausedLimit = awayFor + 25*time.Second
)

// outage is a fault of a broker, and how long commits may stay away.
type outage struct {
	fault Fault
	limit time.Duration
}

// Outages stops a broker of three as an administrator does, kills one, and pauses one, while every service runs. After
// a stop and a kill all partitions must go on long before the broker is back. At the end all must be as if nothing had
// happened.
func Outages(t *testing.T, c Cluster) {
	need(t, c, 3, Stop, Kill, Pause)
	m := newMachine(t)
	s := systemOn(t, brokersOf(t, c))
	services := m.addServices(s.configFile())
	for _, p := range services {
		p.start()
	}
	s.summarizes()
	s.makeReplays(m.replayed)

	type span struct {
		outage
		what     string
		from, to time.Time
	}
	var spans []span
	for _, o := range []outage{{Stop, resumeLimit}, {Kill, resumeLimit}, {Pause, pausedLimit}} {
		id, leads := s.busiestBroker()
		began := time.Now()
		mend := c.Break(t, id, o.fault)
		time.Sleep(time.Until(began.Add(awayFor)))
		mend()
		what := fmt.Sprintf("%s of broker %d, which led %s", o.fault, id, leads)
		spans = append(spans, span{o, what, began, time.Now()})
		s.eventually("all replicas are in sync", s.inSync)
	}
	s.eventually("the new leaders know their partitions' ends", s.endsKnown)
	s.injectFaults()
	s.meetAll()

	s.drain(services)
	s.replays.Store(m.listen().replayed)
	s.judge()
	s.judgeTicks()
	for _, o := range spans {
		gaps := s.commitGaps(o.from, o.to)
		t.Logf("%s: it was back after %.1f s; the longest time without a commit %s", o.what,
			o.to.Sub(o.from).Seconds(), gaps)
		for partition, gap := range gaps {
			if gap > o.limit {
				t.Errorf("%s: %s had no commit for %v", o.what, partition, gap)
			}
		}
	}
	t.Logf("%v", m.listen())
}

// busiestBroker is the broker that coordinates the most transactions, and of several that leads the most partitions.
func (s *system) busiestBroker() (id int32, leads string) {
	s.t.Helper()
	topics, err := kadm.NewClient(s.cl).ListTopicsWithInternal(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	type counts struct{ coordinated, led int }
	of := map[int32]counts{}
	topics.EachPartition(func(p kadm.PartitionDetail) {
		c := of[p.Leader]
		switch {
		case p.Topic == "__transaction_state":
			c.coordinated++
		case strings.HasPrefix(p.Topic, s.cfg.Prefix):
			c.led++
		}
		of[p.Leader] = c
	})
	id = slices.MaxFunc(slices.Collect(maps.Keys(of)), func(a, b int32) int {
		return cmp.Or(cmp.Compare(of[a].coordinated, of[b].coordinated), cmp.Compare(of[a].led, of[b].led))
	})
	return id, fmt.Sprintf("%d partitions of ours and %d of the transactions' state", of[id].led, of[id].coordinated)
}

// inSync reports whether every replica of every partition is where it should be.
func (s *system) inSync() bool {
	topics, err := kadm.NewClient(s.cl).ListTopicsWithInternal(s.t.Context())
	if err != nil {
		return false // asked while a broker is away
	}
	all := true
	topics.EachPartition(func(p kadm.PartitionDetail) { all = all && p.Leader >= 0 && len(p.ISR) == len(p.Replicas) })
	return all
}

// endsKnown reports whether every partition of ours has an end to ask for: a leader just elected does not say for a
// moment.
func (s *system) endsKnown() bool {
	ends, err := kadm.NewClient(s.cl).ListCommittedOffsets(s.t.Context(), s.cfg.Prefix+schemas.TopicCounters,
		s.cfg.Prefix+schemas.TopicProgress, s.cfg.Prefix+schemas.TopicMergeProgress)
	return err == nil && ends.Error() == nil
}

// gaps are the longest times without a commit, by partition.
type gaps map[string]time.Duration

// commitGaps looks for them between two times. What was committed is read when all is over. Each commit has its time in
// it, and no reader who suffers from the same fault is asked.
func (s *system) commitGaps(from, to time.Time) gaps {
	s.t.Helper()
	longest, last := gaps{}, map[string]time.Time{}
	for _, topic := range []string{schemas.TopicProgress, schemas.TopicMergeProgress} {
		for _, r := range s.read(topic) {
			partition := fmt.Sprintf("%s-%d", topic, r.Partition)
			if before := last[partition]; r.Timestamp.After(from) && before.Before(to) {
				longest[partition] = max(longest[partition], r.Timestamp.Sub(before))
			}
			last[partition] = r.Timestamp
		}
	}
	for partition, t := range last {
		if t.Before(to) {
			longest[partition] = max(longest[partition], to.Sub(t))
		}
	}
	return longest
}

func (g gaps) String() string {
	var parts []string
	for _, partition := range slices.Sorted(maps.Keys(g)) {
		parts = append(parts, fmt.Sprintf("%s %.1f s", partition, g[partition].Seconds()))
	}
	return strings.Join(parts, ", ")
}
