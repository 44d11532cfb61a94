package source

import (
	"math"

	"golang.org/x/sys/unix"
)

// what is the quantity that an event counts.
type what uint8

const (
	seconds what = iota // time for which the group was wanted in the interval
	cycles
	instructions
	branches
	branchMisses
	aperf // cycles at the actual clock, while not halted
	mperf // cycles at the nominal clock, while not halted
	tsc   // cycles at the nominal clock, always
	scalarDP
	scalarSP
	packed128DP
	packed128SP
	packed256DP
	packed256SP
	packed512DP
	packed512SP
	scalarFP // instructions of either precision
	vectorFP
	packed128
	packed256
	packed512
	flops        // operations of any precision
	flopsPerLane // operations for each 128 bits of a scalable vector
	flopsDP
	flopsDPPacked
	flopsSP
	flopsSPPacked
	operationsHP
	operationsSP
	operationsDP
	l2Misses
	l2PrefetchHitL3
	l2PrefetchMiss
	l3Hits
	l3Reads
	l3Misses
	loads
	stores
	loadStores // instructions that load and store
	dividing
	stalled
	stalledFrontend
	stalledMemory
	slots
	slotsFrontend
	slotsBackend
	slotsBad
	slotsRetired
	slotsMemory
	recovering
	slotsStalled
	opsIssued
	opsRetired
	unretired
	unretiredLoad
	slotsPerCycle // of the PMU's capabilities
	software0     // the software events, in their order
	software1
	software2
	software3
	software4
	whats
)

// counts are the counts of a group in an interval. NaN is a missing count, and makes every result computed from it
// missing.
type counts [whats]float64

// gives is a metric that a group gives.
type gives struct {
	metric string
	of     func(*counts) float64
}

// eventGroup is a set of events that are counted at the same time. Only events of one group form a ratio. A group
// contains at most as many events as the CPU has counters, because the kernel counts a group whole or not at all.
type eventGroup struct {
	events []event
	gives  []gives
	// parts are counted in turn if the CPU has too few counters for the whole group.
	parts []eventGroup
}

// architecture is the events of a family of CPUs.
type architecture struct {
	name   string
	groups []eventGroup // the most important first
	fabric []fabricEvent
}

func hardware(w what, name string, config uint64) event {
	return event{what: w, name: name, kind: unix.PERF_TYPE_HARDWARE, config: config}
}

// intel is an event of Intel's tables: event, umask, and the counter mask.
func intel(w what, name string, code, umask, cmask uint64) event {
	return event{what: w, name: name, kind: unix.PERF_TYPE_RAW, config: code | umask<<8 | cmask<<24}
}

// amd is an event of AMD's tables. The upper four bits of its code stand above bit 32.
func amd(w what, name string, code, umask uint64) event {
	return event{what: w, name: name, kind: unix.PERF_TYPE_RAW, config: code&0xff | umask<<8 | code>>8<<32}
}

func arm(w what, name string, code uint64) event {
	return event{what: w, name: name, kind: unix.PERF_TYPE_RAW, config: code}
}

func named(w what, pmu, name string) event { return event{what: w, name: name, pmu: pmu} }

// The kernel maps these to the right events of every CPU that it knows.
var (
	countCycles       = hardware(cycles, "cycles", unix.PERF_COUNT_HW_CPU_CYCLES)
	countInstructions = hardware(instructions, "instructions", unix.PERF_COUNT_HW_INSTRUCTIONS)
	countBranches     = hardware(branches, "branches", unix.PERF_COUNT_HW_BRANCH_INSTRUCTIONS)
	countBranchMisses = hardware(branchMisses, "branch-misses", unix.PERF_COUNT_HW_BRANCH_MISSES)
)

// per divides. There is no ratio to nothing.
func per(a, b float64) float64 {
	if !(b > 0) {
		return math.NaN()
	}
	return a / b
}

// share is a fraction of a whole. Its parts are read an instant apart, and may exceed it by a little.
func share(a, b float64) float64 { return min(max(per(a, b), 0), 1) }

func rate(w what) func(*counts) float64 {
	return func(c *counts) float64 { return per(c[w], c[seconds]) }
}

