package assign

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Comparison runs the algorithms on random jobs of the machine that PerSyst's paper describes.
type Comparison struct {
	Seed      uint64
	Snapshots int
	Churn     float64 // fraction of the jobs that end between two intervals
}

// contender is one row of the comparison: an algorithm and its results.
type contender struct {
	name  string
	lMax  int
	place func(l *Layout, tasks []Task) []Placement

	jobs, local, collector, sync, frontend float64
	used, distance, bound                  float64
	nodes, most                            float64 // sums of the mean and the greatest load
	took                                   time.Duration
	kept, moved                            float64 // jobs that continue, and the moving ones among them
}

// contenders are the algorithms of the comparison, each with the limits that it was made for.
func contenders() []*contender {
	literally := func(algorithm func(*Layout, [][]int32, Limits) []Placement) func(*Layout, []Task) []Placement {
		return func(l *Layout, tasks []Task) []Placement {
			nodes := make([][]int32, len(tasks))
			for j := range tasks {
				nodes[j] = tasks[j].Nodes
			}
			return algorithm(l, nodes, Limits{LMax: mucLMax, LDist: mucLDist})
		}
	}
	own := func(lMax int) func(*Layout, []Task) []Placement {
		return func(l *Layout, tasks []Task) []Placement {
			return placeBounded(l, tasks, Limits{LMax: lMax}).Placed
		}
	}
	return []*contender{
		{name: "literal", lMax: mucLMax, place: literally(placeLiteral)},
		{name: "near-linear", lMax: mucLMax, place: literally(placeNearLinear)},
		{name: "weir", lMax: mucLMax, place: own(mucLMax)},
		{name: "weir, Kafka", lMax: mucKafka, place: own(mucKafka)},
	}
}

// columns are the heads of the comparison's table.
const columns = "algorithm\tl_max\tagent %\tcollector %\tSyncAgent %\tfrontend %\texact %\ttree nodes\tratio\t" +
	"distance / bound\tmax / mean load\ttime us\tmoved %\t"

// Run writes the comparison. If ctx ends early, it covers the snapshots that are done.
func (s *Comparison) Run(ctx context.Context, out io.Writer) error {
	rows, toFrontend, done := s.compare(ctx)
	if done == 0 {
		return ctx.Err()
	}
	n := float64(done)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, columns)
	_, _ = fmt.Fprintf(w, "PerSyst paper\t\t6.04\t85.00\t6.37\t2.59\t91.04\t217.59\t4.16\t\t\t\t\t\n")
	for _, c := range rows {
		percent := func(v float64) float64 { return 100 * v / c.jobs }
		_, _ = fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.3f\t%.2f\t%.0f\t%.2f\t\n",
			c.name, c.lMax,
			percent(c.local), percent(c.collector), percent(c.sync), percent(c.frontend), percent(c.local+c.collector),
			c.used/n, toFrontend/c.used, c.distance/c.bound, c.most/c.nodes,
			float64(c.took.Microseconds())/n, 100*c.moved/max(1, c.kept))
	}
	_, _ = fmt.Fprintf(w, "all to the frontend\t\t\t\t\t\t\t%.2f\t1.00\t\t\t\t\t\n", toFrontend/n)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d snapshots of %.1f jobs, seed %d; "+
		"moved: jobs that continue but change collectors, of an interval after which %.0f %% of the jobs end\n",
		done, rows[0].jobs/n, s.Seed, 100*s.Churn)
	return err
}

// compare plans snapshots by all algorithms until all are done or ctx ends. toFrontend sums the tree nodes that jobs
// pass on the way to the frontend if none is reduced before.
func (s *Comparison) compare(ctx context.Context) (rows []*contender, toFrontend float64, done int) {
	l := mucLayout()
	rows = contenders()
	for ; done < s.Snapshots && ctx.Err() == nil; done++ {
		m := newMUC(s.Seed + uint64(done)<<32)
		for i := range m.jobs {
			toFrontend += float64(upward(l, m.jobs[i].Nodes))
		}
		first := slices.Clone(m.jobs)
		placed := make([][]Placement, len(rows))
		for i, c := range rows {
			begun := time.Now()
			placed[i] = c.place(l, first)
			c.took += time.Since(begun)
			c.count(l, first, placed[i])
		}
		for k := range m.jobs {
			m.jobs[k].Last = []int32{int32(k)} // its number; later each algorithm sets its own
		}
		m.churn(s.Churn)
		for i, c := range rows {
			c.move(l, m.jobs, placed[i])
		}
	}
	return rows, toFrontend, done
}

// upward counts the tree nodes between a job and the root: homes, SyncAgents and the frontend.
func upward(l *Layout, nodes []int32) int {
	homes, syncs := map[int32]bool{}, map[int32]bool{}
	for _, n := range nodes {
		homes[l.Home[n]], syncs[l.Sync[l.Home[n]]] = true, true
	}
	return len(homes) + len(syncs) + 1
}

// count adds one plan to the means. It classifies a job by the distance that its values travel: at one collector, under
// one SyncAgent, or over the frontend.
func (c *contender) count(l *Layout, tasks []Task, placed []Placement) {
	load := make([]float64, len(l.Sync))
	for _, p := range placed {
		c.jobs++
		passed := treeNodes(l, p.At)
		if p.Local {
			c.local++
			continue
		}
		for _, at := range p.At {
			load[at]++
		}
		switch parts := distinct(p.At); {
		case parts == 1:
			c.collector++
		case passed == parts+1:
			c.sync++
		default:
			c.frontend++
		}
	}
	m := Measure(l, tasks, placed, c.lMax)
	c.used += float64(m.TreeNodes)
	c.distance += float64(m.Distance)
	c.bound += float64(m.LowerBound)
	for _, v := range load {
		c.nodes += v / float64(len(load))
	}
	c.most += slices.Max(load)
}

func distinct(at []int32) int {
	sorted := slices.Clone(at)
	slices.Sort(sorted)
	return len(slices.Compact(sorted))
}

// move plans the interval after the one of placed, and counts the jobs that moved. Last of a job that continues holds
// its number in placed.
func (c *contender) move(l *Layout, jobs []Task, placed []Placement) {
	tasks := slices.Clone(jobs)
	for j := range tasks {
		if tasks[j].Last == nil {
			continue
		}
		p := placed[tasks[j].Last[0]]
		tasks[j].Last, tasks[j].Local = p.At, p.Local
		if p.Local {
			tasks[j].Last = nil
		}
	}
	after := c.place(l, tasks)
	for j := range tasks {
		if tasks[j].Last != nil {
			c.kept++
			if !slices.Equal(tasks[j].Last, after[j].At) {
				c.moved++
			}
		}
	}
}
