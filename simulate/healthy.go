package simulate

import (
	"slices"
	"time"
)

// compute is the use that most programs make of a node: all CPUs work, and half of the memory's bandwidth is used.
func compute() use {
	return use{
		busy: 1, user: 0.96, system: 0.015, clock: fullClock, ipc: 1.8, flops: 5e9, vector: 0.7, memBW: 160e9,
		memory: 90, tasks: 1,
	}
}

// with returns an even use that differs from compute.
func with(change func(u *use)) use {
	u := compute()
	change(&u)
	return u
}

// span is a shortest and a longest time, in hours.
func span(from, to float64) [2]time.Duration { return [2]time.Duration{hours(from), hours(to)} }

// healthy returns users without problems. For each rule there is a user whose jobs it almost finds.
func healthy() []habit { return slices.Concat(healthyShared(), healthyLong(), healthyMixed()) }

// healthyLong are people with jobs of many nodes or hours.
func healthyLong() []habit {
	const minute, hour = 60.0, 3600.0
	return []habit{
		{ // nine tenths of the bound of memory-bound
			user: "anna", account: "physics", queue: "normal", name: "lattice", weight: 5, nodes: [2]int{4, 8},
			length: span(4, 12), limit: 1.2, asked: 200, does: &program{
				with(func(u *use) { u.memBW, u.vector, u.ipc = 285e9, 0.88, 1.3 }),
				[]effect{checkpoint(30*minute, 2*minute, 3e9), finalWrite(0.04, 2e9)},
			},
		},
		{ // it uses a quarter of its time limit, and cores rather than memory
			user: "boris", account: "chemistry", queue: "normal", name: "molecule", weight: 5, nodes: [2]int{1, 4},
			length: span(3, 9), limit: 4, asked: 240, does: &program{
				with(func(u *use) { u.flops, u.vector, u.ipc, u.memBW, u.memory = 11e9, 0.9, 2.6, 60e9, 35 }),
				[]effect{checkpoint(20*minute, minute, 0.4e9)},
			},
		},
		{ // its first node waits for the others, and reads and writes for them
			user: "chen", account: "climate", queue: "normal", name: "ocean", weight: 1, nodes: [2]int{11, 12},
			length: span(5, 12), limit: 1.1, asked: 160, does: &program{
				with(func(u *use) { u.memBW, u.ipc, u.memory = 210e9, 1.1, 110 }),
				[]effect{stageIn(2*minute, 1.5e9), headWaits, headWrites(15*minute, 2*minute, 4e9)},
			},
		},
		{ // uneven and even phases alternate
			user: "emil", account: "engineering", queue: "normal", name: "mesh", weight: 4, nodes: [2]int{2, 6},
			length: span(3, 8), limit: 1.5, asked: 120, does: &program{
				with(func(u *use) { u.user, u.system, u.iowait, u.flops, u.memory = 0.76, 0.12, 0.05, 2.5e9, 70 }),
				[]effect{alternate(14*minute, 0.4), checkpoint(hour, 3*minute, 1e9)},
			},
		},
	}
}