func ratioOf(a, b what) func(*counts) float64 {
	return func(c *counts) float64 { return per(c[a], c[b]) }
}

func shareOf(a, b what) func(*counts) float64 {
	return func(c *counts) float64 { return share(c[a], c[b]) }
}

func doubles(c *counts) float64 {
	return c[scalarDP] + 2*c[packed128DP] + 4*c[packed256DP] + 8*c[packed512DP]
}

func singles(c *counts) float64 {
	return c[scalarSP] + 4*c[packed128SP] + 8*c[packed256SP] + 16*c[packed512SP]
}

func (c *counts) packedFP() float64 {
	return c[packed128DP] + c[packed256DP] + c[packed512DP] + c[packed128SP] + c[packed256SP] + c[packed512SP]
}

var (
	givesCore = []gives{
		{"ipc", ratioOf(instructions, cycles)},
		{"cycles", rate(cycles)},
		{"instructions", rate(instructions)},
		{"branch_miss_ratio", shareOf(branchMisses, branches)},
	}
	givesStalls = []gives{
		{"divider_active", shareOf(dividing, cycles)},
		{"stall_cycles", shareOf(stalled, cycles)},
		{"stall_memory", shareOf(stalledMemory, cycles)},
	}
	givesDoubles = []gives{{"flops_dp", func(c *counts) float64 { return per(doubles(c), c[seconds]) }}}
	givesSingles = []gives{{"flops_sp", func(c *counts) float64 { return per(singles(c), c[seconds]) }}}
	givesFlops   = []gives{{"flops_any", rate(flops)}}
	givesCache   = []gives{
		{"l2_misses", rate(l2Misses)},
		{"l3_hits", rate(l3Hits)},
		{"l3_miss_rate", ratioOf(l3Misses, instructions)},
	}
	givesMemory = []gives{
		{"loads_per_store", ratioOf(loads, stores)},
		{"loads_per_l3_miss", ratioOf(loads, l3Misses)},
	}
)

