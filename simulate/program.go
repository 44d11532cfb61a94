package simulate

import "math"

// use is the load that a job puts on a node in an interval. Shares are fractions of the time of a working CPU. Rates
// are per working CPU, unless the comment names the node.
type use struct {
	busy                 float64 // share of the CPUs that work
	user, system, iowait float64
	starved, starvedUser float64 // share of the working CPUs that wait for the others, and their user time
	uneven               float64 // difference in user time between the first CPU and the last
	writer               float64 // time for which the job's first CPU waits for a file
	clock, ipc           float64 // Hz, instructions a cycle
	flops, vector        float64 // FLOP/s, and the vectorized share of its instructions
	memBW                float64 // B/s of the node
	disk, read, write    float64 // B/s of the node: local disk and Lustre
	swap                 float64 // pages/s of the node
	memory, cache        float64 // GiB of the job on the node: memory held, and pages of its files
	tasks                float64 // tasks that want to run, for each CPU with work
	gpus                 [nodeGPUs]float64
}

// moment is an interval of a job on one of its nodes.
type moment struct {
	k, nodes   int     // the k-th of the job's nodes
	at, length float64 // seconds from the job's start to the interval, and of the interval
	life       float64 // seconds of the whole job
	seed       uint64  // of the job
}

// effect changes the load of a job at a moment.
type effect func(u *use, m *moment)

// program is the behaviour of a job: an even use of its nodes, and effects on top.
type program struct {
	use
	effects []effect
}

// at returns the program's load on a node. Jobs with the same program differ a little, and so do the quarters of an
// hour.
func (p *program) at(m *moment) use {
	u := p.use
	pace := 0.06*m.wave(2, 900) + 0.04*m.wave(9, 6000)
	u.flops *= 1 + 0.25*signed(m.seed, 1) + pace
	u.memBW *= 1 + 0.03*signed(m.seed, 3) + 0.03*m.wave(4, 900)
	u.ipc *= 1 + 0.2*signed(m.seed, 5) + pace
	u.vector = min(0.95, u.vector*(1+0.1*signed(m.seed, 11)))
	u.memory *= (1 + 0.04*signed(m.seed, 6)) * (0.7 + 0.3*min(1, (m.at+m.length)/900)) // it fills
	u.cache *= min(1, (m.at+m.length)/1800)
	u.user *= 1 - 0.03*unit(mix(m.seed^12)) - 0.01*(1+m.wave(7, 600))
	u.user = min(u.user, 1-u.system-u.iowait)
	for _, e := range p.effects {
		e(&u, m)
	}
	return u
}

// during returns the share of the interval between two times of the job's life, in seconds.
func (m *moment) during(from, to float64) float64 {
	return max(0, min(m.at+m.length, to)-max(m.at, from)) / m.length
}

// every returns the share of the interval in the last seconds of each period.
func (m *moment) every(period, last float64) float64 {
	passed := func(t float64) float64 {
		return math.Floor(t/period)*last + max(0, math.Mod(t, period)-(period-last))
	}
	return (passed(m.at+m.length) - passed(m.at)) / m.length
}

// wave returns a smooth curve between -1 and 1, which takes a new direction in each span of seconds. The number selects
// one of a job's waves.
func (m *moment) wave(number uint64, span float64) float64 {
	x := (m.at + m.length/2) / span
	i := math.Floor(x)
	from, to := signed(m.seed+uint64(i), number), signed(m.seed+uint64(i)+1, number)
	return from + (to-from)*(x-i)
}

// signed returns a draw in [-1, 1).
func signed(seed, number uint64) float64 { return 2*unit(mix(seed^mix(number))) - 1 }

// blend moves x towards y: all the way if share is 1.
func blend(x *float64, y, share float64) { *x += (y - *x) * share }

