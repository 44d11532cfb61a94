package month

import (
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// shipped returns the rules that weir ships.
func shipped(t testing.TB) *rules.Set {
	t.Helper()
	agent := config.Default().Agent
	agent.PeakFlops, agent.PeakMemBW = peakFlops, peakMemBW
	var known []rules.Known
	for _, m := range source.Catalogue(agent) {
		known = append(known, rules.Known{Name: m.Name, Unit: m.Unit, Scope: m.Scope})
	}
	set, err := rules.Compile(known, nil, rules.Source{Name: "shipped.yaml", Text: rules.Shipped()})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Rules) != 19 {
		t.Fatalf("%d rules are shipped", len(set.Rules))
	}
	return set
}

// watch folds the hours of some spans, and hands each finding that was due to found.
func watch(t *testing.T, m *machine, f *finder, spans [][2]time.Time, found func(f *schemas.Finding)) {
	t.Helper()
	for _, span := range spans {
		for one := range m.hours(t.Context(), span[0], span[1]) {
			h := <-one
			if h.err != nil {
				t.Fatal(h.err)
			}
			for _, s := range h.summaries {
				f.add(s)
				for i := range f.due {
					found(&f.due[i])
				}
			}
		}
	}
}

// TestHealthyJobsHaveNoFindings: no rule holds for a job of a month in which nothing is wrong, though every rule almost
// holds for some. All rules are evaluated for some job, so that none is silent because a metric is missing.
func TestHealthyJobsHaveNoFindings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		days     int
		interval time.Duration
	}{{monthDays, 5 * time.Minute}, {monthDays / 10, time.Minute}} {
		m := made(Healthy, 1, january, c.days, c.interval)
		m.sketch = 0
		f, err := newFinder(m, shipped(t))
		if err != nil {
			t.Fatal(err)
		}
		months := [][2]time.Time{{january, january.AddDate(0, 0, c.days)}}
		watch(t, m, f, months, func(x *schemas.Finding) {
			t.Errorf("job %s (%s): %s is %s: matched in %d of %d intervals, %v",
				x.JobID, f.jobs[x.Job()].Name, x.Rule, x.State, x.Matched, x.Evaluated, x.Evidence)
		})
		if ended := len(m.jobs) - len(f.watches); ended < 3*c.days {
			t.Errorf("only %d jobs have ended", ended)
		}
	}
}

// beside are rules that hold by themselves where another problem is: nodes without work are cores without work.
var beside = map[string][]string{
	"unused-node": {"idle-cores"},
	"serial":      {"low-use"},
	"stalled":     {"low-cpu"},
}

// TestProblemsAreFound: each rule finds its small job and its large one within ten minutes of the time from which its
// guards hold and there is something to find. It finds nothing else.
func TestProblemsAreFound(t *testing.T) {
	t.Parallel()
	m := made(Problems, 1, january, 30, 2*time.Minute)
	m.sketch = 0
	f, err := newFinder(m, shipped(t))
	if err != nil {
		t.Fatal(err)
	}
	problems := map[string]Problem{}
	var spans [][2]time.Time
	jobsOf := map[string]int{}
	for _, p := range m.planted() {
		if jobsOf[p.Rule]++; raceEnabled && jobsOf[p.Rule] > 1 {
			continue
		}
		problems[p.JobID] = p
		j := f.jobs[schemas.JobKey{JobID: p.JobID}]
		from := time.UnixMilli(*j.Start).UTC().Truncate(time.Hour)
		to := time.UnixMilli(*j.End + m.intervalMs).UTC().Truncate(time.Hour).Add(time.Hour)
		if last := len(spans) - 1; last >= 0 && !from.After(spans[last][1]) {
			spans[last][1] = later(to, spans[last][1])
		} else {
			spans = append(spans, [2]time.Time{from, to})
		}
	}
	opened := map[string]int64{}
	watch(t, m, f, spans, func(x *schemas.Finding) {
		p, planted := problems[x.JobID]
		switch {
		case !planted: // this test does not fold all of its life
		case x.Rule == p.Rule:
			if _, before := opened[x.JobID]; !before {
				opened[x.JobID] = x.AsOf
			}
		case !slices.Contains(beside[p.Rule], x.Rule) && x.State == schemas.FindingOpen:
			t.Errorf("job %s with %s: %s holds too, in %d of %d: %v",
				x.JobID, p.Rule, x.Rule, x.Matched, x.Evaluated, x.Evidence)
		}
	})
	for id, p := range problems {
		j := f.jobs[schemas.JobKey{JobID: id}]
		from := max(p.FromMs, m.guardMs(j))
		at, found := opened[id]
		switch within := time.Duration(at-from) * time.Millisecond; {
		case !found:
			t.Errorf("job %s (%s): %s was not found", id, j.Name, p.Rule)
		case within > 10*time.Minute:
			t.Errorf("job %s (%s): %s was found after %v", id, j.Name, p.Rule, within)
		}
	}
	if len(jobsOf) != 19 {
		t.Errorf("problems of %d rules: %v", len(jobsOf), jobsOf)
	}
}

// guardMs is the start of the interval with which the shipped guards first hold: 30 were evaluated, the first of which
// begins a minute after the job. A later one has come too.
func (m *machine) guardMs(j *job) int64 {
	first := (*j.Start + 60_000 + m.intervalMs - 1) / m.intervalMs * m.intervalMs
	return max(first+30*m.intervalMs, *j.Start+600_000)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