// Floating-point instructions of Intel's CPUs since Skylake: the codes are the same in the tables of all of them.
var (
	intelDoubles = []event{
		intel(scalarDP, "FP_ARITH_INST_RETIRED.SCALAR_DOUBLE", 0xc7, 0x01, 0),
		intel(packed128DP, "FP_ARITH_INST_RETIRED.128B_PACKED_DOUBLE", 0xc7, 0x04, 0),
		intel(packed256DP, "FP_ARITH_INST_RETIRED.256B_PACKED_DOUBLE", 0xc7, 0x10, 0),
		intel(packed512DP, "FP_ARITH_INST_RETIRED.512B_PACKED_DOUBLE", 0xc7, 0x40, 0),
	}
	intelSingles = []event{
		intel(scalarSP, "FP_ARITH_INST_RETIRED.SCALAR_SINGLE", 0xc7, 0x02, 0),
		intel(packed128SP, "FP_ARITH_INST_RETIRED.128B_PACKED_SINGLE", 0xc7, 0x08, 0),
		intel(packed256SP, "FP_ARITH_INST_RETIRED.256B_PACKED_SINGLE", 0xc7, 0x20, 0),
		intel(packed512SP, "FP_ARITH_INST_RETIRED.512B_PACKED_SINGLE", 0xc7, 0x80, 0),
	}
	// intelFP takes eight counters. With hyper-threading, Skylake offers four per thread, and counts the parts.
	intelFP = eventGroup{
		events: append(append([]event(nil), intelDoubles...), intelSingles...),
		gives: []gives{
			givesDoubles[0], givesSingles[0],
			{"flops_any", func(c *counts) float64 { return per(doubles(c)+singles(c), c[seconds]) }},
			{"vectorization_ratio", func(c *counts) float64 {
				return share(c.packedFP(), c.packedFP()+c[scalarDP]+c[scalarSP])
			}},
			{"avx512_share", func(c *counts) float64 {
				return share(c[packed512DP]+c[packed512SP], c.packedFP()+c[scalarDP]+c[scalarSP])
			}},
			{"sp_share", func(c *counts) float64 { return share(singles(c), singles(c)+doubles(c)) }},
		},
		parts: []eventGroup{
			{events: intelDoubles, gives: givesDoubles},
			{events: intelSingles, gives: givesSingles},
			{
				events: []event{
					intel(scalarFP, "FP_ARITH_INST_RETIRED.SCALAR", 0xc7, 0x03, 0),
					intel(vectorFP, "FP_ARITH_INST_RETIRED.VECTOR", 0xc7, 0xfc, 0),
					intelDoubles[3], intelSingles[3],
				},
				gives: []gives{
					{"vectorization_ratio", func(c *counts) float64 {
						return share(c[vectorFP], c[vectorFP]+c[scalarFP])
					}},
					{"avx512_share", func(c *counts) float64 {
						return share(c[packed512DP]+c[packed512SP], c[vectorFP]+c[scalarFP])
					}},
				},
			},
		},
	}
	// intelMemory must not grow: its events count in the first four counters only.
	intelMemory = eventGroup{
		events: []event{
			intel(loads, "MEM_INST_RETIRED.ALL_LOADS", 0xd0, 0x81, 0),
			intel(stores, "MEM_INST_RETIRED.ALL_STORES", 0xd0, 0x82, 0),
			intel(l3Misses, "MEM_LOAD_RETIRED.L3_MISS", 0xd1, 0x20, 0),
		},
		gives: givesMemory,
	}
	intelTopdown = eventGroup{ // slots leads, or the kernel refuses the others
		events: []event{
			named(slots, "cpu", "slots"),
			named(slotsRetired, "cpu", "topdown-retiring"),
			named(slotsBad, "cpu", "topdown-bad-spec"),
			named(slotsFrontend, "cpu", "topdown-fe-bound"),
			named(slotsBackend, "cpu", "topdown-be-bound"),
		},
		gives: []gives{
			{"tma_retiring", shareOf(slotsRetired, slots)},
			{"tma_bad_speculation", shareOf(slotsBad, slots)},
			{"tma_frontend", shareOf(slotsFrontend, slots)},
			{"tma_backend", shareOf(slotsBackend, slots)},
		},
	}
	intelTopdownMemory = eventGroup{
		events: append(append([]event(nil), intelTopdown.events...), named(slotsMemory, "cpu", "topdown-mem-bound")),
		gives: append(append([]gives(nil), intelTopdown.gives...),
			gives{"tma_memory_bound", shareOf(slotsMemory, slots)}),
	}
)

func intelCache(l2 uint64) eventGroup {
	return eventGroup{
		events: []event{
			countInstructions,
			intel(l2Misses, "L2_LINES_IN.ALL", l2, 0x1f, 0),
			intel(l3Hits, "MEM_LOAD_RETIRED.L3_HIT", 0xd1, 0x04, 0),
			intel(l3Misses, "LONGEST_LAT_CACHE.MISS", 0x2e, 0x41, 0),
		},
		gives: givesCache,
	}
}

var coreGroup = eventGroup{
	events: []event{countCycles, countInstructions, countBranches, countBranchMisses},
	gives:  givesCore,
}

var skylakeStalls = eventGroup{
	events: []event{
		countCycles,
		intel(dividing, "ARITH.DIVIDER_ACTIVE", 0x14, 0x01, 1),
		intel(stalled, "CYCLE_ACTIVITY.STALLS_TOTAL", 0xa3, 0x04, 4),
		intel(stalledMemory, "CYCLE_ACTIVITY.STALLS_MEM_ANY", 0xa3, 0x14, 20),
	},
	gives: givesStalls,
}

