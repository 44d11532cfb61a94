package view

import (
	"regexp"
	"strings"

	"github.com/weirhpc/weir/schemas"
)

var (
	evidenceField   = regexp.MustCompile(`^([a-z]\w*)\.(\w+)$`)
	evidenceQuarter = regexp.MustCompile(`^quarter\(([a-z]\w*), ([1-4])\)\.(\w+)$`)
	evidenceSpread  = regexp.MustCompile(`^spread(_most)?\(([a-z]\w*), ([1-4])\)$`)
	quarters        = [5]string{"", "first", "second", "third", "last"}
)

// Evidence writes a number of a finding in words: a rule calls it quarter(cpu_user, 1).lo5, and its reader the median
// of CPU user time in the first quarter. value writes a number of a metric with its unit. An expression without words
// is written as it is.
func Evidence(j *Job, e *schemas.FindingEvidence, value func(m *Metric, v float64) string) string {
	label, metric, bound := evidenceWords(e.Name)
	m := j.Find(metric)
	if m == nil {
		m = &Metric{Name: metric}
	}
	if strings.HasSuffix(e.Name, ".per_node") || strings.HasSuffix(e.Name, ".count") {
		m = &Metric{} // a number of values has no unit
	}
	text := label + ": " + bound + value(m, e.Mean)
	if e.Low != e.High {
		text += " (" + value(m, e.Low) + " to " + value(m, e.High) + ")"
	}
	return text
}

// evidenceWords returns the words for a number, its metric, and "at least " or "at most " if it is a bound.
func evidenceWords(name string) (label, metric, bound string) {
	if p := evidenceField.FindStringSubmatch(name); p != nil {
		label, bound = fieldWords(p[1], p[2])
		return label, p[1], bound
	}
	if p := evidenceQuarter.FindStringSubmatch(name); p != nil {
		label, bound = fieldWords(p[1], p[3])
		return label + " in the " + quarters[p[2][0]-'0'] + " quarter", p[1], bound
	}
	if p := evidenceSpread.FindStringSubmatch(name); p != nil {
		label = "difference between deciles 9 and 1 of " + p[2] + " in the " + quarters[p[3][0]-'0'] + " quarter"
		if p[1] != "" {
			return label, p[2], "at most "
		}
		return label, p[2], "at least "
	}
	return name, "", ""
}

func fieldWords(metric, field string) (label, bound string) {
	decile := field
	switch {
	case strings.HasPrefix(field, "lo") && len(field) <= 4: // not low_node_mean
		decile, bound = "d"+field[2:], "at least "
	case strings.HasPrefix(field, "hi") && len(field) <= 4:
		decile, bound = "d"+field[2:], "at most "
	}
	switch decile {
	case "mean":
		return "mean of " + metric, ""
	case "count":
		return "values of " + metric, ""
	case "per_node":
		return "values of " + metric + " on a node", ""
	case "low_node_mean":
		return metric + " on the node with the lowest mean", ""
	case "high_node_mean":
		return metric + " on the node with the highest mean", ""
	case "d0":
		return "smallest " + metric, bound
	case "d5":
		return "median of " + metric, bound
	case "d10":
		return "largest " + metric, bound
	case "d1", "d2", "d3", "d4", "d6", "d7", "d8", "d9":
		return "decile " + decile[1:] + " of " + metric, bound
	}
	return metric + "." + field, ""
}
