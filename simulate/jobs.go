package simulate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// habit describes the jobs of a made-up user. The archive's queries find these users again.
type habit struct {
	user, account, queue, name string
	weight                     int // frequency of the user's submissions, relative to others
	nodes                      [2]int
	length                     [2]time.Duration
	limit                      float64 // requested time, relative to the used time
	memory                     float64 // used memory of a node, in GiB
	asked                      float64 // requested memory of a node, in GiB
	busy                       float64 // fraction of the CPUs that work
	user1                      float64 // cpu_user of a CPU that works
	ipc                        float64
	uneven                     float64 // fraction by which the last node works less than the first
	phases                     time.Duration
	fails                      float64 // fraction of the jobs that fail
	class                      int     // of the nodes
	cpus                       int     // requested CPUs of each slot; 0: all
	does                       *program
	cancels                    bool                                   // the user ends all jobs
	rule                       string                                 // rule that must find these jobs; empty: none may
	after                      func(life time.Duration) time.Duration // time from which there is something to find
}

func hours(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }

// habits returns the users of a machine with a number of nodes. Jobs are scaled down to fit a small machine.
func habits(nodes int) []habit {
	h := func(n int) time.Duration { return time.Duration(n) * time.Hour }
	people := []habit{
		{
			user: "anna", account: "physics", queue: "normal", name: "lattice", weight: 5, nodes: [2]int{4, 8},
			length: [2]time.Duration{h(2), h(10)}, limit: 1.2, memory: 180, asked: 220, busy: 1, user1: 0.97, ipc: 1.9,
		},
		{
			user: "boris", account: "chemistry", queue: "normal", name: "molecule", weight: 6, nodes: [2]int{1, 4},
			length: [2]time.Duration{h(1), h(6)}, limit: 4, memory: 40, asked: 240, busy: 0.5, user1: 0.95, ipc: 1.1,
		},
		{
			user: "chen", account: "climate", queue: "normal", name: "ocean", weight: 4, nodes: [2]int{6, 12},
			length: [2]time.Duration{h(3), h(12)}, limit: 1.1, memory: 120, asked: 160, busy: 1, user1: 0.85, ipc: 1.4,
			phases: 30 * time.Minute,
		},
		{
			user: "dana", account: "biology", queue: "normal", name: "assembly", weight: 8, nodes: [2]int{1, 1},
			length: [2]time.Duration{h(1), h(8)}, limit: 2, memory: 230, asked: 240, busy: 0.25, user1: 0.9, ipc: 0.8,
			fails: 0.1,
		},
		{
			user: "emil", account: "engineering", queue: "normal", name: "mesh", weight: 4, nodes: [2]int{4, 8},
			length: [2]time.Duration{h(2), h(6)}, limit: 1.5, memory: 90, asked: 120, busy: 1, user1: 0.95, ipc: 1.5,
			uneven: 0.6,
		},
		{
			user: "farah", account: "physics", queue: "test", name: "try", weight: 10, nodes: [2]int{1, 2},
			length: [2]time.Duration{3 * time.Minute, 20 * time.Minute}, limit: 5, memory: 20, asked: 240, busy: 1,
			user1: 0.6, ipc: 1.2, fails: 0.4,
		},
	}
	for i := range people {
		people[i].nodes = [2]int{min(people[i].nodes[0], max(1, nodes/4)), min(people[i].nodes[1], max(1, nodes/2))}
	}
	return people
}

// job is a made-up job. Its slots and its nodes are numbers.
type job struct {
	schemas.Job
	habit *habit
	seed  uint64
	on    []int
	nodes []int
}

// covers reports whether the job held its nodes for a whole interval.
func (j *job) covers(startMs, intervalMs int64) bool {
	return *j.Start <= startMs && startMs+intervalMs <= *j.End
}

// jobMix is the mix of jobs on a machine.
type jobMix struct {
	people  []habit
	planted []habit // each submits once
	load    float64 // fraction of each class of nodes that jobs would take if none waited
}