// skylakeTopdown is counted in slots, four per cycle. If two threads share a core, only the sum of their slots means
// anything, because one thread may use more than its half. A CPU has eight counters exactly if it does not share its
// core; with fewer, only the stalls are counted.
var skylakeTopdown = eventGroup{
	events: append(append([]event(nil), skylakeStalls.events...),
		intel(slotsFrontend, "IDQ_UOPS_NOT_DELIVERED.CORE", 0x9c, 0x01, 0),
		intel(opsIssued, "UOPS_ISSUED.ANY", 0x0e, 0x01, 0),
		intel(slotsRetired, "UOPS_RETIRED.RETIRE_SLOTS", 0xc2, 0x02, 0),
		intel(recovering, "INT_MISC.RECOVERY_CYCLES", 0x0d, 0x01, 0),
	),
	gives: append(append([]gives(nil), givesStalls...),
		gives{"tma_retiring", func(c *counts) float64 { return share(c[slotsRetired], 4*c[cycles]) }},
		gives{"tma_frontend", func(c *counts) float64 { return share(c[slotsFrontend], 4*c[cycles]) }},
		gives{"tma_bad_speculation", func(c *counts) float64 {
			return share(c[opsIssued]-c[slotsRetired]+4*c[recovering], 4*c[cycles])
		}},
		gives{"tma_backend", func(c *counts) float64 {
			return share(4*c[cycles]-c[slotsFrontend]-c[opsIssued]-4*c[recovering], 4*c[cycles])
		}},
	),
	parts: []eventGroup{skylakeStalls},
}

// Skylake-SP and Cascade Lake. Codes: github.com/intel/perfmon, SKX/events/skylakex_core.json 1.37 and
// CLX/events/cascadelakex_core.json 1.25, which agree; formulas: SKX/metrics. Four counters a thread, or eight where
// the firmware switched hyper-threading off.
var skylakeSP = architecture{
	name: "Intel Skylake-SP or Cascade Lake",
	groups: []eventGroup{
		coreGroup, intelFP, intelCache(0xf1), intelMemory, skylakeTopdown,
	},
}

// Ice Lake-SP. Codes: github.com/intel/perfmon, ICX/events/icelakex_core.json 1.30. Eight counters.
var iceLakeSP = architecture{
	name: "Intel Ice Lake-SP",
	groups: []eventGroup{
		{
			events: append(append([]event(nil), coreGroup.events...),
				intel(dividing, "ARITH.DIVIDER_ACTIVE", 0x14, 0x09, 1),
				intel(stalled, "CYCLE_ACTIVITY.STALLS_TOTAL", 0xa3, 0x04, 4),
				intel(stalledMemory, "CYCLE_ACTIVITY.STALLS_MEM_ANY", 0xa3, 0x14, 20)),
			gives: append(append([]gives(nil), givesCore...), givesStalls...),
		},
		intelFP, intelTopdown, intelCache(0xf1), intelMemory,
	},
}

// Sapphire, Emerald and Granite Rapids. Codes: github.com/intel/perfmon, SPR/events/sapphirerapids_core.json 1.39,
// EMR/events/emeraldrapids_core.json 1.24 and GNR/events/graniterapids_core.json 1.20, which agree. Eight counters.
var sapphireRapids = architecture{
	name: "Intel Sapphire, Emerald or Granite Rapids",
	groups: []eventGroup{
		{
			events: append(append([]event(nil), coreGroup.events...),
				intel(dividing, "ARITH.DIV_ACTIVE", 0xb0, 0x09, 1),
				intel(stalled, "CYCLE_ACTIVITY.STALLS_TOTAL", 0xa3, 0x04, 4),
				intel(stalledMemory, "EXE_ACTIVITY.BOUND_ON_LOADS", 0xa6, 0x21, 5)),
			gives: append(append([]gives(nil), givesCore...), givesStalls...),
		},
		intelFP, intelTopdownMemory, intelCache(0x25), intelMemory,
	},
}

// Any other CPU of Intel. Events 0x2e/0x41 and those of the core group are architectural.
var otherIntel = architecture{
	name: "another CPU of Intel",
	groups: []eventGroup{coreGroup, {
		events: []event{countInstructions, intel(l3Misses, "LONGEST_LAT_CACHE.MISS", 0x2e, 0x41, 0)},
		gives:  givesCache[2:],
	}},
}

