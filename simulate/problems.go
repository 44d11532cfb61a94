package simulate

import "time"

// Problem is a job in which a rule must find something.
type Problem struct {
	Rule   string `json:"rule"`
	JobID  string `json:"job_id"`
	FromMs int64  `json:"from_ms"` // the problem exists from then on
}

// Planted returns the problems in an archive with these options.
func Planted(o Options) []Problem { return o.machine().planted() }

func (m *machine) planted() (all []Problem) {
	for i := range m.jobs {
		j := &m.jobs[i]
		if j.habit.rule == "" {
			continue
		}
		p := Problem{Rule: j.habit.rule, JobID: j.JobID, FromMs: *j.Start}
		if j.habit.after != nil {
			p.FromMs += j.habit.after(time.Duration(*j.End-*j.Start) * time.Millisecond).Milliseconds()
		}
		all = append(all, p)
	}
	return all
}

// problem is a faulty program, with a small job and a large one.
type problem struct {
	rule, name   string
	small, large int     // slots
	length       float64 // hours of the small job; the large one takes longer
	limit, asked float64
	class        int
	after        func(life time.Duration) time.Duration
	does, large2 *program // program of the large job, if it differs
}

// planted returns the jobs with problems, for each rule the small one before the large one. All other jobs of their
// users are healthy.
func planted() (all []habit) {
	users := [][2]string{
		{"anna", "physics"},
		{"boris", "chemistry"},
		{"chen", "climate"},
		{"emil", "engineering"},
		{"hugo", "materials"},
		{"jan", "geophysics"},
		{"kim", "climate"},
		{"otto", "engineering"},
		{"paula", "materials"},
	}
	queues := [...]string{whole: "normal", packed: "shared", gpu: "gpu"}
	for _, large := range []bool{false, true} {
		for i, p := range append(problemsOfCPUs(), problemsOfTheRest()...) {
			user := users[(2*i+len(all)/len(users))%len(users)]
			h := habit{
				user: user[0], account: user[1], queue: queues[p.class], name: p.name, class: p.class,
				nodes: [2]int{p.small, p.small}, length: span(p.length, p.length), limit: 1.4, asked: 200,
				does: p.does, rule: p.rule, after: p.after,
			}
			if p.limit > 0 {
				h.limit = p.limit
			}
			if p.asked > 0 {
				h.asked = p.asked
			}
			if large {
				h.nodes, h.length = [2]int{p.large, p.large}, span(1.5*p.length, 1.5*p.length)
				if p.large2 != nil {
					h.does = p.large2
				}
			}
			all = append(all, h)
		}
	}
	return all
}

// runs returns a program that differs from compute.
func runs(change func(u *use), effects ...effect) *program { return &program{with(change), effects} }

func problemsOfCPUs() []problem {
	const minute = 60.0
	even := func(*use) {}
	return []problem{
		{
			rule: "kernel-no-io", name: "denormals", small: 1, large: 6, length: 5,
			does: runs(func(u *use) { u.user, u.system, u.flops, u.memBW = 0.3, 0.66, 0.9e9, 50e9 }),
		},
		{
			rule: "idle-cores", name: "cavity56", small: 1, large: 8, length: 5,
			does:   runs(func(u *use) { u.busy = 0.875 }),
			large2: runs(func(u *use) { u.busy = 0.75 }, checkpoint(30*minute, minute, 1e9)),
		},
		{
			rule: "unused-node", name: "hostfile", small: 2, large: 8, length: 5,
			does:   runs(even, dark(1)),
			large2: runs(even, checkpoint(20*minute, minute, 1e9), dark(4)),
		},
		{
			rule: "serial", name: "onecore", small: 1, large: 1, length: 4,
			does:   runs(func(u *use) { u.busy, u.user, u.memBW, u.memory = 1.0/bigCPUs, 0.98, 9e9, 10 }),
			large2: runs(func(u *use) { u.busy, u.user, u.memBW, u.memory = 1.0/bigCPUs, 0.97, 24e9, 40 }),
		},
		{
			rule: "low-cpu", name: "waits", small: 1, large: 5, length: 5,
			does:   runs(func(u *use) { u.user, u.tasks = 0.5, 0.5 }),
			large2: runs(func(u *use) { u.user, u.tasks = 0.7, 0.7 }, checkpoint(30*minute, minute, 1e9)),
		},
		{
			rule: "imbalance", name: "hotranks", small: 2, large: 6, length: 5,
			does:   runs(func(u *use) { u.starved, u.starvedUser = 0.15, 0.2 }),
			large2: runs(func(u *use) { u.starved, u.starvedUser = 0.17, 0.3 }, checkpoint(30*minute, minute, 1e9)),
		},
		{
			rule: "imbalance-grows", name: "refine", small: 2, large: 6, length: 6,
			does:   runs(even, drifts(0.55)),
			large2: runs(even, drifts(0.6), checkpoint(25*minute, minute, 2e9)),
			after:  func(life time.Duration) time.Duration { return life * 56 / 100 },
		},
		{
			rule: "slow-node", name: "turbine", small: 4, large: 8, length: 5,
			does: runs(even, throttled), large2: runs(even, throttled, checkpoint(30*minute, minute, 1e9)),
		},
		{
			rule: "stalled", name: "deadlock", small: 1, large: 4, length: 6,
			does: runs(even, deadlock(0.5)), large2: runs(even, checkpoint(30*minute, minute, 1e9), deadlock(0.5)),
			after: func(life time.Duration) time.Duration { return life * 2 / 3 },
		},
		{
			rule: "overload", name: "threads2", small: 1, large: 4, length: 5,
			does:   runs(func(u *use) { u.tasks, u.ipc = 2, 1.2 }),
			large2: runs(func(u *use) { u.tasks, u.ipc = 3, 0.9 }),
		},
	}
}

