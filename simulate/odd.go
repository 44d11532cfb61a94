package simulate

// odd returns users with jobs that look wrong, and are not. The mix with problems leaves them out.
func odd() []habit {
	const minute = 60.0
	return []habit{
		{ // both threads of a core prepare, and one of them solves
			user: "rosa", account: "physics", queue: "threaded", name: "threads", weight: 3, nodes: [2]int{1, 2},
			class: smt, length: span(3, 8), limit: 1.5, asked: 200, does: &program{compute(), []effect{oneThread(0.3)}},
		},
		{ // all cores wait while it writes, and one of them ends the job
			user: "sven", account: "climate", queue: "normal", name: "coupled", weight: 2, nodes: [2]int{1, 4},
			length: span(3, 8), limit: 1.5, asked: 200,
			does: &program{compute(), []effect{writes(60*minute, 6*minute, 2e9), oneCore(0.03)}},
		},
		{ // its first node hands out the work, and ticks slowly meanwhile
			user: "tess", account: "materials", queue: "normal", name: "farm", weight: 1, nodes: [2]int{11, 12},
			length: span(3, 8), limit: 1.5, asked: 200, does: &program{compute(), []effect{headWaits, headTicks}},
		},
		{ // many tasks wait for files beside computing ones
			user: "uma", account: "astronomy", queue: "normal", name: "survey", weight: 2, nodes: [2]int{1, 3},
			length: span(3, 8), limit: 1.5, asked: 200, does: &program{
				with(func(u *use) { u.user, u.iowait, u.read, u.tasks = 0.84, 0.04, 300e6, 1.6 }), nil,
			},
		},
		{ // its kernels are short, so that at most times some GPU is idle
			user: "vito", account: "learning", queue: "gpu", name: "kernels", weight: 2, nodes: [2]int{2, 3},
			class: gpu, length: span(4, 8), limit: 1.5, asked: 200, does: &program{
				with(func(u *use) {
					u.busy, u.flops, u.memBW, u.gpus = 0.3, 0.3e9, 25e9, [nodeGPUs]float64{0.9, 0.9, 0.9, 0.9}
				}), []effect{shortKernels(0.45)},
			},
		},
	}
}

// oneThread leaves half of the CPUs idle once a part of the job's life is over.
func oneThread(part float64) effect {
	return func(u *use, m *moment) {
		if m.at > m.life*part {
			u.busy = 0.5
		}
	}
}

// oneCore leaves one CPU with work in the last part of the job's life.
func oneCore(part float64) effect {
	return func(u *use, m *moment) {
		if m.at > m.life*(1-part) {
			u.busy = 1.0 / bigCPUs
		}
	}
}

// writes lets all CPUs wait for files in the last seconds of each period.
func writes(period, last, rate float64) effect {
	return func(u *use, m *moment) {
		share := m.every(period, last)
		u.write += rate * share
		blend(&u.user, 0.01, share)
		blend(&u.flops, 0, share)
		blend(&u.memBW, u.memBW*0.05, share)
	}
}

// headTicks gives the job's first node the clock of an idle node.
func headTicks(u *use, m *moment) {
	if m.k == 0 {
		u.clock = 1e9
	}
}

// shortKernels takes the kernel from a part of the GPUs' samples.
func shortKernels(part float64) effect {
	return func(u *use, m *moment) {
		for i := range u.gpus {
			if unit(mix(m.seed^mix(uint64(m.at))^mix(uint64(m.k*nodeGPUs+i)<<32))) < part {
				u.gpus[i] = 0
			}
		}
	}
}
