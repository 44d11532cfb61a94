package balancer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/schemas"
)

// plan returns a Route for every node: its home, and a sorted entry for each of its jobs. The method changes sets Epoch
// and IntervalStart. Every job is on nodes of the layout. Jobs stay at the collectors in the newest Routes of last.
// loads and lim have the same unit.
func plan(
	l *assign.Layout, jobs []scheduler.Job, loads *loads, lim assign.Limits, last routeLog,
) ([]schemas.Route, assign.Assignment) {
	routes := make([]schemas.Route, len(l.Nodes))
	for i, n := range l.Nodes {
		routes[i] = schemas.Route{Node: n, Home: l.Home[i]}
	}
	tasks := tasksOf(l, jobs, loads)
	for j := range tasks {
		last.recall(l, &jobs[j], &tasks[j])
	}
	b := assign.Place(l, tasks, lim)
	for j, p := range b.Placed {
		mode := schemas.ModeCollect
		if p.Local {
			mode = schemas.ModeLocal
		}
		for i, n := range tasks[j].Nodes {
			hold, _ := scheduler.HoldOf(&jobs[j], l.Nodes[n]) // scheduler.Planned leaves only nodes that the job holds
			e := schemas.RouteEntry{
				JobID: jobs[j].JobID, Restart: jobs[j].Restart, Cpus: slices.Sorted(slices.Values(hold.Cpus)),
				Partition: p.At[i], Mode: mode, Cgroup: jobs[j].Cgroup,
			}
			if len(e.Cpus) > 0 { // otherwise the job holds all GPUs
				e.Gpus = jobs[j].GPUsOn(l.Nodes[n])
			}
			routes[n].Entries = append(routes[n].Entries, e)
		}
	}
	for i := range routes {
		slices.SortFunc(routes[i].Entries, func(a, b schemas.RouteEntry) int {
			return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
		})
	}
	return routes, b
}

// tasksOf turns jobs into tasks of the algorithms.
func tasksOf(l *assign.Layout, jobs []scheduler.Job, loads *loads) []assign.Task {
	tasks := make([]assign.Task, len(jobs))
	for j := range jobs {
		nodes := make([]int32, len(jobs[j].Nodes))
		for i, n := range jobs[j].Nodes {
			nodes[i] = l.Index[n]
		}
		slices.Sort(nodes) // in tree order, so that a list in another order is not another plan
		tasks[j] = assign.Task{Nodes: nodes, PerNode: loads.of(jobs[j].Identity())}
	}
	return tasks
}

// sameRoute reports whether two Routes of a node are equal but for epoch and interval.
func sameRoute(a, b *schemas.Route) bool {
	return a.Home == b.Home && slices.EqualFunc(a.Entries, b.Entries, func(x, y schemas.RouteEntry) bool {
		return x.JobID == y.JobID && x.Restart == y.Restart && x.Partition == y.Partition && x.Mode == y.Mode &&
			slices.Equal(x.Cpus, y.Cpus) && slices.Equal(x.Gpus, y.Gpus) && x.Cgroup == y.Cgroup
	})
}

// routeLog holds the Routes that an interval may still need, by node and oldest first. Ticks of past intervals are made
// from the Routes of their time, since agents formed their records from these.
type routeLog map[string][]schemas.Route

// recall sets the collectors that a job has had, by the newest Routes of its nodes.
func (l routeLog) recall(layout *assign.Layout, job *scheduler.Job, t *assign.Task) {
	known := false
	at := make([]int32, len(t.Nodes))
	for i, n := range t.Nodes {
		at[i] = assign.None
		routes := l[layout.Nodes[n]]
		if len(routes) == 0 {
			continue
		}
		for k := range routes[len(routes)-1].Entries {
			switch e := &routes[len(routes)-1].Entries[k]; {
			case e.JobID != job.JobID || e.Restart != job.Restart:
			case e.Mode == schemas.ModeLocal:
				t.Local = true
			default:
				at[i], known = e.Partition, true
			}
		}
	}
	if known {
		t.Last = at
	}
}

// changes compares a plan for the interval with the newest Routes. A Route that differs gets the epoch, and is valid
// from the interval on. gone are the nodes that have a Route and are not in the plan.
func (l routeLog) changes(want []schemas.Route, start, epoch int64) (changed []schemas.Route, gone []string) {
	wanted := make(map[string]bool, len(want))
	for i := range want {
		r := want[i]
		wanted[r.Node] = true
		if old := l[r.Node]; len(old) > 0 && sameRoute(&old[len(old)-1], &r) {
			continue
		}
		r.Epoch, r.IntervalStart = epoch, start
		changed = append(changed, r)
	}
	for n, routes := range l {
		if !wanted[n] && !isEnd(&routes[len(routes)-1]) {
			gone = append(gone, n)
		}
	}
	slices.Sort(gone)
	return changed, gone
}

