package simulate

import (
	"flag"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/rules"
)

var full = flag.Bool("full", false, "fold all of a healthy month")

// known are the metrics of the agent's catalogue.
func known() (all []rules.Known) {
	agent := config.Default().Agent
	agent.PeakFlops, agent.PeakMemBW = peakFlops, peakMemBW
	for _, m := range source.Catalogue(agent) {
		all = append(all, rules.Known{Name: m.Name, Unit: m.Unit, Scope: m.Scope})
	}
	return all
}

// shipped returns the rules that weir ships.
func shipped(t *testing.T) *rules.Set {
	t.Helper()
	set, err := rules.Compile(known(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Rules) != 19 {
		t.Fatalf("%d rules are shipped", len(set.Rules))
	}
	return set
}

// loose returns the shipped rules with their thresholds a little beyond what healthy jobs do.
func loose(t *testing.T) *rules.Set {
	t.Helper()
	text := string(rules.Shipped())
	for _, change := range [][2]string{
		{"io: 1.0e6}", "io: 1.0e9}"},
		{"require: job.gpus == 0 && job.cores >= 10", "require: job.cores >= 10"},
		{"{idle: 0.99, core: 0.95}", "{idle: 0.95, core: 0.95}"},
		{"job.nodes == 1 && job.cores > 1", "job.nodes == 1 && job.cores >= 1"},
		{"parameters: {idle: 0.2}", "parameters: {idle: 0.12}"},
		{"{spread: 0.5, busy: 0.2}", "{spread: 0.15, busy: 0.2}"},
		{"{least: 0.2, factor: 2}", "{least: 0.02, factor: 0.9}"},
		{"{ratio: 0.85, idle: 0.5}", "{ratio: 0.96, idle: 0.5}"},
		{"parameters: {share: 0.8}", "parameters: {share: 0.65}"},
		{"{flops: 0.01, vector: 0.25}", "{flops: 0.002, vector: 0.25}"},
		{"{flops: 0.01, memory: 0.05}", "{flops: 0.01, memory: 0.12}"},
		{"{wait: 0.1}", "{wait: 0.04}"},
		{"share: 0.05\n", "share: 0.005\n"},
		{"parameters: {share: 0.9}", "parameters: {share: 0.8}"},
		{"{cores: 0.85, share: 0.35}", "{cores: 0.85, share: 0.5}"},
		{"acc_utilization.hi0 == 0", "acc_utilization.hi0 < 0.5"},
		{"{dark: 0.99}", "{dark: 0}"},
		{"share: 0.99\n", "share: 0.05\n"},
		{"< p.idle\n  share: 0.5", "< p.idle\n  share: 0.01"},
		{"{least: 3600, share: 0.2}", "{least: 3600, share: 0.27}"},
		{"{worked: 0.2, idle: 0.9}", "{worked: 0.2, idle: 0.1}"},
	} {
		if strings.Count(text, change[0]) != 1 {
			t.Fatalf("%q is there %d times", change[0], strings.Count(text, change[0]))
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	text = regexp.MustCompile(`(?m)^  examples: .*\n`).ReplaceAllString(text, "")
	var off []string
	for _, r := range shipped(t).Rules {
		off = append(off, r.ID)
	}
	set, err := rules.Compile(known(), off, rules.Source{Name: "loose.yaml", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// watch folds the hours of some spans, and hands each finding that was due to found.
func watch(t *testing.T, m *machine, spans [][2]time.Time, found func(f *finder, x *schemas.Finding), all ...*finder) {
	t.Helper()
	for _, span := range spans {
		for one := range m.hours(t.Context(), span[0], span[1]) {
			h := <-one
			if h.err != nil {
				t.Fatal(h.err)
			}
			for _, s := range h.summaries {
				for _, f := range all {
					f.add(s)
					for i := range f.due {
						found(f, &f.due[i])
					}
				}
			}
		}
	}
}

func finderOf(t *testing.T, m *machine, set *rules.Set) *finder {
	t.Helper()
	f, err := newFinder(m, set)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestHealthyJobsHaveNoFindings: no rule holds for a job of a month in which nothing is wrong. Every rule almost holds
// for some job: with a threshold a little beyond, it does.
func TestHealthyJobsHaveNoFindings(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	almost := map[string]map[string]bool{}
	months, minutes := monthDays, minuteDays
	if *full {
		months, minutes = 30, 2
	}
	for _, c := range []struct {
		days     int
		interval time.Duration
	}{{months, 5 * time.Minute}, {minutes, time.Minute}} {
		m := made(Healthy, 1, january, c.days, c.interval)
		m.sketch = 0
		strict, near := finderOf(t, m, shipped(t)), finderOf(t, m, loose(t))
		wrong := map[string]bool{}
		all := [][2]time.Time{{january, january.AddDate(0, 0, c.days)}}
		watch(t, m, all, func(f *finder, x *schemas.Finding) {
			name := f.jobs[x.Job()].Name
			if f == near {
				if almost[x.Rule] == nil {
					almost[x.Rule] = map[string]bool{}
				}
				almost[x.Rule][name] = true
				return
			}
			if is := x.Rule + " in job " + x.JobID; !wrong[is] {
				wrong[is] = true
				t.Errorf("%s (%s): matched in %d of %d intervals of %v: %v",
					is, name, x.Matched, x.Evaluated, c.interval, x.Evidence)
			}
		}, strict, near)
		if ended := len(m.jobs) - len(strict.watches); ended < 10*c.days {
			t.Errorf("only %d jobs have ended", ended)
		}
	}
	t.Logf("almost found: %v", almost)
	for _, r := range shipped(t).Rules {
		if len(almost[r.ID]) == 0 && !raceEnabled {
			t.Errorf("%s almost holds for nobody", r.ID)
		}
	}
}

// beside are rules that hold by themselves where another problem is: nodes without work are cores without work.
var beside = map[string][]string{
	"serial":  {"low-use"},
	"stalled": {"low-cpu"},
}

// TestProblemsAreFound: each rule finds its small job and its large one within ten minutes. The time begins once its
// guards hold, and there is something to find. It finds nothing else.
func TestProblemsAreFound(t *testing.T) {
	t.Parallel()
	if raceEnabled || testing.Short() {
		t.Skip("make test-full runs it")
	}
	m := made(Problems, 1, january, 30, 3*time.Minute)
	m.sketch = 0
	f := finderOf(t, m, shipped(t))
	problems, jobsOf := map[string]Problem{}, map[string]int{}
	var spans [][2]time.Time
	for _, p := range m.planted() {
		jobsOf[p.Rule]++
		problems[p.JobID] = p
		j := f.jobs[schemas.JobKey{JobID: p.JobID}]
		spans = addSpan(spans, time.UnixMilli(*j.Start), time.UnixMilli(*j.End+m.intervalMs))
	}
	opened, wrong := map[string]int64{}, map[string]bool{}
	watch(t, m, spans, func(_ *finder, x *schemas.Finding) {
		p, planted := problems[x.JobID]
		switch _, before := opened[x.JobID]; {
		case !planted: // this test does not fold all of its life
		case x.Rule == p.Rule && !before:
			opened[x.JobID] = x.AsOf
		case x.Rule != p.Rule && !slices.Contains(beside[p.Rule], x.Rule) && !wrong[x.JobID+x.Rule]:
			wrong[x.JobID+x.Rule] = true
			t.Errorf("job %s with %s: %s holds too, in %d of %d: %v",
				x.JobID, p.Rule, x.Rule, x.Matched, x.Evaluated, x.Evidence)
		}
	}, f)
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

// addSpan adds the whole hours around a time to spans in order of their starts.
func addSpan(spans [][2]time.Time, from, to time.Time) [][2]time.Time {
	from, to = from.UTC().Truncate(time.Hour), to.UTC().Truncate(time.Hour).Add(time.Hour)
	last := len(spans) - 1
	if last < 0 || from.After(spans[last][1]) {
		return append(spans, [2]time.Time{from, to})
	}
	if to.After(spans[last][1]) {
		spans[last][1] = to
	}
	return spans
}

// guardMs is the start of the interval with which the shipped guards first hold: 30 intervals were evaluated, and a
// later one has come. The first begins a minute after the job.
func (m *machine) guardMs(j *job) int64 {
	first := (*j.Start + 60_000 + m.intervalMs - 1) / m.intervalMs * m.intervalMs
	return max(first+30*m.intervalMs, *j.Start+600_000)
}
