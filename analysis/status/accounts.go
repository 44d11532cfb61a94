package status

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// Interval counts the records of one closed interval by fate, over all partitions of counters, so far.
type Interval struct {
	IntervalStart int64 `json:"interval_start"`
	Expected      int64 `json:"expected"` // (node, job) pairs that the Ticks list, without jobs that ended
	Summarized    int64 `json:"summarized"`
	Late          int64 `json:"late"`
	Misrouted     int64 `json:"misrouted"` // without records of another interval_ms, which are reported separately
	Ended         int64 `json:"ended"`
}

// IncompleteJob is a job that lacks nodes, or shares of collectors, in all its last rows.
type IncompleteJob struct {
	JobID         string   `json:"job_id"`
	Restart       int32    `json:"restart"`
	IntervalStart int64    `json:"interval_start"` // of the last row
	Parts         int32    `json:"parts"`
	PartsReported int32    `json:"parts_reported"`
	NodesExpected int32    `json:"nodes_expected"`
	NodesReported int32    `json:"nodes_reported"`
	Missing       []string `json:"missing_nodes"` // listed by one of the last Ticks, without a record in time
}

// place is one interval in one partition of counters.
type place struct {
	partition int32
	start     int64
}

// owed identifies a record that a node owes a job.
type owed struct {
	job  schemas.JobKey
	node string
}

// window holds the records of one place that came, and the nodes and jobs that its Tick lists.
type window struct {
	closed bool
	other  bool // interval_ms of its Tick differs from the configuration: no record is taken
	came   map[owed]bool
	listed map[owed]bool // false: the job ended before the interval did
	late   map[string]int64
}

// accounts judges the records of the last intervals as collectors do, from the log alone. A status is read once, and
// one look cannot show that a counter rises.
type accounts struct {
	cluster    string
	oldest     int64 // interval_start
	intervalMs int64 // of the configuration
	windows    map[place]*window
	heard      map[string]bool
	other      map[string]int64 // interval_ms of the nodes that have another
}

func newAccounts(cluster string, oldest, intervalMs int64) *accounts {
	return &accounts{
		cluster: cluster, oldest: oldest, intervalMs: intervalMs,
		windows: map[place]*window{}, heard: map[string]bool{}, other: map[string]int64{},
	}
}

func (a *accounts) window(partition int32, start int64) *window {
	at := place{partition, start}
	if a.windows[at] == nil {
		a.windows[at] = &window{came: map[owed]bool{}, listed: map[owed]bool{}, late: map[string]int64{}}
	}
	return a.windows[at]
}

// add notes one record of counters, in the order of its partition.
func (a *accounts) add(partition int32, record schemas.Record) {
	switch v := record.(type) {
	case *schemas.CounterBatch:
		a.hear(partition, &v.NodeHeader)
	case *schemas.NodeSummary:
		a.hear(partition, &v.NodeHeader)
	case *schemas.Tick:
		a.tick(partition, v)
	}
}

// hear notes that a node sent something, even if it counts nowhere: such a node is wrong, but not silent.
func (a *accounts) hear(partition int32, h *schemas.NodeHeader) {
	if h.IntervalStart < a.oldest {
		return
	}
	a.heard[h.Node] = true
	if h.Cluster != a.cluster {
		return // collect rejects it
	}
	if h.IntervalMs != a.intervalMs {
		a.other[h.Node] = h.IntervalMs
		return
	}
	if w := a.window(partition, h.IntervalStart); w.closed {
		w.late[h.Node]++
	} else {
		w.came[owed{h.Job(), h.Node}] = true
	}
}

// tick notes the nodes and jobs that an interval expects. An interval may have several Ticks. The Tick without More
// closes it, and later Ticks change nothing.
func (a *accounts) tick(partition int32, t *schemas.Tick) {
	if t.IntervalStart < a.oldest {
		return
	}
	w := a.window(partition, t.IntervalStart)
	if w.closed {
		return
	}
	w.closed, w.other = !t.More, t.IntervalMs != a.intervalMs
	for i := range t.Jobs {
		job := &t.Jobs[i]
		for _, n := range job.Nodes {
			w.listed[owed{schemas.JobKey{JobID: job.JobID, Restart: job.Restart}, n}] = job.Parts > 0
		}
	}
}

