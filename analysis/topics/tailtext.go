package topics

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// shownMetrics is the number of metrics of a summary that fit on a line.
const shownMetrics = 3

// readable returns the line of a record that people follow. Other records have none.
func readable(record any) (text string, ok bool) {
	switch r := record.(type) {
	case *schemas.JobSummary:
		return summaryText(r), true
	case *schemas.Finding:
		return findingText(r), true
	case *schemas.Job:
		return jobText(r), true
	}
	return "", false
}

// summaryText is such as: interval 12:00:10Z, 2 of 2 nodes, EXACT, 11 metrics: cpu_user 0.97 (0.02 to 1), ...
func summaryText(s *schemas.JobSummary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "interval %s, %d of %d nodes, %s",
		clock(s.IntervalStart), s.NodesReported, s.NodesExpected, s.Method)
	if s.PartsReported != s.Parts {
		fmt.Fprintf(&b, ", %d of %d parts", s.PartsReported, s.Parts)
	}
	fmt.Fprintf(&b, ", %d metrics", len(s.Metrics))
	for i, m := range s.Metrics {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		if i == shownMetrics {
			b.WriteString(", ...")
			break
		}
		fmt.Fprintf(&b, "%s%s", separator, m.Name)
		if m.Deciles != nil && len(*m.Deciles) == 11 {
			d := *m.Deciles
			fmt.Fprintf(&b, " %.3g (%.3g to %.3g)", d[5], d[0], d[10])
			if m.Unit != "1" {
				b.WriteString(" " + m.Unit)
			}
		}
	}
	return b.String()
}

// findingText is such as: OPEN 0.83 idle-cores: Cores are idle, since 12:00:10Z, node n0007.
func findingText(f *schemas.Finding) string {
	text := fmt.Sprintf("%s %.2f %s: %s, since %s", f.State, f.Severity, f.Rule, f.Title, clock(f.FirstInterval))
	if f.Node != nil {
		text += ", node " + *f.Node
	}
	if f.Final {
		text += ", final"
	}
	return text
}

// jobText is such as: RUNNING of ada, 4 nodes, queue normal, started 12:00:10Z.
func jobText(j *schemas.Job) string {
	text := fmt.Sprintf("%s of %s, %d nodes", j.State, j.User, len(j.Nodes))
	if j.Queue != "" {
		text += ", queue " + j.Queue
	}
	if j.Start != nil {
		text += ", started " + clock(*j.Start)
	}
	if j.End != nil {
		text += ", ended " + clock(*j.End)
	}
	if j.Reason != "" {
		text += ": " + j.Reason
	}
	return text
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05Z") }
