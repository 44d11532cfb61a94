package integration

import (
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirhpc/weir/schemas"
)

// chaosRules are rules over simulated metrics. Each matches half of the jobs, or each job now and then. Guards are
// small, since simulated jobs are short.
const chaosRules = `
guards: {after: 0s, last: false, duration: 1s, intervals: 2, seen: 0, complete: 0}
metrics:
  - {name: sim_node, unit: "1", scope: core}
  - {name: sim_signed, unit: "1", scope: core}
rules:
  - id: sim-high
    title: High nodes
    needs: [sim_node]
    each: sim_node.mean > 50
    severity: {of: sim_node.mean, from: 0, to: 100}
    hint: "{{pct .value}} of the highest"
  - id: sim-positive
    title: More than nothing
    needs: [sim_signed]
    each: sim_signed.mean > 0
    share: 0
    severity: {of: sim_signed.mean, from: 0, to: 1}
    hint: now and then
`

// chaosHolds are the conditions of chaosRules, as this judge reads them. A job without values is not evaluated.
var chaosHolds = map[string]struct {
	metric string
	holds  func(mean float64) bool
	share  float64
}{
	"sim-high":     {"sim_node", func(mean float64) bool { return mean > 50 }, 0.5},
	"sim-positive": {"sim_signed", func(mean float64) bool { return mean > 0 }, 0},
}

// findRules writes the rules into a file, and returns its name.
func (s *system) findRules() string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(chaosRules), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// lifeOf counts the matches of a job's summaries, in the order of their partition: entry n is the number after n
// summaries.
type lifeOf struct {
	evaluated, matched map[string][]int64
	seen               map[int64]bool
}

func (l *lifeOf) add(sum *schemas.JobSummary) {
	l.seen[sum.IntervalStart] = true
	for rule, r := range chaosHolds {
		evaluated, matched := l.evaluated[rule], l.matched[rule]
		if len(evaluated) == 0 {
			evaluated, matched = []int64{0}, []int64{0}
		}
		evaluated, matched = append(evaluated, evaluated[len(evaluated)-1]), append(matched, matched[len(matched)-1])
		for i := range sum.Metrics {
			if m := &sum.Metrics[i]; m.Name == r.metric && m.Mean != nil {
				evaluated[len(evaluated)-1]++
				if r.holds(*m.Mean) {
					matched[len(matched)-1]++
				}
			}
		}
		l.evaluated[rule], l.matched[rule] = evaluated, matched
	}
}

// judgeFindings checks find against the committed summaries. Each record of a finding counts exactly the summaries of
// its job up to then. No record repeats another. A rule that matches every interval of a job has a finding, and the
// last record of a job that ended is final.
func (s *system) judgeFindings() {
	s.t.Helper()
	lives := map[schemas.JobKey]*lifeOf{}
	records := 0
	for _, r := range s.read(schemas.TopicJobSummary) {
		records++
		v, err := schemas.Unmarshal(r.Value)
		sum, is := v.(*schemas.JobSummary)
		if err != nil || !is {
			s.t.Errorf("%s-%d at %d: %T, %v", r.Topic, r.Partition, r.Offset, v, err)
			continue
		}
		key := schemas.JobKey{JobID: sum.JobID, Restart: sum.Restart}
		if lives[key] == nil {
			lives[key] = &lifeOf{map[string][]int64{}, map[string][]int64{}, map[int64]bool{}}
		}
		if lives[key].seen[sum.IntervalStart] {
			s.t.Errorf("job %s has two summaries of %d", key, sum.IntervalStart)
		}
		lives[key].add(sum)
	}
	found, finals := s.judgeHistories(lives)
	for key, l := range lives {
		for rule := range chaosHolds {
			n := l.evaluated[rule][len(l.evaluated[rule])-1]
			all := n == l.matched[rule][len(l.matched[rule])-1]
			if pseudo := strings.HasPrefix(key.JobID, "_"); all && n >= 10 && found[key.String()+"/"+rule] == pseudo {
				s.t.Errorf("%s of job %s with %d of %d intervals: found %v", rule, key, n, n, !pseudo)
			}
		}
	}
	s.judgeFindProgress(int64(records))
	if len(found) == 0 || finals == 0 {
		s.t.Errorf("%d findings, %d final: the run proves nothing about find", len(found), finals)
	}
	s.t.Logf("%d findings, %d of them final, of %d jobs", len(found), finals, len(lives))
}

