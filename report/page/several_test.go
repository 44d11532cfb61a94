package page

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhpc/weir/report/view"
)

// several are three tasks of an array, which ran on three days. The last is half as long as the others.
func several(t testing.TB) *view.Job {
	t.Helper()
	var jobs []*view.Job
	for i := range 3 {
		j := madeUp(240)
		j.JobID = fmt.Sprint(184300 + i)
		later := int64(i) * 30 * dayMs
		start := *j.Start + later
		j.FirstMs, j.UntilMs, j.Start = j.FirstMs+later, j.UntilMs+later, &start
		for k := range j.Metrics {
			m := &j.Metrics[k]
			if i == 2 {
				m.Bins = m.Bins[:120]
			}
			for b := range m.Bins {
				m.Bins[b].StartMs += later
				m.Bins[b].EndMs += later
			}
		}
		for k := range j.Findings {
			j.Findings[k].JobID = j.JobID
		}
		if i == 2 {
			j.UntilMs -= dayMs / 2
			j.Findings[0].Severity = 0.6
			j.Findings = j.Findings[:1]
		}
		jobs = append(jobs, j)
	}
	all, err := view.Merge(jobs)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPageOfSeveralJobsRunsFromTheirStart: their figures have no time of day, and are filled up to their end.
func TestPageOfSeveralJobsRunsFromTheirStart(t *testing.T) {
	j := several(t)
	text := string(render(t, j, options))
	for _, want := range []string{
		"A column is 6\u00a0min, and its colour is the worst severity in it. Time runs from the start of each job.",
		">0 h<", ">12 h<", ">24 h<", "<td>0:00:00<td>", "<td>23:00:00<td>",
		"8 of 10 values of each job lie in",
		"from the least median of a job to the greatest", "The numbers at the right are of all jobs together.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	_, figures, _ := strings.Cut(text, "Properties over time")
	figures, _, _ = strings.Cut(figures, "<footer>")
	if at := regexp.MustCompile(`Times are UTC|(19|20)[0-9][0-9]-[01][0-9]-`).FindStringIndex(figures); at != nil {
		t.Errorf("a figure has a date: …%s…", figures[max(0, at[0]-100):at[1]+20])
	}
	if c := columnsOf(j.Metrics[0].Bins, timeOf(j, 0, 100)); c.xs[0] != 0 || c.xs[len(c.xs)-1] != 100 {
		t.Errorf("the columns are from %v to %v of 100", c.xs[0], c.xs[len(c.xs)-1])
	}
}

// TestPageOfSeveralJobsNamesThem: a number or a word is that of all jobs, or says of which it is.
func TestPageOfSeveralJobsNamesThem(t *testing.T) {
	text := string(render(t, several(t), options))
	for _, want := range []string{
		"<title>3 jobs together relax_n256</title>", "<dt>Jobs<dd>184300, 184301, 184302<",
		"64 nodes, 12,288 cores in sum",
		"busy in 81\u00a0% of the time that was measured. 3 of 3 jobs have findings. " +
			"The worst: Memory bandwidth is the limit, in job 184302.",
		"In 3 of 3 jobs: 184300, 184301, 184302. The worst is 184302, and its numbers are these. In 99.8",
		"In 2 of 3 jobs: 184300, 184301. The worst is 184300", "<em>low in 2 of 3</em>", "<em>bound in 3 of 3</em>",
		"2 rules were not evaluated for some or all of the jobs", "in 3 of 3 jobs: job.gpus is 0",
		"Several jobs together have no rank.", "those of one job say nothing of another",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if n := strings.Count(text, "#SBATCH --exclude"); n != 1 {
		t.Errorf("the page has the same line for a script %d times", n)
	}
}

// TestPageOfAYear has columns that are longer than the hours of a compacted archive, and says how long.
func TestPageOfAYear(t *testing.T) {
	text := string(render(t, year(), options))
	for _, want := range []string{
		"A column is 36.5 hours",
		"an hour has the deciles of all its values, and a column the least and the greatest of",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestPageOfAPart has the time that was asked for alone.
func TestPageOfAPart(t *testing.T) {
	j := madeUp(240)
	for i := range j.Metrics {
		j.Metrics[i].Bins = j.Metrics[i].Bins[120:180]
	}
	for i := range j.Map {
		j.Map[i].Worst = j.Map[i].Worst[120:180]
	}
	text, want := string(render(t, j, options)), "Only 2026-09-21 12:00 to 2026-09-21 18:00 is shown."
	if strings.Count(text, want) != 2 || strings.Contains(text, ">06:00<") {
		t.Errorf("the page does not say twice %q, or its axes show more", want)
	}
}