// AMD's events of loads and stores count dispatched operations, some of which never retire.
func amdMemory(fills uint64, more ...event) eventGroup {
	return eventGroup{
		events: append([]event{
			amd(loads, "ls_dispatch.ld_dispatch", 0x29, 0x01),
			amd(stores, "ls_dispatch.store_dispatch", 0x29, 0x02),
			amd(loadStores, "ls_dispatch.ld_st_dispatch", 0x29, 0x04),
			amd(l3Misses, "data_cache_fills_from_memory", fills, 0x48),
		}, more...),
		gives: []gives{
			givesCache[1],
			{"loads_per_store", func(c *counts) float64 {
				return per(c[loads]+c[loadStores], c[stores]+c[loadStores])
			}},
			{"loads_per_l3_miss", func(c *counts) float64 { return per(c[loads]+c[loadStores], c[l3Misses]) }},
		},
	}
}

// amdCache counts data that came from memory as misses of the L3 cache: the L3's own counters belong to no CPU.
func amdCache(fills uint64) eventGroup {
	return eventGroup{
		events: []event{
			countInstructions,
			amd(l2Misses, "l2_cache_req_stat.ic_dc_miss_in_l2", 0x64, 0x09),
			amd(l2PrefetchHitL3, "l2_pf_miss_l2_hit_l3", 0x71, 0xff),
			amd(l2PrefetchMiss, "l2_pf_miss_l2_l3", 0x72, 0xff),
			amd(l3Misses, "data_cache_fills_from_memory", fills, 0x48),
		},
		gives: []gives{
			{"l2_misses", func(c *counts) float64 {
				return per(c[l2Misses]+c[l2PrefetchHitL3]+c[l2PrefetchMiss], c[seconds])
			}},
			givesCache[2],
		},
	}
}

var amdL3Hits = amd(l3Hits, "ls_any_fills_from_sys.int_cache", 0x44, 0x02)

// Zen 2. Codes: Linux, tools/perf/pmu-events/arch/x86/amdzen2, and likwid, perfmon_zen2_events.txt. Six counters, of
// which floating-point operations take two. The events do not distinguish precision or width.
var zen2 = architecture{
	name: "AMD Zen 2",
	groups: []eventGroup{
		coreGroup,
		{events: []event{amd(flops, "fp_ret_sse_avx_ops.all", 0x03, 0x0f)}, gives: givesFlops},
		amdCache(0x43), amdMemory(0x43),
	},
	fabric: dramChannels,
}

// Zen 3. Codes: Linux, tools/perf/pmu-events/arch/x86/amdzen3, and likwid, perfmon_zen3_events.txt.
var zen3 = architecture{
	name: "AMD Zen 3",
	groups: []eventGroup{
		coreGroup,
		{events: []event{amd(flops, "fp_ret_sse_avx_ops.all", 0x03, 0x0f)}, gives: givesFlops},
		amdCache(0x44), amdMemory(0x44, amdL3Hits),
	},
	fabric: dramChannels,
}

// amdWidths counts micro-operations.
var amdWidths = eventGroup{
	events: []event{
		amd(scalarFP, "fp_ops_retired_by_width.scalar_uops_retired", 0x08, 0x04),
		amd(packed128, "fp_ops_retired_by_width.pack_128_uops_retired", 0x08, 0x08),
		amd(packed256, "fp_ops_retired_by_width.pack_256_uops_retired", 0x08, 0x10),
		amd(packed512, "fp_ops_retired_by_width.pack_512_uops_retired", 0x08, 0x20),
	},
	gives: []gives{
		{"vectorization_ratio", func(c *counts) float64 {
			vector := c[packed128] + c[packed256] + c[packed512]
			return share(vector, vector+c[scalarFP])
		}},
		{"avx512_share", func(c *counts) float64 {
			return share(c[packed512], c[packed128]+c[packed256]+c[packed512]+c[scalarFP])
		}},
	},
}

