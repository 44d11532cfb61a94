package page

import (
	"fmt"
	"math"
	"strings"

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
	size := count(int64(len(j.Nodes)), "node")
	if j.Cores != nil {
		size += ", " + count(*j.Cores, "core")
	}
	if j.Gpus != nil && *j.Gpus > 0 {
		size += ", " + count(int64(*j.Gpus), "GPU")
	}
	out = append(out, fact{"Size", size}, fact{"Nodes", list(j.Nodes, 4)},
		fact{"Measured", fmt.Sprintf("%s to %s UTC, %s of %s", moment(j.FirstMs), moment(j.UntilMs),
			count(j.Intervals, "interval"), length(j.IntervalMs))},
		fact{"Seen", seen(j)}, fact{"Deciles", exact(j)}, fact{"Read from", j.From})
	kept := out[:0]
	for _, f := range out {
		if f.Text != "" {
			kept = append(kept, f)
		}
	}
	return kept
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
	for i := range j.Metrics {
		if m := &j.Metrics[i]; m.Name == name && m.Total.Known && m.Total.Count > 0 {
			return m
		}
	}
	return nil
}

// busy is the share of the cores' time that was not idle. Threads beside a busy one are no waste.
func busy(j *view.Job) float64 {
	m := metric(j, "cpu_idle")
	if m == nil {
		return math.NaN()
	}
	used := 1 - m.Total.Mean
	if t := j.Type.ThreadsPerCore; t > 1 {
		used *= float64(t)
	}
	return min(1, used)
}

// perNode is how many values a node has: cores, or sockets.
func perNode(m *view.Metric) float64 {
	var values, nodes float64
	for i := range m.Bins {
		if b := &m.Bins[i]; b.Measured > 0 {
			values, nodes = values+float64(b.Count), nodes+float64(b.Reported)
		}
	}
	return values / nodes
}

func uses(j *view.Job) []use {
	var out []use
	put := func(name string, share float64, rules ...string) {
		if math.IsNaN(share) || math.IsInf(share, 0) {
			return
		}
		u := use{Name: name, Text: percent(share), Percent: 100 * min(max(share, 0), 1), Word: "ok"}
		if len(rules) == 0 {
			u.Word = "of peak"
		}
		for i := range j.Findings {
			for _, r := range rules {
				if id, word, _ := strings.Cut(r, "="); j.Findings[i].Rule == id && u.Class == "" {
					u.Word, u.Class = word, strings.ToLower(j.Findings[i].Class)
				}
			}
		}
		out = append(out, u)
	}
	put("busy cores", busy(j), "idle-cores=low", "unused-node=low", "serial=low", "low-cpu=low", "stalled=low")
	if m := metric(j, "flops_any"); m != nil && j.Type.PeakFlops > 0 {
		put("FLOPs", m.Total.Mean*perNode(m)/j.Type.PeakFlops, ruled(j, "low-use=low")...)
	}
	if m := metric(j, "mem_bw"); m != nil && j.Type.PeakMemBW > 0 {
		put("memory bandwidth", m.Total.Mean*perNode(m)/j.Type.PeakMemBW, ruled(j, "memory-bound=bound")...)
	}
	if m := metric(j, "mem_used"); m != nil && j.Type.Memory > 0 {
		put("memory", m.Total.D[10]/float64(j.Type.Memory), "memory-full=full", "memory-over=low")
	}
	return out
}

// ruled keeps a rule only where the job has its finding. Where no rule judges, the bar is of the peak.
func ruled(j *view.Job, rule string) []string {
	for i := range j.Findings {
		if id, _, _ := strings.Cut(rule, "="); j.Findings[i].Rule == id {
			return []string{rule}
		}
	}
	return nil
}

func notes(j *view.Job) []note {
	out := make([]note, 0, len(j.Findings))
	for i := range j.Findings {
		f := &j.Findings[i]
		n := note{Class: f.Class, Title: f.Title, Rule: f.Rule, Hint: f.Hint, Slurm: f.Slurm}
		n.How = fmt.Sprintf("In %s of %s; mean severity %s, at worst %s",
			percent(float64(f.Matched)/float64(max(f.Evaluated, 1))), count(f.Evaluated, "interval"), two(f.Severity), two(f.Worst))
		if f.Node != nil {
			n.How += fmt.Sprintf("; %s in %s of them", *f.Node, thousands(f.NodeIntervals))
		}
		if f.Certainty == schemas.Possible {
			n.How += "; possible, since bounds do not prove it"
		}
		n.Evidence = evidence(f)
		out = append(out, n)
	}
	return out
}

func evidence(f *schemas.Finding) string {
	var texts []string
	for _, e := range f.Evidence {
		name, _, _ := strings.Cut(e.Name, ".")
		unit := "" // of a rule's number; the metric's name tells whether it is a share
		if isShare(name) && strings.HasPrefix(name, "cpu_") {
			unit = "1"
		}
		text := e.Name + " " + unitText(name, unit, e.Mean)
		if e.Low != e.High {
			text += " (" + unitText(name, unit, e.Low) + " to " + unitText(name, unit, e.High) + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