// makeJobs returns the jobs that start between two times, by start. Jobs wait in the order of their submission. Some
// run beyond the end.
func makeJobs(seed uint64, l *layout, x *jobMix, from, to time.Time) []job {
	r := rand.New(rand.NewPCG(seed, 1))
	var submits []submission
	for class := range classes {
		submits = append(submits, submissions(r, x, l, class, from, to)...)
	}
	submits = append(submits, plant(x.planted, from, to)...)
	slices.SortStableFunc(submits, func(a, b submission) int { return cmp.Compare(a.at, b.at) })
	free := make([]int64, len(l.slots)) // time from which each slot is free
	for i := range free {
		free[i] = from.UnixMilli()
	}
	jobs := make([]job, 0, len(submits))
	earliest, closed := [classes]int64{}, [classes]bool{}
	for n, s := range submits {
		class := s.habit.class
		if closed[class] {
			continue
		}
		order := l.ofClass(class)
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(free[a], free[b]) })
		on := slices.Sorted(slices.Values(order[:s.nodes]))
		start := max(s.at, earliest[class])
		for _, i := range on {
			start = max(start, free[i])
		}
		start += int64(1000 * (1 + r.IntN(20))) // a prolog
		if start >= to.UnixMilli() {
			closed[class] = true
			continue
		}
		earliest[class] = start // first come, first served
		end := start + s.length.Milliseconds()
		for _, i := range on {
			free[i] = end
		}
		jobs = append(jobs, newJob(r, l, n, s, on, start, end))
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(*a.Start, *b.Start) })
	return jobs
}

// plant spreads the submissions of single jobs evenly over the time. The last ones still end within it.
func plant(planted []habit, from, to time.Time) (all []submission) {
	for i := range planted {
		h := &planted[i]
		room := to.Sub(from) - 2*h.length[1]
		at := from.Add(room * time.Duration(2*i+1) / time.Duration(2*len(planted)))
		all = append(all, submission{
			habit: h, at: at.Truncate(time.Second).UnixMilli(), nodes: h.nodes[0], length: h.length[0],
		})
	}
	return all
}

// submission is a request for a job.
type submission struct {
	habit  *habit
	at     int64
	nodes  int
	length time.Duration
}

func submissions(r *rand.Rand, x *jobMix, l *layout, class int, from, to time.Time) []submission {
	people := slices.DeleteFunc(slices.Clone(x.people), func(h habit) bool { return h.class != class })
	if len(people) == 0 {
		return nil
	}
	weights, work := 0, 0.0
	for i := range people {
		h := &people[i]
		weights += h.weight
		mean := float64(h.nodes[0]+h.nodes[1]) / 2 * (h.length[0] + h.length[1]).Hours() / 2
		work += float64(h.weight) * mean
	}
	gap := work / float64(weights) / (x.load * float64(len(l.ofClass(class)))) // hours
	var all []submission
	for at := from; at.Before(to); at = at.Add(time.Duration(r.ExpFloat64() * gap * float64(time.Hour))) {
		k := r.IntN(weights)
		i := 0
		for ; k >= people[i].weight; i++ {
			k -= people[i].weight
		}
		h := &people[i]
		all = append(all, submission{
			habit: h, at: at.Truncate(time.Second).UnixMilli(),
			nodes:  h.nodes[0] + r.IntN(h.nodes[1]-h.nodes[0]+1),
			length: (h.length[0] + time.Duration(r.Int64N(int64(h.length[1]-h.length[0])))).Truncate(time.Second),
		})
	}
	return all
}

func newJob(r *rand.Rand, l *layout, number int, s submission, on []int, start, end int64) job {
	h := s.habit
	j := job{habit: h, seed: r.Uint64(), on: on}
	submit, exclusive := s.at, h.class != packed
	cores, gpus := int64(0), int32(0)
	for _, i := range on {
		x := l.slots[i]
		if cores += int64(x.cpus); h.cpus > 0 {
			cores += int64(h.cpus - x.cpus)
		}
		if n := len(j.nodes); n == 0 || j.nodes[n-1] != x.node {
			j.nodes = append(j.nodes, x.node)
			j.Nodes = append(j.Nodes, l.names[x.node])
			if l.hasGPUs(x.node) {
				gpus += nodeGPUs
			}
		}
	}
	limit := int64(math.Ceil(float64(end-start)/1000*h.limit/600) * 600)
	asked := int64(h.asked) << 30
	j.Job = schemas.Job{
		JobID: strconv.Itoa(1001 + number), Name: h.name, User: h.user, Account: h.account, Queue: h.queue,
		Nodes: j.Nodes,
		Cores: &cores, Gpus: &gpus, TimeLimitS: &limit, MemRequestedBytes: &asked, Exclusive: &exclusive,
		Submit: &submit, Start: &start, End: &end, State: schemas.StateCompleted,
	}
	if h.cancels {
		j.State, j.Reason = schemas.StateCancelled, "made up"
	}
	if r.Float64() < h.fails {
		j.State, j.Reason = schemas.StateFailed, "made up"
	}
	return j
}

func nodeName(i int) string { return fmt.Sprintf("n%04d", i+1) }
