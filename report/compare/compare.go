// Package compare puts two jobs side by side: their requests, their hours, the metrics that differ, and findings that
// appeared or went away. It reads nothing. The command weir compare hands in the jobs.
package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

// Comparison is two jobs side by side. The first job of each pair is the earlier argument.
type Comparison struct {
	Jobs    [2]*view.Job
	Asked   []Fact   // what the users asked for
	Used    []Fact   // time, hours and energy
	Reasons []string // why the metrics are not comparable; empty: they are
	Caveats []string // what limits the comparison
	Metrics []Metric // of both jobs, the largest effect first
	Only    [2][]string
	Found   []Found // by kind: appeared, gone, unknown, stays
}

// Fact is a line with a value for each job.
type Fact struct {
	Name, Unit string // one of the units below; a share is 0 to 1
	Text       [2]string
	Value      [2]*float64 // nil: not known
}

// Differs reports whether the values of both jobs are known and differ.
func (f *Fact) Differs() bool {
	if f.Unit == "" {
		return f.Text[0] != f.Text[1]
	}
	return f.Value[0] != nil && f.Value[1] != nil && *f.Value[0] != *f.Value[1]
}

const (
	// LeastIntervals is the number of measured intervals below which a job is too short, as for rules.
	LeastIntervals = 30
	// seenShare is the share of intervals of nodes below which a comparison notes that values are missing.
	seenShare = 0.99
)

// Jobs compares two jobs. The rules tell which findings silence others; nil: none do.
func Jobs(a, b *view.Job, set *rules.Set) *Comparison {
	c := &Comparison{Jobs: [2]*view.Job{a, b}}
	c.Asked, c.Used = asked(c.Jobs), used(c.Jobs)
	c.metrics()
	c.Reasons = c.reasons()
	c.caveats()
	c.findings(set)
	return c
}

// Comparable reports whether the metrics of both jobs can be compared.
func (c *Comparison) Comparable() bool { return len(c.Reasons) == 0 }

// Names are the names of both jobs, which differ.
func (c *Comparison) Names() (names [2]string) {
	for i, j := range c.Jobs {
		names[i] = j.JobID
	}
	if names[0] != names[1] {
		return names
	}
	for i, j := range c.Jobs {
		if j.Start != nil && *j.Start > 0 {
			names[i] += "@" + view.Time(*j.Start).Format("2006-01-02")
		}
	}
	if names[0] == names[1] {
		return [2]string{"first", "second"}
	}
	return names
}

// reasons returns why the metrics of both jobs cannot be compared.
func (c *Comparison) reasons() (why []string) {
	a, b := c.Jobs[0], c.Jobs[1]
	names := c.Names()
	if a.Cluster != b.Cluster && a.Cluster != "" && b.Cluster != "" {
		why = append(why, fmt.Sprintf("they ran on different clusters: %s and %s", a.Cluster, b.Cluster))
	}
	if a.Type.Name != b.Type.Name && a.Type.Name != "" && b.Type.Name != "" {
		why = append(why, fmt.Sprintf("they ran on different node types: %s and %s", a.Type.Name, b.Type.Name))
	}
	for i, j := range c.Jobs {
		switch {
		case j.Running:
			why = append(why, fmt.Sprintf("%s has not ended: its values are of a part of its life", names[i]))
		case j.Part:
			why = append(why, names[i]+" was not read in full: "+j.From)
		case j.Intervals < LeastIntervals:
			why = append(why, fmt.Sprintf("%s is too short: %s, and %d are needed", names[i],
				plural(j.Intervals, "measured interval"), LeastIntervals))
		}
	}
	if len(c.Metrics) == 0 {
		why = append(why, "they have no metric in common")
	}
	return why
}

// caveats notes what limits a comparison that is possible.
func (c *Comparison) caveats() {
	names := c.Names()
	for i, j := range c.Jobs {
		if j.Expected > 0 && float64(j.Reported) < seenShare*float64(j.Expected) {
			c.Caveats = append(c.Caveats, fmt.Sprintf("%s was seen in %s of its node intervals: "+
				"the bounds hold for the values that were measured", names[i],
				view.Floor(float64(j.Reported)/float64(j.Expected))))
		}
		if j.Type.Name == "" && c.Jobs[1-i].Type.Name != "" {
			c.Caveats = append(c.Caveats, "the node type of "+names[i]+" is not known")
		}
	}
	var lengths []string
	for i := range c.Metrics {
		if m := &c.Metrics[i]; m.OtherLength {
			lengths = append(lengths, m.Name)
		}
	}
	if len(lengths) > 0 {
		c.Caveats = append(c.Caveats, "the intervals of both jobs have different lengths, so the deciles of "+
			few(lengths)+" are not comparable; their means are")
	}
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%s %ss", view.Count(n), noun)
}

// few names some things of many.
func few(names []string) string {
	const most = 3
	if len(names) > most+1 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more metrics", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Changes returns the metrics that differ for certain by at least LeastEffect, the largest effect first.
func (c *Comparison) Changes() []Metric {
	at := slices.IndexFunc(c.Metrics, func(m Metric) bool { return math.Abs(m.Effect) < LeastEffect })
	if at < 0 {
		return c.Metrics
	}
	return c.Metrics[:at]
}

// Slight returns the metrics that differ for certain by less, and Alike those without a certain difference.
func (c *Comparison) Slight() []Metric {
	rest := c.Metrics[len(c.Changes()):]
	at := slices.IndexFunc(rest, func(m Metric) bool { return m.Effect == 0 })
	if at < 0 {
		return rest
	}
	return rest[:at]
}

// Alike returns the metrics without a certain difference.
func (c *Comparison) Alike() []Metric {
	return c.Metrics[len(c.Changes())+len(c.Slight()):]
}

// Anyway makes the reasons against a comparison caveats.
func (c *Comparison) Anyway() {
	if len(c.Metrics) > 0 {
		c.Caveats = append(c.Reasons, c.Caveats...)
		c.Reasons = nil
	}
}
