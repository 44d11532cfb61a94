package term

import (
	"math"
	"strings"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
)

// spread returns the difference between the cores that work most and least, as a share of their time.
func spread(m *view.Metric) float64 { return m.Total.D[9] - m.Total.D[1] }

// metric returns a metric with values, or nil.
func metric(j *view.Job, name string) *view.Metric {
	if m := j.Find(name); m != nil && m.Total.Count > 0 {
		return m
	}
	return nil
}

// finding returns the open finding of a rule, or nil.
func finding(j *view.Job, rule string) *schemas.Finding {
	for i := range j.Findings {
		if f := &j.Findings[i]; f.Rule == rule && f.State == schemas.FindingOpen {
			return f
		}
	}
	return nil
}

// uses draws a bar for each resource of the job.
func (t *text) uses(j *view.Job) {
	all := j.Uses()
	if len(all) == 0 {
		return
	}
	t.line()
	words := 7
	for _, u := range all {
		words = max(words, width(u.Word))
	}
	drawn := min(t.cells()-23-words, 80)
	var unknown []string
	for _, u := range all {
		if u.Name == "memory bandwidth" {
			u.Name = "memory bw"
		}
		name := left(u.Name, 11)
		switch {
		case math.IsNaN(u.Share) && isPseudo(j):
		case math.IsNaN(u.Share):
			unknown = append(unknown, u.Name)
		case t.cells() < narrow:
			t.line(name, right(percent(u.Share), 6), "  ", t.paint(colorOf(u.Class), u.Word))
		default:
			t.line(name, "[", bar(u.Share, drawn), "] ", right(percent(u.Share), 6), "  ",
				t.paint(colorOf(u.Class), u.Word))
		}
	}
	if len(unknown) == 0 {
		return
	}
	why := "What these nodes can do is not configured (machine in weir.yaml): "
	if j.Several() {
		why = "What the nodes can do is not configured (machine in weir.yaml), or differs: "
	}
	t.hanging("", 0, 2, why+strings.Join(unknown, ", ")+".")
}

// isPseudo reports whether a job stands for the whole machine, or for the part outside of jobs.
func isPseudo(j *view.Job) bool { return j.JobID == schemas.JobSystem || j.JobID == schemas.JobRest }