// nextEpoch counts epochs. The count stays at the highest one, which a record may have. Nothing is decided by epochs.
func nextEpoch(epoch int64) int64 { return min(epoch+1, schemas.MaxEpoch) }

// carried returns the jobs that have Routes but appear in no list or fault. They keep only the nodes and CPUs that no
// planned job claims. The argument has lists the planned jobs.
func (l routeLog) carried(
	layout *assign.Layout, listed []scheduler.Job, faults []scheduler.Fault, has []scheduler.Job,
) []scheduler.Job {
	named := make(map[schemas.JobKey]bool, len(listed)+len(faults))
	for i := range listed {
		named[listed[i].Identity()] = true
	}
	for _, f := range faults {
		named[schemas.JobKey{JobID: f.JobID, Restart: f.Restart}] = true
	}
	taken := scheduler.Claims{}
	for i := range has {
		taken.Add(&has[i])
	}
	var carried []scheduler.Job
	at := map[schemas.JobKey]int{}
	for _, n := range layout.Nodes {
		routes := l[n]
		if len(routes) == 0 {
			continue
		}
		for _, e := range routes[len(routes)-1].Entries {
			key := schemas.JobKey{JobID: e.JobID, Restart: e.Restart}
			if named[key] || taken.Conflict(onNode(n, e.Cpus)) != "" {
				continue
			}
			i, known := at[key]
			if !known {
				i = len(carried)
				at[key] = i
				carried = append(carried, scheduler.Job{
					Job:  schemas.Job{JobID: e.JobID, Restart: e.Restart},
					Held: map[string]scheduler.Hold{}, Cgroup: e.Cgroup,
				})
			}
			carried[i].Nodes = append(carried[i].Nodes, n)
			carried[i].Held[n] = scheduler.Hold{Cpus: e.Cpus}
			if len(e.Gpus) > 0 {
				if carried[i].GPUs == nil {
					carried[i].GPUs = map[string][]int32{}
				}
				carried[i].GPUs[n] = e.Gpus
			}
		}
	}
	return carried
}

func onNode(node string, cpus []int32) *scheduler.Job {
	return &scheduler.Job{Job: schemas.Job{Nodes: []string{node}, Cpus: cpus}}
}

func (l routeLog) add(r schemas.Route) { l[r.Node] = append(l[r.Node], r) }

// end notes that a node is without a Route from the interval on. Ticks of earlier intervals still need its old Routes.
func (l routeLog) end(node string, start int64) {
	l.add(schemas.Route{Node: node, IntervalStart: start, Home: assign.None})
}

// untimed is the home in a Route from the future. No Tick is made from such a Route, and the next plan writes another.
// No record contains this home, nor None, the home of a node that left the machine.
const untimed = -2

// addUntimed remembers a Route from the future, so that its jobs stay where they are. The previous Route stays in
// force.
func (l routeLog) addUntimed(r schemas.Route) {
	r.Home = untimed
	l.add(r)
}

// isUntimed reports whether the newest Route of a node is from the future.
func (l routeLog) isUntimed(node string) bool {
	routes := l[node]
	return len(routes) > 0 && routes[len(routes)-1].Home == untimed
}

func isEnd(r *schemas.Route) bool { return r.Home == assign.None }

// at returns the Routes in force for an interval, sorted by node. A Route is in force from its interval until the next
// one of its node. The oldest Route of a node is also in force before.
func (l routeLog) at(start int64) []schemas.Route {
	routes := make([]schemas.Route, 0, len(l))
	for _, n := range slices.Sorted(maps.Keys(l)) {
		if r := l[n][inForce(l[n], start)]; r.Home >= 0 {
			routes = append(routes, r)
		}
	}
	return routes
}

// forget drops the Routes that no interval from start on needs.
func (l routeLog) forget(start int64) {
	for n, routes := range l {
		i := inForce(routes, start)
		switch {
		case isEnd(&routes[i]) && i == len(routes)-1:
			delete(l, n)
		case i > 0:
			l[n] = slices.Clone(routes[i:])
		}
	}
}

func inForce(routes []schemas.Route, start int64) int {
	for i := len(routes) - 1; i > 0; i-- {
		if routes[i].IntervalStart <= start {
			return i
		}
	}
	return 0
}

// last returns the highest epoch of all Routes, and the latest interval that a Route was planned for. Intervals from
// the future do not count. Both are 0 if there is no Route.
func (l routeLog) last() (epoch, start int64) {
	for _, routes := range l {
		for i := range routes {
			epoch = max(epoch, routes[i].Epoch)
			if routes[i].Home != untimed {
				start = max(start, routes[i].IntervalStart)
			}
		}
	}
	return epoch, start
}
