package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	killSeed = flag.Uint64("kill.seed", 0, "seed of the kill test's schedule; 0: by the clock")
	killFor  = flag.Duration("kill.for", time.Minute, "how long the kill test kills")
)

// TestKill runs every service as a process of its own, most of them twice. For a minute it kills processes, stops them
// for longer than their groups wait, and takes their partitions away by force. In the end the topics and the archive
// must look as if nothing had happened.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	beside(t)
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	t.Logf("seed %d: repeat it with -kill.seed=%d", seed, seed)

	m := newMachine(t)
	at, embedded := m.findBrokers()
	s := systemOn(t, at)
	s.cfg.Find.Rules = s.findRules()
	file := s.configFile()
	services := m.addServices(file)
	for _, p := range services {
		p.start()
	}
	s.summarizes()

	done := s.perform(schedule(seed, *killFor, s.cfg), services)
	s.meetAll()
	if m.replayed() == 0 {
		s.makeReplays(m.replayed)
	}
	s.drain(services)
	heard := m.listen()
	s.replays.Store(heard.replayed)
	s.judge()
	s.judgeTicks()
	s.judgeFindings()
	if r, status := m.audit(file); status != 0 {
		t.Errorf("audit ends with status %d: %+v", status, r)
	}
	endAll(embedded...)

	t.Logf("seed %d: %v; %v", seed, done, heard)
	fenced := 0
	for _, n := range heard.fenced {
		fenced += n
	}
	for _, kind := range []string{"collect", "merge", "sink", "balance", "find", "simulate"} {
		if done["kill "+kind] == 0 {
			t.Errorf("no %s was killed", kind)
		}
	}
	for what, n := range map[string]int{
		"fenced": fenced, "replayed": heard.replays, "taken over": heard.takeovers,
		"given up": heard.evicted,
	} {
		if n == 0 {
			t.Errorf("nothing was %s: the run proves nothing about it", what)
		}
	}
	if heard.panics > 0 {
		t.Errorf("%d processes panicked", heard.panics)
	}
}

// The actions of a schedule.
const (
	actKill  = "kill"  // SIGKILL
	actStart = "start" // again, after a kill
	actStop  = "stop"  // SIGSTOP
	actCont  = "cont"  // SIGCONT
	actFence = "fence" // the first step of a second owner of a transactional id
	actFault = "fault" // late, repeated, misrouted or invalid records
)

type action struct {
	at     time.Duration // since the beginning
	what   string
	target string // process; with fence transactional id, less the prefix
}

// schedule returns the actions of a run. They depend on its arguments only. In each round every kind of service loses a
// process, one is stopped, and partitions are taken by force, in any order. A killed or stopped process is left alone
// meanwhile.
//
// find takes part only if it has rules of its own.
func schedule(seed uint64, length time.Duration, cfg config.Config) []action {
	rng := rand.New(rand.NewPCG(seed, 0))
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
	var actions []action
	busy := map[string]time.Duration{} // until when a process is killed or stopped
	free := func(kind string, at time.Duration) (string, bool) {
		names := []string{kind + "-a", kind + "-b"}
		if kind == "simulate" {
			names = names[:1]
		}
		idle := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return busy[n] > at })
		if len(idle) == 0 {
			return "", false
		}
		return idle[rng.IntN(len(idle))], true
	}
	take := func(what, kind, until string, at, span time.Duration) {
		if name, ok := free(kind, at); ok && at+span+time.Second < length { // at the end all run, and listen to SIGTERM
			actions = append(actions, action{at, what, name}, action{at + span, until, name})
			busy[name] = at + span + 500*time.Millisecond
		}
	}
	kinds := []string{"collect", "merge", "sink", "balance", "simulate"}
	if cfg.Find.Rules != "" {
		kinds = append(kinds, "find")
	}
	kills := map[string]int{}
	at := time.Duration(0)
	fence := func(id string, partition int) {
		actions = append(actions, action{at, actFence, fmt.Sprintf(id, partition)})
	}
	for round := 0; at < length; round++ {
		turns := []func(){
			func() { take(actStop, kinds[round%4], actCont, at, between(8*time.Second, 10*time.Second)) },
			func() { fence("collect-%d", rng.IntN(cfg.Collectors)) },
			func() { fence("collect-%d", rng.IntN(cfg.Collectors)) },
			func() { fence("merge-%d", rng.IntN(cfg.Partitions.Partials)) },
			func() { actions = append(actions, action{at, actFence, schemas.TopicBalance}) },
			func() { actions = append(actions, action{at, actFault, ""}) },
		}
		if cfg.Find.Rules != "" {
			turns = append(turns, func() { fence("find-%d", rng.IntN(cfg.Partitions.JobSummary)) })
			if round%3 == 1 {
				turns = append(turns, func() {
					take(actStop, "find", actCont, at, between(8*time.Second, 10*time.Second))
				})
			}
		}
		for _, kind := range kinds {
			turns = append(turns, func() {
				pause := time.Duration(0) // in turn at once, and after more than a session
				if kills[kind]++; kills[kind]%2 == 0 {
					pause = between(time.Second, 7*time.Second)
				}
				take(actKill, kind, actStart, at, pause)
			})
		}
		rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		for _, turn := range turns {
			if at += between(300*time.Millisecond, 1700*time.Millisecond); at < length {
				turn()
			}
		}
	}
	slices.SortStableFunc(actions, func(a, b action) int { return int(a.at - b.at) })
	return actions
}

// perform performs the actions of a schedule and counts them, by action and kind of service.
func (s *system) perform(actions []action, services map[string]*process) map[string]int {
	s.t.Helper()
	began := time.Now()
	done := map[string]int{}
	for _, a := range actions {
		// On a slow machine the schedule grows longer: a stop lasts for longer than a session however long it takes
		// to begin.
		began = began.Add(max(0, time.Since(began.Add(a.at))))
		time.Sleep(time.Until(began.Add(a.at)))
		s.log.Info("schedule", "at", a.at, "what", a.what, "target", a.target)
		p, ok := services[a.target], true
		switch a.what {
		case actKill:
			ok = p.kill()
		case actStart:
			p.start()
		case actStop:
			_, ok = p.signal(syscall.SIGSTOP)
		case actCont:
			_, ok = p.signal(syscall.SIGCONT)
		case actFence:
			s.fence(s.cfg.Prefix + a.target)
		case actFault:
			s.injectFaults()
		}
		if !ok {
			s.t.Errorf("%s %s: it does not run", a.what, a.target)
		}
		if a.what != actStart && a.what != actCont {
			done[strings.TrimSpace(a.what+" "+service(a.target))]++
		}
	}
	return done
}