// amdTopdown is counted in slots. A cycle has as many slots as the core can dispatch operations.
func amdTopdown(perCycle float64) eventGroup {
	return eventGroup{
		events: []event{
			countCycles,
			amd(slotsFrontend, "de_no_dispatch_per_slot.no_ops_from_frontend", 0x1a0, 0x01),
			amd(slotsBackend, "de_no_dispatch_per_slot.backend_stalls", 0x1a0, 0x1e),
			amd(opsIssued, "de_src_op_disp.all", 0xaa, 0x07),
			amd(opsRetired, "ex_ret_ops", 0xc1, 0),
		},
		gives: []gives{
			{"tma_frontend", func(c *counts) float64 { return share(c[slotsFrontend], perCycle*c[cycles]) }},
			{"tma_backend", func(c *counts) float64 { return share(c[slotsBackend], perCycle*c[cycles]) }},
			{"tma_bad_speculation", func(c *counts) float64 {
				return share(c[opsIssued]-c[opsRetired], perCycle*c[cycles])
			}},
			{"tma_retiring", func(c *counts) float64 { return share(c[opsRetired], perCycle*c[cycles]) }},
		},
	}
}

// Zen 4. Codes: Linux, tools/perf/pmu-events/arch/x86/amdzen4, and likwid, perfmon_zen4_events.txt. It dispatches up to
// six operations a cycle.
var zen4 = architecture{
	name: "AMD Zen 4",
	groups: []eventGroup{
		coreGroup,
		{events: []event{amd(flops, "fp_ret_sse_avx_ops.all", 0x03, 0x1f)}, gives: givesFlops},
		amdWidths, amdTopdown(6),
		{
			events: []event{
				countCycles,
				amd(slotsBackend, "de_no_dispatch_per_slot.backend_stalls", 0x1a0, 0x1e),
				amd(unretired, "ex_no_retire.not_complete", 0xd6, 0x02),
				amd(unretiredLoad, "ex_no_retire.load_not_complete", 0xd6, 0xa2),
				amd(stalled, "ex_no_retire.all", 0xd6, 0x1b),
			},
			gives: []gives{
				{"tma_memory_bound", func(c *counts) float64 {
					return share(c[slotsBackend], 6*c[cycles]) * share(c[unretiredLoad], c[unretired])
				}},
				{"stall_cycles", shareOf(stalled, cycles)},
				{"stall_memory", shareOf(unretiredLoad, cycles)},
			},
		},
		amdCache(0x44), amdMemory(0x44, amdL3Hits),
	},
}

// Zen 5. Codes: Linux, tools/perf/pmu-events/arch/x86/amdzen5, and likwid, perfmon_zen5_events.txt; only the latter
// distinguishes the precisions. It dispatches up to eight operations a cycle.
var zen5 = architecture{
	name: "AMD Zen 5",
	groups: []eventGroup{
		coreGroup,
		{events: []event{amd(flops, "fp_ret_sse_avx_ops.all", 0x03, 0x0f)}, gives: givesFlops},
		{
			events: []event{
				amd(flopsDP, "retired_sse_avx_flops_all_dp_scalar", 0x03, 0x8f),
				amd(flopsDPPacked, "retired_sse_avx_flops_all_dp_packed", 0x03, 0xaf),
			},
			gives: []gives{{"flops_dp", func(c *counts) float64 {
				return per(c[flopsDP]+c[flopsDPPacked], c[seconds])
			}}},
		},
		{
			events: []event{
				amd(flopsSP, "retired_sse_avx_flops_all_sp_scalar", 0x03, 0x4f),
				amd(flopsSPPacked, "retired_sse_avx_flops_all_sp_packed", 0x03, 0x6f),
			},
			gives: []gives{{"flops_sp", func(c *counts) float64 {
				return per(c[flopsSP]+c[flopsSPPacked], c[seconds])
			}}},
		},
		amdWidths, amdTopdown(8), amdCache(0x44), amdMemory(0x44, amdL3Hits),
	},
}

