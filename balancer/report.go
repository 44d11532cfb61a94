package balancer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// Preview is the assignment of jobs as a balancer that begins now would make it. Loads count nodes.
type Preview struct {
	Jobs          []PreviewJob       `json:"jobs"`
	Collectors    []PreviewCollector `json:"collectors"`
	Distance      int                `json:"distance"`
	TreeNodesUsed int                `json:"tree_nodes_used"`
	LowerBound    int                `json:"lower_bound"`
	Overloaded    bool               `json:"overloaded"`
	Skipped       []PreviewSkip      `json:"skipped"`
	Waits         int                `json:"waiting"` // jobs that start later

	Needed int               `json:"-"` // collectors that it takes at the least
	Faults []scheduler.Fault `json:"-"` // jobs that cannot be followed, or a list that cannot be read
	Over   int               `json:"-"` // jobs that have ended

	idle   []scheduler.Job // do not run now
	layout *assign.Layout
	limits assign.Limits
	tasks  []assign.Task
	b      assign.Assignment
}

// PreviewSkip is a job that cannot be followed. Its id is as it was given, and may be invalid.
type PreviewSkip struct {
	JobID   string `json:"job_id"`
	Restart int32  `json:"restart"`
	Reason  string `json:"reason"`
}

// PreviewJob is a job of a Preview. A job that is reduced on its node needs no collectors.
type PreviewJob struct {
	JobID      string         `json:"job_id"`
	Restart    int32          `json:"restart"`
	Method     string         `json:"method"` // NODE, EXACT or ESTIMATED
	Collectors []PreviewShare `json:"collectors"`
}

// PreviewShare names the nodes of a job that one collector takes.
type PreviewShare struct {
	Collector int32    `json:"collector"`
	Nodes     []string `json:"nodes"`
}

// PreviewCollector is the load of one collector: the nodes of jobs that it takes.
type PreviewCollector struct {
	Collector int32 `json:"collector"`
	Load      int64 `json:"load"`
}

// NewPreview plans the jobs that run now on a tree. It does so without Kafka, so the places of the collectors are
// unknown.
func NewPreview(cfg config.Config, tree *topology.Tree, source scheduler.Source, now time.Time) *Preview {
	jobs, faults := scheduler.Ask(source, tree, now)
	p := &Preview{
		Jobs: []PreviewJob{}, Skipped: []PreviewSkip{}, Faults: faults,
		layout: assign.NewLayout(tree, cfg.Collectors, nil), limits: nodeLimits(cfg),
	}
	for _, f := range p.Faults {
		if f.JobID != "" {
			p.Skipped = append(p.Skipped, PreviewSkip{f.JobID, f.Restart, f.Reason})
		}
	}
	var running []scheduler.Job
	for _, j := range jobs {
		switch j.State {
		case schemas.StateRunning:
			running = append(running, j)
			continue
		case schemas.StatePending:
			p.Waits++
		default:
			p.Over++
		}
		p.idle = append(p.idle, j)
	}
	p.tasks = tasksOf(p.layout, running, nil)
	p.b = assign.Place(p.layout, p.tasks, p.limits)
	for j := range running {
		p.Jobs = append(p.Jobs, p.job(&running[j], j))
	}
	for c, load := range p.b.Load {
		p.Collectors = append(p.Collectors, PreviewCollector{int32(c), load})
	}
	m := assign.Measure(p.layout, p.tasks, p.b.Placed, p.limits.LMax)
	p.Distance, p.LowerBound, p.TreeNodesUsed = m.Distance, m.LowerBound, m.TreeNodes
	p.Overloaded, p.Needed = p.b.Overloaded, p.b.Needed
	return p
}

// job turns the plan's numbers of one job into names. The collectors come in their order, since the plan lists them by
// node.
func (p *Preview) job(job *scheduler.Job, j int) PreviewJob {
	shown := PreviewJob{
		JobID: job.JobID, Restart: job.Restart, Method: schemas.MethodNode, Collectors: []PreviewShare{},
	}
	if p.b.Placed[j].Local {
		return shown
	}
	index := map[int32]int{}
	for i, c := range p.b.Placed[j].At {
		k, there := index[c]
		if !there {
			k = len(shown.Collectors)
			index[c] = k
			shown.Collectors = append(shown.Collectors, PreviewShare{Collector: c})
		}
		shown.Collectors[k].Nodes = append(shown.Collectors[k].Nodes, p.layout.Nodes[p.tasks[j].Nodes[i]])
	}
	slices.SortFunc(shown.Collectors, func(a, b PreviewShare) int { return cmp.Compare(a.Collector, b.Collector) })
	shown.Method = schemas.MethodExact
	if len(shown.Collectors) > 1 {
		shown.Method = schemas.MethodEstimated
	}
	return shown
}