// count adds the fates of the records that came in time, and names the nodes with records that no Tick lists.
func (w *window) count(i *Interval, misrouted map[string]bool) {
	for o := range w.came {
		switch goesOn, listed := w.listed[o]; {
		case w.other:
			i.Misrouted++
		case !listed:
			misrouted[o.node] = true
			i.Misrouted++
		case !goesOn:
			i.Ended++
		default:
			i.Summarized++
		}
	}
}

// missing lists, by job, the nodes that a Tick lists but that sent no record in time.
type missing map[schemas.JobKey]map[string]bool

// close returns the closed intervals, oldest first, and names the nodes that are silent, late or misrouted.
func (a *accounts) close(s *Status) missing {
	at, absent := map[int64]*Interval{}, missing{}
	silent, late, misrouted := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for p, w := range a.windows {
		if !w.closed {
			continue
		}
		i := cmp.Or(at[p.start], &Interval{IntervalStart: p.start})
		at[p.start] = i
		for n, count := range w.late {
			late[n] = true
			i.Late += count
		}
		w.count(i, misrouted)
		for o, goesOn := range w.listed {
			if !a.heard[o.node] {
				silent[o.node] = true
			}
			if !goesOn {
				continue
			}
			i.Expected++
			if !w.came[o] || w.other {
				if absent[o.job] == nil {
					absent[o.job] = map[string]bool{}
				}
				absent[o.job][o.node] = true
			}
		}
	}
	for _, start := range slices.Sorted(maps.Keys(at)) {
		s.Intervals = append(s.Intervals, *at[start])
	}
	s.Silent, s.Late, s.Misrouted = names(silent), names(late), names(misrouted)
	s.OtherInterval = a.other
	return absent
}

// names returns the keys sorted, and never nil: they become a JSON array.
func names(of map[string]bool) []string {
	return append([]string{}, slices.Sorted(maps.Keys(of))...)
}

// rowCounts is how complete one summary is.
type rowCounts struct {
	start                        int64
	parts, partsReported         int32
	nodesExpected, nodesReported int32
}

func (r *rowCounts) whole() bool {
	return r.nodesReported >= r.nodesExpected && r.partsReported >= r.parts
}

// rows are the summaries of the last intervals, by job.
type rows map[schemas.JobKey][]rowCounts

func (r rows) add(s *schemas.JobSummary) {
	key := schemas.JobKey{JobID: s.JobID, Restart: s.Restart}
	r[key] = append(r[key], rowCounts{s.IntervalStart, s.Parts, s.PartsReported, s.NodesExpected, s.NodesReported})
}

// judged returns the jobs that were incomplete in each of their last statusRows rows. It also returns the nodes
// expected and reported by all rows of the last silentRows intervals. It leaves out the summaries of the whole machine,
// which sum up all others.
func (r rows) judged(absent missing) (incomplete []IncompleteJob, expected, reported int64) {
	incomplete = []IncompleteJob{}
	starts := map[int64]bool{}
	for key, of := range r {
		if key.JobID == schemas.JobSystem {
			continue
		}
		slices.SortFunc(of, func(a, b rowCounts) int { return cmp.Compare(a.start, b.start) })
		for i := range of {
			starts[of[i].start] = true
		}
		last := of[max(0, len(of)-statusRows):]
		if len(last) < statusRows || slices.ContainsFunc(last, func(c rowCounts) bool { return c.whole() }) {
			continue
		}
		c := last[len(last)-1]
		incomplete = append(incomplete, IncompleteJob{
			JobID: key.JobID, Restart: key.Restart, IntervalStart: c.start, Parts: c.parts,
			PartsReported: c.partsReported,
			NodesExpected: c.nodesExpected, NodesReported: c.nodesReported, Missing: names(absent[key]),
		})
	}
	slices.SortFunc(incomplete, func(a, b IncompleteJob) int {
		return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
	})
	sorted := slices.Sorted(maps.Keys(starts))
	sorted = sorted[max(0, len(sorted)-silentRows):]
	for key, of := range r {
		for _, c := range of {
			if key.JobID != schemas.JobSystem && len(sorted) > 0 && c.start >= sorted[0] {
				expected += int64(c.nodesExpected)
				reported += int64(c.nodesReported)
			}
		}
	}
	return incomplete, expected, reported
}