// armCore lists events of the Arm architecture, which the Neoverse cores count. The events of the last-level cache
// count reads.
func armCore(memory ...event) []eventGroup {
	return []eventGroup{
		{
			events: []event{
				countCycles, countInstructions,
				arm(branches, "BR_RETIRED", 0x21), arm(branchMisses, "BR_MIS_PRED_RETIRED", 0x22),
				arm(stalledFrontend, "STALL_FRONTEND", 0x23), arm(stalled, "STALL_BACKEND", 0x24),
			},
			gives: append(append([]gives(nil), givesCore...), gives{"stall_cycles", func(c *counts) float64 {
				return share(c[stalledFrontend]+c[stalled], c[cycles])
			}}),
		},
		{
			events: append([]event{
				countCycles, countInstructions,
				arm(l2Misses, "L2D_CACHE_REFILL", 0x17),
				arm(l3Reads, "LL_CACHE_RD", 0x36), arm(l3Misses, "LL_CACHE_MISS_RD", 0x37),
			}, memory...),
			gives: []gives{
				givesCache[0], givesCache[2], givesStalls[2],
				{"l3_hits", func(c *counts) float64 { return per(max(c[l3Reads]-c[l3Misses], 0), c[seconds]) }},
			},
		},
		{
			events: []event{
				arm(loads, "LD_SPEC", 0x70), arm(stores, "ST_SPEC", 0x71), arm(l3Misses, "LL_CACHE_MISS_RD", 0x37),
			},
			gives: givesMemory,
		},
	}
}

// armTopdown is counted in slots. The kernel reports the number of slots per cycle.
var armTopdown = eventGroup{
	events: []event{
		countCycles,
		arm(slotsFrontend, "STALL_SLOT_FRONTEND", 0x3e), arm(slotsBackend, "STALL_SLOT_BACKEND", 0x3d),
		arm(slotsStalled, "STALL_SLOT", 0x3f), arm(opsRetired, "OP_RETIRED", 0x3a), arm(opsIssued, "OP_SPEC", 0x3b),
	},
	gives: []gives{
		{"tma_frontend", func(c *counts) float64 { return share(c[slotsFrontend], c[slotsPerCycle]*c[cycles]) }},
		{"tma_backend", func(c *counts) float64 { return share(c[slotsBackend], c[slotsPerCycle]*c[cycles]) }},
		{"tma_retiring", func(c *counts) float64 {
			return share(c[opsRetired], c[opsIssued]) * (1 - share(c[slotsStalled], c[slotsPerCycle]*c[cycles]))
		}},
		{"tma_bad_speculation", func(c *counts) float64 {
			return (1 - share(c[opsRetired], c[opsIssued])) * (1 - share(c[slotsStalled], c[slotsPerCycle]*c[cycles]))
		}},
	},
}

// armFP counts a scalable operation once for each 128 bits of the vector. lanes is the number of these in the core's
// vectors.
func armFP(lanes float64, more []event, and ...gives) eventGroup {
	return eventGroup{
		events: append([]event{
			arm(flops, "FP_FIXED_OPS_SPEC", 0x80c1), arm(flopsPerLane, "FP_SCALE_OPS_SPEC", 0x80c0),
		}, more...),
		gives: append([]gives{{"flops_any", func(c *counts) float64 {
			return per(c[flops]+lanes*c[flopsPerLane], c[seconds])
		}}}, and...),
	}
}

var armMemoryStall = arm(stalledMemory, "STALL_BACKEND_MEM", 0x4005)

// Neoverse N1, V1 and V2. Codes: github.com/ARM-software/data, pmu/neoverse-n1.json, -v1.json and -v2.json. Formulas:
// Linux, tools/perf/pmu-events/arch/arm64/arm/neoverse-n2-v2/metrics.json. Six counters and one of cycles. N1 counts no
// floating-point operations.
var (
	neoverseN1 = architecture{name: "Arm Neoverse N1", groups: armCore()}
	neoverseV1 = architecture{
		name:   "Arm Neoverse V1",
		groups: append(armCore(armMemoryStall), armFP(2, nil), armTopdown), // vectors of 256 bits
	}
	neoverseV2 = architecture{
		name: "Arm Neoverse V2",
		groups: append(armCore(armMemoryStall), armFP(1, []event{ // vectors of 128 bits
			arm(operationsHP, "FP_HP_SPEC", 0x8014), arm(operationsSP, "FP_SP_SPEC", 0x8018),
			arm(operationsDP, "FP_DP_SPEC", 0x801c),
		}, gives{"sp_share", func(c *counts) float64 {
			return share(c[operationsSP], c[operationsHP]+c[operationsSP]+c[operationsDP])
		}}), armTopdown),
	}
)

// A CPU without a table.
var otherCPU = architecture{name: "a CPU without a table", groups: []eventGroup{coreGroup}}