// healthyMixed are people with all kinds of jobs.
func healthyMixed() []habit {
	const minute, hour = 60.0, 3600.0
	return []habit{
		{ // too short for any rule to be evaluated
			user: "farah", account: "physics", queue: "test", name: "try", weight: 10, nodes: [2]int{1, 2},
			length: span(0.05, 0.16), limit: 20, asked: 240, fails: 0.4, does: &program{
				with(func(u *use) { u.busy, u.flops, u.vector, u.memBW, u.memory = 0.2, 0.6e9, 0.05, 8e9, 6 }), nil,
			},
		},
		{ // it copies: the kernel's work has a reason, and nothing vectorizes
			user: "gita", account: "astronomy", queue: "normal", name: "ingest", weight: 2, nodes: [2]int{1, 2},
			length: span(3, 6), limit: 2, asked: 100, does: &program{
				with(func(u *use) {
					u.user, u.system, u.iowait, u.flops, u.vector, u.memBW = 0.47, 0.42, 0.03, 0.1e9, 0.05, 40e9
					u.read, u.write, u.disk, u.memory = 300e6, 250e6, 60e6, 30
				}), nil,
			},
		},
		{ // few operations, but the memory is busy
			user: "hugo", account: "materials", queue: "normal", name: "stream", weight: 3, nodes: [2]int{1, 4},
			length: span(3, 8), limit: 1.4, asked: 220, does: &program{
				with(func(u *use) { u.flops, u.memBW, u.ipc, u.memory = 0.25e9, 240e9, 0.6, 150 }),
				[]effect{finalWrite(0.05, 1e9)},
			},
		},
		{ // nine tenths of the memory, with the pages of its files
			user: "jan", account: "geophysics", queue: "normal", name: "inverse", weight: 3, nodes: [2]int{1, 4},
			length: span(4, 10), limit: 1.3, asked: 240, does: &program{
				with(func(u *use) { u.memory, u.cache, u.read, u.vector = 205, 35, 120e6, 0.45 }),
				[]effect{stageIn(3*minute, 2e9), checkpoint(40*minute, 2*minute, 2e9)},
			},
		},
		{ // one rank writes, and at times the node swaps or is crowded
			user: "kim", account: "climate", queue: "normal", name: "ensemble", weight: 3, nodes: [2]int{1, 3},
			length: span(4.2, 8), limit: 1.6, asked: 140, does: &program{
				with(func(u *use) { u.writer, u.write, u.memory = 0.7, 20e6, 60 }),
				[]effect{swaps(4*hour, minute, 900), crowds(90*minute, 4*minute, 1)},
			},
		},
		{ // ended by its user, long before its limit
			user: "lea", account: "biology", queue: "normal", name: "search", weight: 2, nodes: [2]int{1, 2},
			length: span(1.2, 4), limit: 20, asked: 60, cancels: true, does: &program{
				with(func(u *use) { u.user, u.flops, u.vector, u.memory = 0.88, 3e9, 0.4, 25 }), nil,
			},
		},
		{ // well within an hour of two days
			user: "mira", account: "biology", queue: "normal", name: "fold", weight: 4, nodes: [2]int{1, 1},
			length: span(0.6, 0.95), limit: 48, asked: 60, does: &program{
				with(func(u *use) { u.user, u.flops, u.memory = 0.85, 4e9, 20 }), nil,
			},
		},
		{ // all GPUs work, though they wait for data at times; most cores have nothing to do
			user: "ines", account: "learning", queue: "gpu", name: "train", weight: 3, nodes: [2]int{1, 3}, class: gpu,
			length: span(4, 14), limit: 1.5, asked: 200, does: &program{
				with(func(u *use) {
					u.busy, u.flops, u.memBW, u.memory, u.read = 0.3, 0.3e9, 25e9, 90, 200e6
					u.gpus = [nodeGPUs]float64{0.93, 0.91, 0.9, 0.88}
				}),
				[]effect{loadsData(25*minute, 4*minute, 2e9)},
			},
		},
	}
}

// healthyShared are people who share nodes.
func healthyShared() []habit {
	const minute = 60.0
	return []habit{
		{ // one core, for which it asked
			user: "dana", account: "biology", queue: "shared", name: "align", weight: 5, nodes: [2]int{1, 1},
			class: packed, cpus: 1, length: span(1, 6), limit: 2, asked: 8, does: &program{
				with(func(u *use) { u.user, u.flops, u.vector, u.memBW, u.memory = 0.97, 1.2e9, 0.3, 3e9, 5 }), nil,
			},
		},
		{ // two fifths of the memory that it asked for
			user: "nils", account: "chemistry", queue: "shared", name: "dock", weight: 4, nodes: [2]int{1, 2},
			class: packed, length: span(2, 8), limit: 1.8, asked: 48, does: &program{
				with(func(u *use) { u.user, u.memBW, u.memory, u.cache = 0.93, 30e9, 17, 3.5 }),
				[]effect{checkpoint(30*minute, minute, 50e6)},
			},
		},
	}
}
