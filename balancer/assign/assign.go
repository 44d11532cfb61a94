// Package assign assigns the data of each job to collectors. It is pure: the same arguments give the same answer, and
// it knows neither Kafka nor a scheduler.
//
// A Layout puts collectors over the tree of the machine. A Task is a job: the numbers of its nodes, with a load. Place
// returns an Assignment by one of two algorithms. Weir's own keeps collectors below a bound and moves jobs only if it
// must. PerSyst's exists in a literal form and in a near-linear one: tests hold the second to the first. Measure
// computes the distance of nodes from their collectors. Comparison runs all algorithms on random jobs.
package assign

// None is the number of no collector and of no island.
const None = -1

// Task is a job that wants collectors.
type Task struct {
	Nodes   []int32 // numbers of the layout
	PerNode int64   // load of each of its nodes in an interval, in the unit of LMax, at least 1
	Last    []int32 // collector of each node until now, None for a node that is new; nil: the job is new
	Local   bool    // it was reduced on its node in the last interval
}

func (t *Task) load() int64 { return t.PerNode * int64(len(t.Nodes)) }

// Limits bound the load of one collector. Loads count nodes, or bytes in an interval if weir's algorithm weighs them.
type Limits struct {
	LMax     int    // load; a job with more is spread over several collectors
	LDist    int    // nodes that each of these collectors is meant to take. PerSyst's only
	LocalMax int    // jobs of one node that are reduced there, others send values; 0: all, -1: none
	Literal  bool   // PerSyst's algorithms in place of weir's
	lost     []bool // collectors that take nothing; nil: none. Weir's only
	Still    bool   // loads are guessed: no job leaves a collector because of them. Weir's only
}

// Placement lists the collectors that reduce one job.
type Placement struct {
	Local bool    // on its only node
	At    []int32 // collector of each node of the job, in the job's order; if local, the node's home
}

// Assignment places all jobs, and sums up the load of the collectors.
type Assignment struct {
	Placed     []Placement // of each task
	Load       []int64     // of each collector
	Overloaded bool        // the jobs do not fit, and are spread evenly
	Needed     int         // collectors that would hold all within LMax
}

// Place assigns tasks by the algorithm that the limits ask for.
func Place(l *Layout, tasks []Task, lim Limits) Assignment {
	if !lim.Literal {
		return placeBounded(l, tasks, lim)
	}
	nodes := make([][]int32, len(tasks))
	for j := range tasks {
		nodes[j] = tasks[j].Nodes
	}
	b := Assignment{Placed: placeNearLinear(l, nodes, lim), Load: make([]int64, len(l.Sync))}
	total := 0
	for _, p := range b.Placed {
		for _, c := range p.At {
			if !p.Local {
				b.Load[c]++
				total++
			}
		}
	}
	b.Needed = (total + lim.LMax - 1) / lim.LMax
	b.Overloaded = b.Needed > len(l.Sync)
	return b
}