// checkpoint writes the job's state: B/s of each node in the last seconds of each period.
func checkpoint(period, last, rate float64) effect {
	return func(u *use, m *moment) {
		share := m.every(period, last)
		u.write += rate * share * (1 + 0.3*m.wave(10, period))
		blend(&u.user, u.user-0.10, share)
		blend(&u.system, u.system+0.05, share)
		blend(&u.iowait, u.iowait+0.04, share)
		blend(&u.memBW, u.memBW*0.5, share)
		blend(&u.flops, u.flops*0.3, share)
	}
}

// stageIn reads the job's data first. Most CPUs wait meanwhile.
func stageIn(seconds, rate float64) effect {
	return func(u *use, m *moment) {
		share := m.during(0, seconds)
		u.read += rate * share
		blend(&u.user, 0.03, share)
		blend(&u.iowait, 0.05, share)
		blend(&u.flops, 0, share)
		blend(&u.memBW, u.memBW*0.1, share)
	}
}

// finalWrite writes the result in the last part of the job's life, and computes nothing.
func finalWrite(part, rate float64) effect {
	return func(u *use, m *moment) {
		share := m.during(m.life*(1-part), m.life)
		u.write += rate * share
		blend(&u.user, 0.03, share)
		blend(&u.flops, 0, share)
	}
}

// alternate makes the CPUs uneven in the second half of each period.
func alternate(period, uneven float64) effect {
	return func(u *use, m *moment) { u.uneven += uneven * m.every(period, period/2) }
}

// headWaits leaves the job's first node to the process that waits for the others.
func headWaits(u *use, m *moment) {
	if m.k == 0 {
		u.user, u.system, u.flops, u.memBW, u.tasks = 0.02, 0.008, u.flops*0.02, u.memBW*0.05, 0.05
	}
}

// headWrites lets the first node write at times, with a low clock.
func headWrites(period, last, rate float64) effect {
	return func(u *use, m *moment) {
		if m.k != 0 {
			return
		}
		share := m.every(period, last)
		u.write += rate * share
		blend(&u.clock, u.clock*0.7, share)
		blend(&u.flops, u.flops*0.7, share)
	}
}

// loadsData keeps the GPUs waiting in the last seconds of each period.
func loadsData(period, last, rate float64) effect {
	return func(u *use, m *moment) {
		share := m.every(period, last)
		u.read += rate * share
		for i := range u.gpus {
			blend(&u.gpus[i], 0, share)
		}
	}
}

// swaps moves pages in the last seconds of each period.
func swaps(period, last, pages float64) effect {
	return func(u *use, m *moment) { u.swap += pages * m.every(period, last) }
}

// crowds starts more tasks than there are CPUs, in the last seconds of each period.
func crowds(period, last, tasks float64) effect {
	return func(u *use, m *moment) { u.tasks += tasks * m.every(period, last) }
}

// dark leaves the job's last nodes without work.
func dark(nodes int) effect {
	return func(u *use, m *moment) {
		if m.k >= m.nodes-nodes {
			*u = use{clock: u.clock, ipc: 0.5, memory: 1, tasks: 0}
		}
	}
}

// throttled gives the job's second node a lower clock.
func throttled(u *use, m *moment) {
	if m.k == 1 {
		u.clock, u.flops = u.clock*0.72, u.flops*0.72
	}
}

// drifts makes the CPUs more uneven all the time.
func drifts(uneven float64) effect {
	return func(u *use, m *moment) { u.uneven += uneven * (m.at + m.length/2) / m.life }
}

// deadlock stops all work after a part of the job's life.
func deadlock(part float64) effect {
	return func(u *use, m *moment) {
		share := m.during(m.life*part, m.life)
		blend(&u.user, 0.002, share)
		blend(&u.system, 0.004, share)
		blend(&u.iowait, 0, share)
		blend(&u.write, 0, share)
		blend(&u.flops, 0, share)
		blend(&u.memBW, 0.2e9, share)
		blend(&u.tasks, 0.01, share)
	}
}
