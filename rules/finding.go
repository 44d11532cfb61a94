package rules

import (
	"math"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/schemas"
)

// finding makes the record of a rule's finding.
func (w *Watch) finding(i int, as written, final bool) schemas.Finding {
	r, st := &w.set.Rules[i], &w.states[i]
	t := &st.tallies[variantOf(as.certainty)]
	f := schemas.Finding{
		Cluster: w.job.Cluster, JobID: w.job.Key.JobID, Restart: w.job.Key.Restart, Rule: r.ID, RuleHash: r.Hash,
		Title: schemas.CleanText(r.Title, schemas.MaxFindingText), State: as.state, Final: final,
		Certainty: as.certainty, Class: as.class, Worst: float64(t.worst) / grains,
		FirstInterval: t.firstMs, LastInterval: t.lastMs, AsOf: t.asOfMs, IntervalMs: w.lengthMs,
		Intervals: w.came, Evaluated: t.evaluated, Matched: t.matched,
	}
	f.Severity = min(f.Worst, float64(t.sum)/grains/float64(max(1, t.evaluated)))
	if top := t.top(); r.By != "" && top.n > 0 {
		f.Node, f.NodeIntervals = &top.name, top.n
	}
	for k := range t.evidence {
		if p := &t.evidence[k]; p.n > 0 {
			f.Evidence = append(f.Evidence, schemas.FindingEvidence{
				Name: schemas.CleanText(r.evidence[k].name, schemas.MaxFindingText),
				Low:  p.low, Mean: p.mean(), High: p.high,
			})
		}
	}
	data := w.data(r, t, f.Evidence, final)
	f.Hint, f.Slurm = f.Title, "" // if a text needs an unknown fact
	if text, err := filled(r.hint, data); err == nil {
		f.Hint = text
	}
	if text, err := filled(r.slurm, data); err == nil {
		f.Slurm = text
	}
	return f
}

// mean returns the mean, rounded so that it does not depend on the order of the intervals.
func (p *proof) mean() float64 { return min(p.high, max(p.low, rounded(p.sum.value()/float64(p.n)))) }

// rounded keeps nine digits.
func rounded(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 8, 64), 64)
	if err != nil || math.IsInf(r, 0) {
		return v
	}
	return r
}

// data returns the data for hints. Unknown facts about the job have no key, so that a text that uses them fails instead
// of showing 0.
func (w *Watch) data(r *Rule, t *tally, evidence []schemas.FindingEvidence, final bool) map[string]any {
	f := w.frame()
	defer w.set.frames.Put(f)
	w.facts(f, w.nowMs(final))
	matches := max(1, t.matched)
	if r.Job {
		matches = 1 // only the last match counts
	}
	value := rounded(t.value.value() / float64(matches))
	return hintData(f, value, t.hosts(r.Same), evidence)
}

// hintData names the data of a frame in the same way as expressions do.
func hintData(f *frame, value float64, hosts []string, evidence []schemas.FindingEvidence) map[string]any {
	job, node, shown := map[string]any{}, map[string]any{}, map[string]any{}
	for i, name := range jobNames {
		switch {
		case i >= jobNumbers:
			job[name] = f.words[i-jobNumbers]
		case math.IsNaN(f.job[i]):
		case name == "nodes" || name == "cores" || name == "gpus":
			job[name] = int(f.job[i])
		default:
			job[name] = f.job[i]
		}
	}
	for i, name := range nodeNames {
		if v := f.node[i]; !math.IsNaN(v) {
			node[name] = v
		}
	}
	for i := range evidence {
		e := &evidence[i]
		shown[evidenceKey(e.Name)] = map[string]any{"low": e.Low, "mean": e.Mean, "high": e.High}
	}
	data := map[string]any{"job": job, "node": node, "value": value, "evidence": shown, "hosts": hosts}
	advise(data, f, value, hosts, evidence)
	return data
}

// evidenceKey returns the name of a number in hints: cpu_idle.d9 is .evidence.cpu_idle_d9.
func evidenceKey(name string) string {
	return strings.Map(func(c rune) rune {
		if c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			return c
		}
		return '_'
	}, name)
}

// sample is data with all keys, to try the words of a rule.
func (r *Rule) sample() map[string]any {
	f := &frame{words: [5]string{"4711", "alice", "phys", "normal", schemas.StateRunning}}
	for i := range f.job {
		f.job[i] = 2
	}
	f.job[atSMTIdle] = 0
	for i := range f.node {
		f.node[i] = 2
	}
	var evidence []schemas.FindingEvidence
	for i := range r.evidence {
		evidence = append(evidence, schemas.FindingEvidence{Name: r.evidence[i].name, Low: 0.5, Mean: 0.5, High: 0.5})
	}
	return hintData(f, 0.25, []string{"n1", "n2"}, evidence)
}
