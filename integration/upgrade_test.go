package integration

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// sinceRelease is a file that the first commit after the last release added: the schema of Progress in that release.
const sinceRelease = "schemas/older/Progress-660cab1becc58863.avsc"

// upgradeOrder is the order of docs/deploy.md: readers of a record are upgraded before its writers. Agents write for the
// first three, and read the Routes of the balancer. find comes before its sources, and the last release lacks it.
var upgradeOrder = []string{"sink", "find", "merge", "collect", "simulate", "balance"}

// rollbackOrder is the order of docs/deploy.md as far as a rollback is possible. Progress got a field, so collect and
// merge cannot go back.
var rollbackOrder = []string{"balance", "simulate"}

// TestUpgrade starts every service from the last release's binary and upgrades one stage after the other under load.
// Then it takes back the stages that can go back. Every job of every Tick must have one summary with everything that
// its nodes sent, and the archive must contain all summaries.
func TestUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	if os.Getenv("KAFKA_SEEDS") != "" {
		t.Skip("UPGRADE TEST SKIPPED: it is run on the embedded broker, without KAFKA_SEEDS")
	}
	beside(t)
	older := buildLastRelease(t)
	m := newMachine(t)
	_, address := m.startBroker()
	s := systemOn(t, brokers{seeds: []string{address}, prefix: config.Default().Prefix, replication: 1})
	upgraded := map[string]bool{}
	services := m.addServices(s.plainConfigFile())
	for name, p := range services {
		with(p, func(cmd *exec.Cmd) {
			if !upgraded[service(name)] {
				cmd.Path = older
			}
		})
		if service(name) != "find" {
			p.start()
		}
	}
	w := s.watchMachine()
	s.summarizes()
	replace := func(stage string, up bool) {
		var all []*process
		for _, name := range slices.Sorted(maps.Keys(services)) {
			if service(name) == stage {
				all = append(all, services[name])
			}
		}
		if !up || stage != "find" {
			endAll(all...)
		}
		upgraded[stage] = up
		for _, p := range all {
			p.start()
		}
		s.awaitCommits()
		s.awaitTicks(s.newest() + 4*s.cfg.Interval.Milliseconds()) // five intervals, in which jobs begin and end
	}
	for _, stage := range upgradeOrder {
		replace(stage, true)
	}
	for _, stage := range rollbackOrder {
		replace(stage, false)
	}
	s.drain(services)
	s.judgeUpgrade(w)
	s.judgeTicks()
	if n := m.listen().panics; n > 0 {
		t.Errorf("%d processes panicked", n)
	}
}

// buildLastRelease builds the last release's command from this repository's history.
func buildLastRelease(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf(`cd "$(git rev-parse --show-toplevel)"
		after=$(git log --diff-filter=A --format=%%H -- %s | tail -1)
		git archive "${after:?is not in the history}^" | tar -x -C %q`, sinceRelease, dir)
	if out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c",
		script).CombinedOutput(); err != nil {
		t.Skipf("UPGRADE TEST SKIPPED: NOTHING WAS UPGRADED, since the last release is not in this clone "+
			"(git fetch --unshallow): %v: %s", err, out)
	}
	binary := filepath.Join(dir, "weir-older")
	if err := goBuild(dir, binary); err != nil {
		t.Fatalf("the last release: %v", err)
	}
	return binary
}

// plainConfigFile is a configuration without keys that an older release does not know.
func (s *system) plainConfigFile() string {
	s.t.Helper()
	c := s.cfg
	text := fmt.Sprintf(`cluster: %s
prefix: %q
interval: %v
backoff_cap: %v
collectors: %d
partitions: {routes: %d, job_summary: %d, partials: %d}
topics: {replication: %d, counters_retention: %v, summary_retention: %v, segment_bytes: %d}
kafka: {brokers: [%s]}
agent: {state_dir: %q}
sink: {dir: %q}
`, c.Cluster, c.Prefix, c.Interval, c.BackoffCap, c.Collectors,
		c.Partitions.Routes, c.Partitions.JobSummary, c.Partitions.Partials,
		c.Topics.Replication, c.Topics.CountersRetention, c.Topics.SummaryRetention, c.Topics.SegmentBytes,
		strings.Join(c.Kafka.Brokers, ", "), c.Agent.StateDir, c.Sink.Dir)
	file := filepath.Join(s.t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// judgeUpgrade checks the properties of summaries that must not change between two releases. Each job of each Tick has
// one, with everything that was sent for it.
func (s *system) judgeUpgrade(w *slowness) {
	s.t.Helper()
	o := newOracle(s.t, s.cfg.Cluster, s.read(schemas.TopicCounters))
	summaries, seen := s.summaries()
	for _, sum := range summaries {
		w := windowOf(sum)
		if w.job == schemas.JobSystem { // its counts depend on the release
			continue
		}
		e := o.windows[w]
		if e == nil || int(sum.NodesReported) != len(e.records) || sum.PartsReported != sum.Parts {
			s.t.Errorf("%+v: %d of %d nodes, %d of %d parts; the log has %+v", w, sum.NodesReported, sum.NodesExpected,
				sum.PartsReported, sum.Parts, e)
			continue
		}
		for i := range sum.Metrics {
			m := &sum.Metrics[i]
			sorted, invalid, _ := e.values(m)
			if m.Count != int64(len(sorted)) || m.Invalid != invalid || len(sorted) > 0 &&
				!near(*m.Mean, mean(sorted)) {
				s.t.Errorf("%+v: %s has %d values and %d invalid ones; want %d and %d", w, m.Name, m.Count, m.Invalid,
					len(sorted), invalid)
			}
		}
	}
	for w := range o.windows {
		if !seen[w] {
			s.t.Errorf("%+v has no summary", w)
		}
	}
	total := s.judgeFates(o)
	rows := s.judgeArchive(summaries)
	s.t.Logf("%d summaries, %d rows of the archive, fates %+v", len(summaries), rows, total)
	if total.summarized == 0 || rows == 0 {
		s.t.Error("nothing was summarized: the run proves nothing")
	}
	if total.rejected > 0 || total.duplicate > 0 {
		s.t.Errorf("records were lost: %+v", total)
	}
	s.t.Logf("%d slow answers of the broker", w.count())
	ms := s.cfg.Interval.Milliseconds()
	for _, r := range o.late {
		if !w.within(r.IntervalStart, r.IntervalStart+3*ms) {
			s.t.Errorf("a record of %s of %d was late and is lost", r.Node, r.IntervalStart)
		}
	}
	for _, stray := range o.strays {
		// If no balancer planned an interval, since its upgrade took that long, no Tick lists the jobs that ended
		// within it. A slow machine may deliver a Route after the interval for which it was planned.
		if o.windows[stray] != nil && !w.within(stray.start, stray.start+3*ms) {
			s.t.Errorf("a record of %+v went where no Tick lists it", stray)
		}
	}
}