// judgeHistories compares every record of a finding with the summaries that its job had by then.
func (s *system) judgeHistories(lives map[schemas.JobKey]*lifeOf) (found map[string]bool, finals int) {
	s.t.Helper()
	found = map[string]bool{}
	last := map[string]*schemas.Finding{}
	for _, r := range s.read(schemas.TopicFindings) {
		v, err := schemas.Unmarshal(r.Value)
		f, is := v.(*schemas.Finding)
		if err != nil || !is || string(f.Key()) != string(r.Key) {
			s.t.Errorf("findings at %d, key %s: %T, %v", r.Offset, r.Key, v, err)
			continue
		}
		l, rule := lives[f.Job()], chaosHolds[f.Rule]
		if l == nil || rule.holds == nil || f.Intervals >= int64(len(l.evaluated[f.Rule])) {
			s.t.Errorf("%+v is of no job or rule here", f)
			continue
		}
		n, m := l.evaluated[f.Rule][f.Intervals], l.matched[f.Rule][f.Intervals]
		if !f.Final && (n != f.Evaluated && n != f.Evaluated+1) || f.Final && n != f.Evaluated ||
			m < f.Matched || m-f.Matched > n-f.Evaluated {
			s.t.Errorf("after %d intervals %d of %d matched, the finding is %+v", f.Intervals, m, n, f)
		}
		share := float64(f.Matched) / float64(f.Evaluated)
		before := last[string(r.Key)]
		switch {
		case before == nil &&
			(f.State != schemas.FindingOpen || f.Evaluated < 2 || f.Matched == 0 || share < rule.share):
			s.t.Errorf("the first record of %s is %+v", r.Key, f)
		case before == nil:
		case before.Final, f.Intervals < before.Intervals, f.Intervals == before.Intervals && !f.Final:
			s.t.Errorf("%s: %+v follows %+v", r.Key, f, before)
		}
		if f.Severity > f.Worst || math.IsNaN(f.Severity) || f.Certainty != schemas.Certain {
			s.t.Errorf("%+v", f)
		}
		last[string(r.Key)] = f
		found[string(r.Key)] = true
		if f.Final {
			finals++
		}
	}
	return found, finals
}

// judgeFindProgress checks find's counts against the log: every summary has one fate.
func (s *system) judgeFindProgress(records int64) {
	s.t.Helper()
	before := map[int32]*schemas.Progress{}
	for _, r := range s.read(schemas.TopicFindProgress) {
		v, err := schemas.Unmarshal(r.Value)
		p, is := v.(*schemas.Progress)
		if err != nil || !is {
			s.t.Fatalf("%s-%d at %d: %T, %v", r.Topic, r.Partition, r.Offset, v, err)
		}
		if b := before[r.Partition]; b != nil && b.Position != p.From {
			s.t.Errorf("find: progress %+v follows %+v", p, b)
		}
		before[r.Partition] = p
	}
	var total schemas.ProgressCounts
	for _, p := range before {
		total.Summarized += p.Counts.Summarized
		total.Late += p.Counts.Late
		total.Duplicate += p.Counts.Duplicate
		total.Rejected += p.Counts.Rejected
		total.Lost += p.Counts.Lost
	}
	if total.Summarized+total.Late != records || total.Duplicate+total.Rejected+total.Lost != 0 {
		s.t.Errorf("find: %+v of %d summaries", total, records)
	}
	s.t.Logf("find: %d summaries folded, %d late", total.Summarized, total.Late)
}
