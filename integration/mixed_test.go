package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/schemas"
)

var (
	mixedSeed  = flag.Uint64("mixed.seed", 0, "first seed of the test of mixed names; 0: by the clock")
	mixedSeeds = flag.Uint64("mixed.seeds", 1, "how many seeds, one after the other")
	mixedFor   = flag.Duration("mixed.for", 15*time.Second, "how long each seed kills")
)

const (
	// mixedSettle is the time for groups after the last kill: a session and a rebalance of the dead, and the start of
	// processes.
	mixedSettle = 15 * time.Second
)

// TestMixedNames kills services at random, often while they still join. Some of their lives have a static name in their
// group, others have none. At the end every partition must have a live owner, which commits.
func TestMixedNames(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	beside(t)
	first := *mixedSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano() % 1_000_000)
	}
	for seed := first; seed < first+*mixedSeeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("repeat it with -mixed.seed=%d -mixed.for=%v", seed, *mixedFor)
			mixNames(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func mixNames(t *testing.T, rng *rand.Rand) {
	m := newMachine(t)
	at, embedded := m.findBrokers()
	s := systemOn(t, at)
	services := m.addServices(s.configFile())
	var all []*process
	for _, p := range services {
		p.start()
		all = append(all, p)
	}
	var victims []*process
	for _, name := range []string{
		"balance-a", "balance-b", "collect-a", "collect-b", "merge-a", "merge-b", "find-a", "find-b",
	} {
		p := services[name]
		life := p.make
		p.make = func() *exec.Cmd {
			cmd := life()
			cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "WEIR_INSTANCE=") })
			if rng.IntN(2) == 0 {
				cmd.Env = append(cmd.Env, "WEIR_INSTANCE="+name)
			}
			return cmd
		}
		victims = append(victims, p)
	}
	s.eventually("every partition has an owner", func() bool { return len(s.silentSince(time.Time{})) == 0 })

	kills := 0
	strike := func(p *process) {
		sig := syscall.SIGKILL
		if rng.IntN(4) == 0 {
			sig = syscall.SIGTERM
		}
		if ended, sent := p.signal(sig); sent {
			select {
			case <-ended:
			case <-time.After(endPatience):
				t.Fatalf("%s does not end within %v of %v", p.name, endPatience, sig)
			}
			kills++
		}
		// The next life comes at once, within a heartbeat, or while a session still counts the last one in.
		time.Sleep([]time.Duration{0, 300 * time.Millisecond, 2 * time.Second}[rng.IntN(3)])
		p.start()
	}
	for end := time.Now().Add(*mixedFor); time.Now().Before(end); {
		p := victims[rng.IntN(len(victims))]
		for range 1 + rng.IntN(3) { // the next life too, which may still wait for its predecessor's session to end
			strike(p)
			time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Second))))
		}
	}
	time.Sleep(mixedSettle) // no state shows whether the group will yet move a partition to a dead member
	settled := time.Now()
	var silent []string
	defer func() {
		if len(silent) > 0 {
			t.Errorf("nobody has committed %v for %v; the groups: %s", silent, time.Since(settled), s.groups())
		}
	}()
	s.eventually("a commit in every partition, which an owner makes every ten seconds at least", func() bool {
		silent = s.silentSince(settled)
		return len(silent) == 0
	})
	t.Logf("%d kills; %.0f s after the groups had settled, every partition has a commit",
		kills, time.Since(settled).Seconds())
	endAll(all...)
	endAll(embedded...)
	if heard := m.listen(); heard.panics > 0 {
		t.Errorf("%d processes panicked", heard.panics)
	}
}

// silentSince returns the partitions of collect, merge and find without a commit since a time.
func (s *system) silentSince(since time.Time) (silent []string) {
	for topic, partitions := range map[string]int{
		schemas.TopicProgress: s.cfg.Collectors, schemas.TopicMergeProgress: s.cfg.Partitions.Partials,
		schemas.TopicFindProgress: s.cfg.Partitions.JobSummary,
	} {
		last := make([]time.Time, partitions)
		for _, r := range s.read(topic) {
			last[r.Partition] = r.Timestamp
		}
		for p, t := range last {
			if !t.After(since) {
				silent = append(silent, fmt.Sprintf("%s-%d", topic, p))
			}
		}
	}
	return silent
}

// groups describes the owners of partitions.
func (s *system) groups() string {
	described, err := kadm.NewClient(s.cl).DescribeGroups(s.t.Context(), s.cfg.Prefix+"collect", s.cfg.Prefix+"merge",
		s.cfg.Prefix+"find")
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, g := range described.Sorted() {
		fmt.Fprintf(&text, "\n%s is %s", g.Group, g.State)
		for _, m := range g.Members {
			assigned, _ := m.Assigned.AsConsumer()
			fmt.Fprintf(&text, "\n  %s at %s: %+v", m.MemberID, m.ClientHost, assigned)
		}
	}
	return text.String()
}
