package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
)

// fact is a line of the heading.
type fact struct{ Name, Text string }

// use is a bar: the used share of a resource that the job had.
type use struct {
	Name, Text, Word string
	Percent          float64
	Class            string
}

// note is a finding.
type note struct {
	Class, Title, Rule, Hint, Slurm, How, Evidence string
}

func facts(j *view.Job) []fact {
	out := []fact{
		{"Jobs", list(j.Jobs, 8)}, {"User", j.User}, {"Account", j.Account}, {"Queue", j.Queue}, {"State", stateOf(j)},
	}
	var parts []string
	if len(j.Nodes) > 0 {
		parts = append(parts, count(int64(len(j.Nodes)), "node"))
	}
	if j.Cores != nil {
		parts = append(parts, count(*j.Cores, "core"))
	}
	if j.Several() && j.Cores != nil {
		parts[len(parts)-1] += " in sum"
	}
	if j.Gpus != nil && *j.Gpus > 0 {
		parts = append(parts, count(int64(*j.Gpus), "GPU"))
	}
	out = append(out, fact{"Size", strings.Join(parts, ", ")}, fact{"Nodes", list(j.Nodes, 4)},
		fact{"Measured", fmt.Sprintf("%s to %s UTC, %s of %s", moment(j.FirstMs), moment(j.UntilMs),
			count(j.Intervals, "interval"), length(j.IntervalMs))},
		fact{"Seen", seen(j)},
		fact{"Accuracy", strings.ReplaceAll(j.ExactWords(), " %", "\u00a0%")}, fact{"Source", j.From})
	kept := out[:0]
	for _, f := range out {
		if f.Text != "" {
			kept = append(kept, f)
		}
	}
	return kept
}

// coresOnNodes returns the numbers of cores and nodes of a job, if they are known.
func coresOnNodes(j *view.Job) string {
	var parts []string
	if j.Cores != nil {
		parts = append(parts, count(*j.Cores, "core"))
	}
	if len(j.Nodes) > 0 {
		parts = append(parts, count(int64(len(j.Nodes)), "node"))
	}
	return strings.Join(parts, " on ")
}

func stateOf(j *view.Job) string {
	if j.Several() {
		return ""
	}
	text := j.State
	if j.UntilMs > j.FirstMs {
		text += " " + span(elapsed(j))
	}
	if j.TimeLimitS != nil && *j.TimeLimitS > 0 {
		text += " of " + span(*j.TimeLimitS*1000)
	}
	return strings.TrimSpace(text)
}

func elapsed(j *view.Job) int64 {
	start, end := j.FirstMs, j.UntilMs
	if j.Start != nil && *j.Start > 0 {
		start = *j.Start
	}
	if j.End != nil && *j.End > start && !j.Running {
		end = *j.End
	}
	return end - start
}

func seen(j *view.Job) string {
	if j.Expected == 0 {
		return ""
	}
	text := percent(float64(j.Reported)/float64(j.Expected)) + " of node intervals"
	if len(j.Gaps) > 0 {
		g := &j.Gaps[0]
		who := "nodes"
		if len(g.Nodes) > 0 {
			who = list(g.Nodes, 2)
		}
		text += fmt.Sprintf("; %s silent from %s to %s", who, moment(g.FromMs), sameDay(g.UntilMs, g.FromMs))
	}
	return text
}

// uses returns the bars of the resources with a known size. A word repeats the finding of a rule.
func uses(j *view.Job) (all []use) {
	for _, u := range j.Uses() {
		if !math.IsNaN(u.Share) {
			all = append(all, use{
				Name: u.Name, Text: percent(u.Share), Word: u.Word, Percent: 100 * min(max(u.Share, 0), 1),
				Class: strings.ToLower(u.Class),
			})
		}
	}
	return all
}

// notes returns the findings. For several jobs, each rule gets one note: the finding of the job with the worst.
func notes(j *view.Job) []note {
	var out []note
	at, jobs := map[string]int{}, map[string][]string{}
	for i := range j.Findings {
		f := &j.Findings[i]
		if jobs[f.Rule] = append(jobs[f.Rule], f.JobID); j.Several() && len(jobs[f.Rule]) > 1 {
			continue
		}
		at[f.Rule] = len(out)
		out = append(out, noteOf(j, f))
	}
	if j.Several() {
		for rule, ids := range jobs {
			out[at[rule]].How = inJobs(ids, len(j.Jobs)) + out[at[rule]].How
		}
	}
	return out
}

// inJobs names the jobs for which a rule holds, the worst first.
func inJobs(ids []string, of int) string {
	worst := ids[0]
	slices.Sort(ids)
	ids = slices.Compact(ids)
	text := fmt.Sprintf("In %d of %s: %s. ", len(ids), count(int64(of), "job"), list(ids, 12))
	if len(ids) > 1 {
		text += "The worst is " + worst + ", and its numbers are these. "
	}
	return text
}

func noteOf(j *view.Job, f *schemas.Finding) note {
	n := note{Class: f.Class, Title: f.Title, Rule: f.Rule, Hint: f.Hint, Slurm: f.Slurm}
	n.How = fmt.Sprintf("In %s of %s; mean severity %s, at worst %s",
		percent(float64(f.Matched)/float64(max(f.Evaluated, 1))), count(f.Evaluated, "check"),
		two(f.Severity), two(f.Worst))
	if f.Node != nil {
		n.How += fmt.Sprintf("; %s in %s of them", *f.Node, thousands(f.NodeIntervals))
	}
	if f.Certainty == schemas.Possible {
		n.How += "; possible, since bounds do not prove it"
	}
	n.Evidence = evidence(j, f)
	return n
}

// evidence returns the numbers that made the rule hold, in the units of their metrics.
func evidence(j *view.Job, f *schemas.Finding) string {
	var texts []string
	for _, e := range f.Evidence {
		texts = append(texts, view.Evidence(j, &e, value))
	}
	return strings.Join(texts, "; ")
}
