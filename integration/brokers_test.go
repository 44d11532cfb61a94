package integration

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// resumeLimit is how long commits may stay away after a broker's end: until its session with the controller is over,
// and 10 s.
const resumeLimit = 6*time.Second + 10*time.Second

// TestBrokers stops one broker of three as an administrator does, and kills another, while every service runs. Each
// time all partitions must go on long before the broker is back, and at the end all must be as if nothing had happened.
func TestBrokers(t *testing.T) {
	b := needBrokers(t)
	m := newMachine(t)
	s := systemOn(t, findBrokers(t))
	services := m.addServices(s.configFile())
	for _, p := range services {
		p.start()
	}
	s.summarizes()
	s.makeReplays(m.replayed)

	type outage struct {
		name     string
		from, to time.Time
	}
	var outages []outage
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		id, leads := s.busiestBroker()
		began := time.Now()
		b.end(id, sig)
		what := fmt.Sprintf("%v of broker %d, which led %s", sig, id, leads)
		outages = append(outages, outage{what, began, time.Now()})
		s.eventually("all replicas are in sync", s.inSync)
	}
	s.eventually("the new leaders know their partitions' ends", s.endsKnown)
	s.injectFaults()
	s.meetAll()

	s.drain(services)
	s.replays.Store(m.listen().replayed)
	s.judge()
	s.judgeTicks()
	for _, o := range outages {
		gaps := s.commitGaps(o.from, o.to)
		t.Logf("%s: it was back after %.1f s; the longest time without a commit %s", o.name,
			o.to.Sub(o.from).Seconds(), gaps)
		for partition, gap := range gaps {
			if gap > resumeLimit {
				t.Errorf("%s: %s had no commit for %v", o.name, partition, gap)
			}
		}
	}
	t.Logf("%v", m.listen())
}

// liveBrokers are Kafka's processes, which somebody starts again when they end.
type liveBrokers struct {
	t    *testing.T
	file string // a line of process id and properties file for each, in the order of their ids
}

// needBrokers finds the processes of Kafka's brokers, or skips the test.
func needBrokers(t *testing.T) liveBrokers {
	t.Helper()
	b := liveBrokers{t, filepath.Join(os.Getenv("KAFKA_DIR"), "pids")}
	if os.Getenv("KAFKA_SEEDS") == "" || os.Getenv("KAFKA_DIR") == "" || len(b.lines()) < 3 {
		t.Skip("SKIPPED: NO BROKER WAS STOPPED, since nobody would start it again: make test-kafka does")
	}
	return b
}

func (b liveBrokers) lines() []string {
	text, err := os.ReadFile(b.file)
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(text)))
}

// pid is the process id of a broker now.
func (b liveBrokers) pid(id int32) int {
	b.t.Helper()
	number, _, _ := strings.Cut(b.lines()[id-1], " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		b.t.Fatal(err)
	}
	return pid
}

// end sends a broker a signal that ends it, and returns when it has another process.
func (b liveBrokers) end(id int32, sig syscall.Signal) {
	b.t.Helper()
	pid := b.pid(id)
	if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil ||
		!bytes.Contains(cmdline, []byte("kafka.Kafka")) {
		b.t.Fatalf("process %d is not broker %d: %q, %v", pid, id, cmdline, err)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		b.t.Fatalf("sending %v to broker %d: %v", sig, id, err)
	}
	kafkatest.Eventually(b.t, fmt.Sprintf("another process of broker %d", id), func() bool { return b.pid(id) != pid })
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