// Explain writes why a job is at its collectors, for each of its lives that run now. If none runs, the error describes
// the state of the job.
func (p *Preview) Explain(w io.Writer, id string) error {
	var b strings.Builder
	for j := range p.Jobs {
		if p.Jobs[j].JobID == id {
			p.explain(&b, j)
		}
	}
	if b.Len() == 0 {
		return p.absent(id)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// absent returns why a job does not run.
func (p *Preview) absent(id string) error {
	var says []string
	for i := range p.idle {
		switch j := &p.idle[i]; {
		case j.JobID != id:
		case j.State == schemas.StatePending:
			says = append(says, "waits, and starts at "+scheduler.Stamp(scheduler.Life(j).Start))
		default:
			says = append(says, "is over since "+scheduler.Stamp(scheduler.Life(j).End))
		}
	}
	for _, f := range p.Faults {
		if f.JobID == id {
			says = append(says, "is skipped: "+f.Reason)
		}
	}
	if says == nil {
		says = []string{"is not in the list of jobs"}
	}
	return fmt.Errorf("job %s %s", schemas.ShownJobID(id), strings.Join(says, "; "))
}

// explain gives the reason for the place of a job. The plan does not keep reasons, so explain derives them from its
// result.
func (p *Preview) explain(b *strings.Builder, j int) {
	job, t := &p.Jobs[j], &p.tasks[j]
	fmt.Fprintf(b, "job %s restart %d: %d nodes; l_max is %d\n", job.JobID, job.Restart, len(t.Nodes), p.limits.LMax)
	if job.Method == schemas.MethodNode {
		b.WriteString("NODE: it has one node and is reduced there; no collector takes its values\n")
		return
	}
	nearest := p.layout.Nearest(t.Nodes)
	distance := p.layout.Distance(t.Nodes, p.b.Placed[j].At)
	switch {
	case len(t.Nodes) == 1 && p.limits.LocalMax < 0:
		b.WriteString("EXACT: it has one node, and balance.local_max is -1, so no job is reduced on its node\n")
	case len(t.Nodes) == 1:
		b.WriteString("EXACT: it has one node, but balance.local_max others are reduced on theirs\n")
	case p.limits.Literal && job.Method == schemas.MethodExact:
		fmt.Fprintf(b, "EXACT: one collector had the least load, and was the nearest of those; "+
			"distance %d, the nearest of all is at %d\n", distance, nearest)
	case p.limits.Literal:
		fmt.Fprintf(b, "ESTIMATED: the collector with the least load had no room; "+
			"spread by algorithm 3; distance %d\n", distance)
	case job.Method == schemas.MethodExact && distance == nearest:
		fmt.Fprintf(b, "EXACT: whole at the nearest collector, distance %d\n", distance)
	case job.Method == schemas.MethodExact:
		fmt.Fprintf(b, "EXACT: whole at the nearest collector that had room for it, distance %d; "+
			"at %d are others\n", distance, nearest)
	case len(t.Nodes) > p.limits.LMax:
		fmt.Fprintf(b, "ESTIMATED: it is bigger than one collector takes, "+
			"and split over as few as had the room; distance %d\n", distance)
	default:
		fmt.Fprintf(b, "ESTIMATED: no collector had room for all of it when its turn came; "+
			"split over as few as had the room; distance %d\n", distance)
	}
	for _, s := range job.Collectors {
		own, near := p.layout.Below(s.Collector, t.Nodes)
		fmt.Fprintf(b, "  collector %d takes %d nodes: it is home to %d of the job's, "+
			"%d more are under its SyncAgent; its load is %d\n",
			s.Collector, len(s.Nodes), own, near, p.b.Load[s.Collector])
	}
	if p.Overloaded {
		fmt.Fprintf(b, "The jobs exceed what %d collectors take, and are spread evenly; "+
			"it takes %d collectors at the least.\n", len(p.b.Load), p.Needed)
	}
}