func problemsOfTheRest() []problem {
	const minute = 60.0
	return []problem{
		{
			rule: "memory-bound", name: "stencil", small: 1, large: 6, length: 5,
			does:   runs(func(u *use) { u.memBW, u.ipc = 360e9, 0.5 }),
			large2: runs(func(u *use) { u.memBW, u.ipc = 375e9, 0.4 }, checkpoint(30*minute, minute, 1e9)),
		},
		{
			rule: "low-vector", name: "scalar", small: 1, large: 5, length: 5,
			does:   runs(func(u *use) { u.flops, u.vector = 1.4e9, 0.08 }),
			large2: runs(func(u *use) { u.flops, u.vector = 1.1e9, 0.02 }, checkpoint(40*minute, 2*minute, 1e9)),
		},
		{
			rule: "low-use", name: "solver", small: 1, large: 4, length: 5,
			does: runs(func(u *use) { u.flops, u.memBW, u.ipc, u.memory = 0.04e9, 2e9, 3.1, 30 }),
		},
		{
			rule: "io-wait", name: "smallreads", small: 1, large: 4, length: 5,
			does:   runs(func(u *use) { u.user, u.iowait, u.disk, u.read = 0.62, 0.25, 4e6, 30e6 }),
			large2: runs(func(u *use) { u.user, u.iowait, u.disk, u.read = 0.5, 0.4, 6e6, 60e6 }),
		},
		{
			rule: "swapping", name: "toolarge", small: 1, large: 2, length: 5, asked: 220,
			does: runs(func(u *use) { u.memory = 190 }, swaps(10*minute, 4*minute, 4000)),
		},
		{
			rule: "memory-full", name: "assembly", small: 1, large: 3, length: 5, asked: 240,
			does: runs(func(u *use) { u.memory = 238 }),
		},
		{
			rule: "memory-over", name: "genome", small: 1, large: 3, length: 5, asked: 60, class: packed,
			does: runs(func(u *use) { u.memory, u.cache, u.memBW = 7, 1, 20e9 }),
		},
		{
			rule: "unused-gpu", name: "inference", small: 1, large: 2, length: 5, class: gpu,
			does: runs(func(u *use) {
				u.busy, u.flops, u.memBW, u.gpus = 0.1, 0.3e9, 25e9, [nodeGPUs]float64{0.9, 0.9, 0.85, 0}
			}),
			large2: runs(func(u *use) { u.busy, u.flops, u.memBW = 0.15, 0.8e9, 40e9 }),
		},
		{
			rule: "time-over", name: "guess", small: 1, large: 5, length: 3, limit: 16,
			does:  runs(func(*use) {}, stageIn(3*minute, 1e9), checkpoint(15*minute, minute, 1e9)),
			after: func(life time.Duration) time.Duration { return life },
		},
	}
}
