package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/analysis/view"
	"github.com/weirhpc/weir/schemas"
)

// fact is a line of the heading.
type fact struct{ Name, Text string }

// use is a bar: how much of what the job had it used.
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
	out := []fact{{"User", j.User}, {"Account", j.Account}, {"Queue", j.Queue}, {"State", stateOf(j)}}
	var parts []string
	if len(j.Nodes) > 0 {
		parts = append(parts, count(int64(len(j.Nodes)), "node"))
	}
	if j.Cores != nil {
		parts = append(parts, count(*j.Cores, "core"))
	}
	if j.Gpus != nil && *j.Gpus > 0 {
		parts = append(parts, count(int64(*j.Gpus), "GPU"))
	}
	out = append(out, fact{"Size", strings.Join(parts, ", ")}, fact{"Nodes", list(j.Nodes, 4)},
		fact{"Measured", fmt.Sprintf("%s to %s UTC, %s of %s", moment(j.FirstMs), moment(j.UntilMs),
			count(j.Intervals, "interval"), length(j.IntervalMs))},
		fact{"Seen", seen(j)}, fact{"Deciles", exact(j)}, fact{"Source", j.From})
	kept := out[:0]
	for _, f := range out {
		if f.Text != "" {
			kept = append(kept, f)
		}
	}
	return kept
}

// coresOnNodes has the cores and nodes of a job, as far as they are known.
func coresOnNodes(j *view.Job) string {
	var parts []string
	if j.Cores != nil {
		parts = append(parts, count(*j.Cores, "core"))
	}
	if len(j.Nodes) > 0 { // several jobs together have no list
		parts = append(parts, count(int64(len(j.Nodes)), "node"))
	}
	return strings.Join(parts, " on ")
}

func stateOf(j *view.Job) string {
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
		text += fmt.Sprintf("; %s silent from %s to %s", who, moment(g.FromMs), moment(g.UntilMs)[11:])
	}
	return text
}

func exact(j *view.Job) string {
	if j.ExactShare >= 1 {
		return "exact in all intervals"
	}
	return fmt.Sprintf("exact in %s of intervals, elsewhere with a rank error of at most %s",
		percent(j.ExactShare), percent(j.WorstRankError))
}

// metric returns the metric of that name, or nil if it has no total.
func metric(j *view.Job, name string) *view.Metric {
	if m := j.Find(name); m != nil && m.Total.Known && m.Total.Count > 0 {
		return m
	}
	return nil
}

// busy is the share of cores that had work; NaN where cpu_idle was not measured.
func busy(j *view.Job) float64 {
	if m := metric(j, "cpu_idle"); m != nil {
		return view.Busy(m.Total.Mean, j.Type)
	}
	return math.NaN()
}

// uses are the bars, as far as it is known what the nodes have. A word repeats what a rule found.
func uses(j *view.Job) (all []use) {
	put := func(name string, share float64, peak string, words ...judged) {
		if math.IsNaN(share) || math.IsInf(share, 0) {
			return
		}
		u := use{Name: name, Text: percent(share), Percent: 100 * min(max(share, 0), 1)}
		u.Word, u.Class = word(j, words)
		if peak != "" && u.Class == "" {
			u.Word = peak
		}
		all = append(all, u)
	}
	peak := func(name string, most float64) float64 {
		if m := metric(j, name); m != nil && most > 0 {
			return m.Total.Mean * j.PerNode(m) / most
		}
		return math.NaN()
	}
	put("busy cores", busy(j), "", judged{"idle-cores", "low"}, judged{"unused-node", "low"}, judged{"serial", "low"},
		judged{"low-cpu", "low"}, judged{"stalled", "low"})
	if m := metric(j, "acc_utilization"); m != nil {
		put("GPUs", m.Total.Mean, "", judged{"unused-gpu", "low"})
	}
	put("FLOPs", peak("flops_any", j.Type.PeakFlops), "of peak", judged{"low-use", "low"})
	put("memory bandwidth", peak("mem_bw", j.Type.PeakMemBW), "", judged{"memory-bound", "bound"},
		judged{"low-use", "low"})
	if m := metric(j, "mem_used"); m != nil && j.Type.Memory > 0 {
		put("memory", m.Total.D[10]/float64(j.Type.Memory), "", judged{"memory-full", "full"},
			judged{"memory-over", "low"})
	}
	return all
}

// judged is the word for a rule's finding.
type judged struct{ rule, word string }

// word is that of the first rule that holds, with its class. It is ok if none holds and one was evaluated.
func word(j *view.Job, words []judged) (text, class string) {
	for _, w := range words {
		for i := range j.Findings {
			if f := &j.Findings[i]; f.Rule == w.rule && f.State == schemas.FindingOpen {
				return w.word, strings.ToLower(f.Class)
			}
		}
	}
	if len(j.Map)+len(j.Findings)+len(j.NotEvaluated) == 0 {
		return "", "" // there are no rules
	}
	for _, w := range words {
		if !slices.ContainsFunc(j.NotEvaluated, func(r rules.Reason) bool { return r.Rule == w.rule }) {
			return "ok", ""
		}
	}
	return "", ""
}

func notes(j *view.Job) []note {
	out := make([]note, 0, len(j.Findings))
	for i := range j.Findings {
		f := &j.Findings[i]
		n := note{Class: f.Class, Title: f.Title, Rule: f.Rule, Hint: f.Hint, Slurm: f.Slurm}
		n.How = fmt.Sprintf("In %s of %s; mean severity %s, at worst %s",
			percent(float64(f.Matched)/float64(max(f.Evaluated, 1))), count(f.Evaluated, "interval"),
			two(f.Severity), two(f.Worst))
		if f.Node != nil {
			n.How += fmt.Sprintf("; %s in %s of them", *f.Node, thousands(f.NodeIntervals))
		}
		if f.Certainty == schemas.Possible {
			n.How += "; possible, since bounds do not prove it"
		}
		n.Evidence = evidence(j, f)
		out = append(out, n)
	}
	return out
}

// evidence has the numbers that the rule looked at, in the units of their metrics.
func evidence(j *view.Job, f *schemas.Finding) string {
	var texts []string
	for _, e := range f.Evidence {
		name, field, _ := strings.Cut(e.Name, ".")
		m := j.Find(name)
		if m == nil || field == "count" || field == "per_node" {
			m = &view.Metric{}
		}
		text := e.Name + " " + value(m, e.Mean)
		if e.Low != e.High {
			text += " (" + value(m, e.Low) + " to " + value(m, e.High) + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
