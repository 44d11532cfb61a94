package page

import (
	"fmt"
	"math"
	"strings"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

// evil would run a script, end an element, load an image, or turn the text around.
const evil = `</title></style><script id=evil>window.evil=1</script><img src=//x.invalid/a onerror=evil=1>"'>` +
	"{{.}}\x1b[31m\x00\u202e" + `javascript:evil()&lt;` + "`"

var wide = strings.Repeat("漢", 64)

// hostile is a job all of whose names are.
func hostile() *view.Job {
	j := madeUp(24)
	j.JobID, j.Name, j.User, j.Account = evil, evil+wide, evil, wide
	j.Queue, j.State, j.Cluster, j.From = evil+wide, evil, evil, evil
	for i := range j.Nodes {
		j.Nodes[i] = fmt.Sprint(i) + evil
	}
	j.Nodes[1] = wide
	j.Type.Name = evil
	j.ByNode = madeUpByNode(j.Nodes)
	j.ByNode.Source = evil
	j.Gaps[0].Nodes = []string{evil, wide}
	for i := range j.Metrics {
		m := &j.Metrics[i]
		if i != 6 && i != 9 { // the roofline's
			m.Name, m.Unit = fmt.Sprint(m.Name, i)+evil, wide
		}
		m.Scope = evil
		for k := range m.Bins {
			for _, counts := range [][]view.NodeCount{m.Bins[k].Lows, m.Bins[k].Highs} {
				for n := range counts {
					counts[n].Node = []string{evil, wide}[n%2]
				}
			}
		}
	}
	for i := range j.Map {
		j.Map[i].Rule, j.Map[i].Title = evil, evil+wide
	}
	for i := range j.Findings {
		f := &j.Findings[i]
		node := evil
		f.Rule, f.Title, f.Hint, f.Slurm, f.Class, f.Node = evil, wide+evil, evil, evil+wide, evil, &node
		f.Evidence = []schemas.FindingEvidence{{Name: evil, Low: math.Inf(-1), Mean: math.NaN(), High: math.MaxFloat64}}
	}
	j.NotEvaluated = []rules.Reason{{Rule: evil, Why: wide + evil}}
	return j
}

func hostilePeers() *view.Peers {
	p := madeUpPeers()
	for i := range p.Queue {
		p.Queue[i].Metric = fmt.Sprint(i) + evil
	}
	p.User[0].Of = evil
	return p
}

// bare is a job of which nothing is known but that it was there.
func bare() *view.Job { return &view.Job{Job: schemas.Job{JobID: "1"}, Cluster: "alpha"} }

// short is a job of one interval on one node.
func short() *view.Job {
	j := madeUp(1)
	j.JobID, j.Name, j.Nodes, j.Intervals, j.Complete, j.Gaps, j.Cores = "2", "short", j.Nodes[:1], 1, 1, nil, nil
	j.UntilMs = j.FirstMs + j.IntervalMs
	for i := range j.Metrics {
		b := &j.Metrics[i].Bins[0]
		b.EndMs, b.Intervals, b.Measured, b.Complete, b.Expected, b.Reported = j.UntilMs, 1, 1, 1, 1, 1
	}
	j.Map, j.Findings = nil, nil
	j.ExactShare = 1
	return j
}

// year is a job of a year on 10,000 nodes, in hours of rollups, with a month without data.
func year() *view.Job {
	const nodes, days = 10_000, 365
	j := madeUp(240)
	j.JobID, j.Name = "3", "a_year"
	j.Nodes = make([]string, nodes)
	for i := range j.Nodes {
		j.Nodes[i] = fmt.Sprintf("rack%03d-chassis%02d-node%05d", i/64, i/8%8, i)
	}
	cores := int64(nodes * 64)
	j.Cores, j.UntilMs, j.Intervals = &cores, j.FirstMs+days*dayMs, days*8640
	each := int64(days * dayMs / 240)
	for i := range j.Metrics {
		m := &j.Metrics[i]
		for k := range m.Bins {
			b := &m.Bins[k]
			b.StartMs, b.EndMs, b.Hourly = j.FirstMs+int64(k)*each, j.FirstMs+int64(k+1)*each, true
			b.Lows, b.Highs = nil, nil
			for n := range 40 {
				b.Lows = append(b.Lows, view.NodeCount{Node: j.Nodes[n*97], Count: int64(n % 7)})
			}
		}
		m.Bins = append(m.Bins[:100:100], m.Bins[120:]...)
	}
	return j
}
