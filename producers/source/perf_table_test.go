package source

import (
	"bufio"
	"bytes"
	"errors"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var architectures = map[string]architecture{
	"skylake-sp": skylakeSP, "cascade-lake": skylakeSP, "ice-lake-sp": iceLakeSP,
	"sapphire-rapids": sapphireRapids, "emerald-rapids": sapphireRapids,
	"granite-rapids": sapphireRapids, "zen5": zen5,
	"zen2": zen2, "zen3": zen3, "zen4": zen4,
	"neoverse-n1": neoverseN1, "neoverse-v1": neoverseV1, "neoverse-v2": neoverseV2,
	"other-intel": otherIntel, "other": otherCPU,
}

func allEvents(groups []eventGroup) (events []event) {
	for _, g := range groups {
		events = append(append(events, g.events...), allEvents(g.parts)...)
	}
	return events
}

// TestCodesAreTheVendors: the list beside this test was taken from the vendors' own tables by another program.
func TestCodesAreTheVendors(t *testing.T) {
	text, err := os.ReadFile("testdata/perf/events.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] != "#" {
			if listed[f[0]] == nil {
				listed[f[0]] = map[string]string{}
			}
			listed[f[0]][f[1]] = f[2]
		}
	}
	for name, arch := range architectures {
		if strings.HasPrefix(name, "other") {
			continue
		}
		ours := map[string]string{}
		for _, e := range allEvents(arch.groups) {
			if e.kind == unix.PERF_TYPE_RAW {
				ours[e.name] = "0x" + hex(e.config)
			}
		}
		if diff := cmp.Diff(listed[name], ours); diff != "" {
			t.Errorf("%s: the vendor's codes (-), the table's (+)\n%s", name, diff)
		}
	}
}

func hex(n uint64) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return digits[n : n+1]
	}
	return hex(n/16) + digits[n%16:n%16+1]
}

// TestGroupsFitTheCounters: a group of more events than the CPU has counters would never count. The NMI watchdog counts
// cycles, and has the counter that only cycles can have.
func TestGroupsFitTheCounters(t *testing.T) {
	counters := map[string]int{
		"skylake-sp": 4, "cascade-lake": 8, "ice-lake-sp": 8, "sapphire-rapids": 8, "zen2": 6, "zen3": 6, "zen4": 6,
		"zen5":        6,
		"neoverse-n1": 6, "neoverse-v1": 6, "neoverse-v2": 6,
	}
	for name, have := range counters {
		var check func(groups []eventGroup)
		check = func(groups []eventGroup) {
			for _, g := range groups {
				if len(g.parts) > 0 && have < 8 {
					check(g.parts)
					continue
				}
				need := 0
				if strings.HasPrefix(name, "zen") {
					need++ // the watchdog
				}
				for _, e := range g.events {
					fixed := e.name == "cycles" || e.name == "instructions" || e.name == "slots" ||
						strings.HasPrefix(e.name, "topdown-")
					if strings.HasPrefix(name, "zen") {
						fixed = false
					}
					if fixed && e.name == "cycles" {
						need++
					}
					if strings.HasPrefix(name, "neoverse") {
						fixed = e.name == "cycles"
					}
					if !fixed {
						need++
					}
					if e.name == "fp_ret_sse_avx_ops.all" || strings.HasPrefix(e.name, "retired_sse_avx_flops") {
						need++ // it increments by more than a counter can, and takes two
					}
				}
				if need > have {
					t.Errorf("%s: %s and its group need %d counters of %d", name, g.events[0].name, need, have)
				}
			}
		}
		check(architectures[name].groups)
	}
}

func TestArchitectureOfTheCPU(t *testing.T) {
	intel := func(model string) string {
		return "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: " + model +
			"\nmodel name\t: Xeon\nstepping\t: 7\n\n" +
			"processor\t: 1\nvendor_id\t: AnotherCPU\n"
	}
	amd := func(family, model string) string {
		return "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: " + family + "\nmodel\t\t: " + model +
			"\nmodel name\t: EPYC\n\n"
	}
	arm := func(part string) string {
		return "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU " +
			"architecture: 8\nCPU variant\t: 0x0\n" +
			"CPU part\t: " + part + "\nCPU revision\t: 0\n\n"
	}
	for text, want := range map[string]string{
		intel("85"):         "Intel Skylake-SP or Cascade Lake",
		intel("106"):        "Intel Ice Lake-SP",
		intel("108"):        "Intel Ice Lake-SP",
		intel("143"):        "Intel Sapphire, Emerald or Granite Rapids",
		intel("207"):        "Intel Sapphire, Emerald or Granite Rapids",
		intel("158"):        "another CPU of Intel",
		amd("23", "49"):     "AMD Zen 2", // EPYC 7002
		amd("25", "1"):      "AMD Zen 3", // EPYC 7003
		amd("25", "17"):     "AMD Zen 4", // EPYC 9004
		amd("25", "160"):    "AMD Zen 4", // EPYC 9004, Bergamo
		amd("23", "1"):      "a CPU without a table",
		amd("26", "2"):      "AMD Zen 5", // EPYC 9005
		amd("26", "80"):     "a CPU without a table",
		intel("173"):        "Intel Sapphire, Emerald or Granite Rapids",
		arm("0xd0c"):        "Arm Neoverse N1",
		arm("0xd40"):        "Arm Neoverse V1",
		arm("0xd4f"):        "Arm Neoverse V2",
		arm("0xd49"):        "a CPU without a table",
		"":                  "a CPU without a table",
		"model\t: 143\n":    "a CPU without a table",
		"nonsense\x00\xff:": "a CPU without a table",
	} {
		if got := architectureOf(parseCPUInfo([]byte(text))).name; got != want {
			t.Errorf("%.60q: %s, want %s", text, got, want)
		}
	}
}

// describedHere lets every event that a PMU describes by name exist.
func describedHere(groups []eventGroup) []eventGroup {
	groups = slices.Clone(groups)
	for i := range groups {
		groups[i].parts = describedHere(groups[i].parts)
		groups[i].events = slices.Clone(groups[i].events)
		for j := range groups[i].events {
			if e := &groups[i].events[j]; e.pmu != "" {
				e.kind = fakeFixed
			}
		}
	}
	return groups
}

// interval is what a table gives of recorded counts. Each group was wanted for two seconds, and counted in half of
// them.
func interval(t *testing.T, arch architecture, counters int, slots float64,
	recorded map[string]uint64,
) (map[string]float64, map[string]error) {
	t.Helper()
	k := newFakeKernel(1)
	k.counters = counters
	metrics := coreMetrics()
	f, absent := newPerfForm(k.calls(), metrics, describedHere(arch.groups), 0, slots)
	var from, to []uint64
	used := map[string]bool{}
	for i, g := range f.groups {
		base := uint64(1000 * (i + 1))
		from = append(from, base, base)
		to = append(to, base+2e9, base+1e9)
		for _, e := range g.events {
			n, ok := recorded[e.name]
			if !ok {
				t.Errorf("nothing is recorded of %s", e.name)
			}
			used[e.name] = true
			from, to = append(from, base), append(to, base+n/2) // half of it, in half of the time
		}
	}
	for name := range recorded {
		if !used[name] {
			t.Errorf("%s is recorded, and not counted", name)
		}
	}
	out := make([]float64, len(metrics))
	for i := range out {
		out[i] = math.NaN()
	}
	f.form(from, to, time.Hour, out)
	values := map[string]float64{}
	for i, m := range metrics {
		if !math.IsNaN(out[i]) {
			values[m.name] = out[i]
		}
		if math.IsNaN(out[i]) != (absent[m.name] != nil) {
			t.Errorf("%s = %g, and absent says %v", m.name, out[i], absent[m.name])
		}
	}
	return values, absent
}

// TestFormulas compares the metrics of each table with what is worked out by hand, from counts of two seconds.
func TestFormulas(t *testing.T) {
	core := map[string]uint64{ // of two seconds
		"cycles": 5_000_000_000, "instructions": 10_000_000_000, "branches": 1_000_000_000, "branch-misses": 20_000_000,
	}
	coreGives := map[string]float64{
		"cycles":            2.5e9, // 5e9 / 2 s
		"instructions":      5e9,   // 10e9 / 2 s
		"ipc":               2,     // 10e9 / 5e9
		"branch_miss_ratio": 0.02,  // 20e6 / 1000e6
	}
	intelFlops := map[string]uint64{
		"FP_ARITH_INST_RETIRED.SCALAR_DOUBLE": 100, "FP_ARITH_INST_RETIRED.128B_PACKED_DOUBLE": 20,
		"FP_ARITH_INST_RETIRED.256B_PACKED_DOUBLE": 30, "FP_ARITH_INST_RETIRED.512B_PACKED_DOUBLE": 40,
		"FP_ARITH_INST_RETIRED.SCALAR_SINGLE": 200, "FP_ARITH_INST_RETIRED.128B_PACKED_SINGLE": 50,
		"FP_ARITH_INST_RETIRED.256B_PACKED_SINGLE": 60, "FP_ARITH_INST_RETIRED.512B_PACKED_SINGLE": 10,
	}
	intelFlopsGive := map[string]float64{
		"flops_dp": 290, // (100 + 2*20 + 4*30 + 8*40) / 2 = (100+40+120+320) / 2 = 580 / 2
		"flops_sp": 520, // (200 + 4*50 + 8*60 + 16*10) / 2 = (200+200+480+160) / 2 = 1040 / 2
		// 290 + 520. ClusterCockpit's 2*dp + sp would be 1100: it weighs a double as two.
		"flops_any":           810,
		"vectorization_ratio": 210. / 510,   // (20+30+40+50+60+10) / (210 + 100 + 200)
		"avx512_share":        50. / 510,    // (40+10) / 510
		"sp_share":            1040. / 1620, // 1040 / (1040+580)
	}
	intelCaches := map[string]uint64{
		"L2_LINES_IN.ALL": 4_000_000, "MEM_LOAD_RETIRED.L3_HIT": 3_000_000, "LONGEST_LAT_CACHE.MISS": 50_000_000,
		"MEM_INST_RETIRED.ALL_LOADS": 3_000, "MEM_INST_RETIRED.ALL_STORES": 1_500, "MEM_LOAD_RETIRED.L3_MISS": 60,
	}
	intelCachesGive := map[string]float64{
		"l2_misses":         2e6,   // 4e6 / 2 s
		"l3_hits":           1.5e6, // 3e6 / 2 s
		"l3_miss_rate":      0.005, // 50e6 / 10e9
		"loads_per_store":   2,     // 3000 / 1500
		"loads_per_l3_miss": 50,    // 3000 / 60
	}
	topdown := map[string]uint64{
		"slots": 1000, "topdown-retiring": 400, "topdown-bad-spec": 50, "topdown-fe-bound": 150,
		"topdown-be-bound": 400,
	}
	topdownGives := map[string]float64{
		"tma_retiring": 0.4, "tma_bad_speculation": 0.05, "tma_frontend": 0.15, "tma_backend": 0.4,
	}
	stallsGive := map[string]float64{
		"divider_active": 0.05, // 250e6 / 5e9
		"stall_cycles":   0.4,  // 2e9 / 5e9
		"stall_memory":   0.3,  // 1.5e9 / 5e9
	}
	amdCaches := map[string]uint64{
		"l2_cache_req_stat.ic_dc_miss_in_l2": 1_000_000, "l2_pf_miss_l2_hit_l3": 2_000_000,
		"l2_pf_miss_l2_l3":             3_000_000,
		"data_cache_fills_from_memory": 1_000_000, "ls_dispatch.ld_dispatch": 2_500_000,
		"ls_dispatch.store_dispatch": 500_000,
		"ls_dispatch.ld_st_dispatch": 500_000, "fp_ret_sse_avx_ops.all": 8_000_000_000,
	}
	amdCachesGive := map[string]float64{
		"l2_misses":         3e6,    // (1e6 + 2e6 + 3e6) / 2 s
		"l3_miss_rate":      0.0001, // 1e6 / 10e9
		"loads_per_store":   3,      // (2.5e6 + 0.5e6) / (0.5e6 + 0.5e6)
		"loads_per_l3_miss": 3,      // (2.5e6 + 0.5e6) / 1e6
		"flops_any":         4e9,    // 8e9 / 2 s
	}
	amdL3 := map[string]uint64{"ls_any_fills_from_sys.int_cache": 5_000_000}
	amdL3Gives := map[string]float64{"l3_hits": 2.5e6} // 5e6 / 2 s
	armCoreCounts := map[string]uint64{
		"cycles": 5_000_000_000, "instructions": 10_000_000_000, "BR_RETIRED": 1_000_000_000,
		"BR_MIS_PRED_RETIRED": 20_000_000,
		"STALL_FRONTEND":      500_000_000, "STALL_BACKEND": 1_500_000_000,
		"L2D_CACHE_REFILL": 4_000_000, "LL_CACHE_RD": 53_000_000, "LL_CACHE_MISS_RD": 50_000_000,
		"LD_SPEC": 200_000_000, "ST_SPEC": 100_000_000,
	}
	armCoreGives := map[string]float64{
		"stall_cycles":      0.4,   // (0.5e9 + 1.5e9) / 5e9
		"l2_misses":         2e6,   // 4e6 / 2 s
		"l3_hits":           1.5e6, // (53e6 - 50e6) / 2 s
		"l3_miss_rate":      0.005, // 50e6 / 10e9
		"loads_per_store":   2,     // 200e6 / 100e6
		"loads_per_l3_miss": 4,     // 200e6 / 50e6
	}
	armVector := map[string]uint64{
		"STALL_BACKEND_MEM": 1_000_000_000, "FP_FIXED_OPS_SPEC": 1_000_000, "FP_SCALE_OPS_SPEC": 3_000_000,
		"STALL_SLOT_FRONTEND": 4_000_000_000, "STALL_SLOT_BACKEND": 12_000_000_000, "STALL_SLOT": 16_000_000_000,
		"OP_RETIRED": 18_000_000_000, "OP_SPEC": 20_000_000_000,
	}
	armVectorGives := map[string]float64{ // 8 slots * 5e9 cycles = 40e9 slots
		"stall_memory":        0.2,       // 1e9 / 5e9
		"tma_frontend":        0.1,       // 4e9 / 40e9
		"tma_backend":         0.3,       // 12e9 / 40e9
		"tma_retiring":        0.9 * 0.6, // 18e9/20e9 * (1 - 16e9/40e9)
		"tma_bad_speculation": 0.1 * 0.6, // (1 - 18e9/20e9) * (1 - 16e9/40e9)
	}
	cases := map[string]struct {
		arch     architecture
		counters int // without cycles and instructions
		slots    float64
		recorded []map[string]uint64
		want     []map[string]float64
	}{
		"Skylake-SP with hyper-threading": {
			skylakeSP, 4, 0,
			[]map[string]uint64{core, intelFlops, intelCaches, {
				"FP_ARITH_INST_RETIRED.SCALAR": 300, "FP_ARITH_INST_RETIRED.VECTOR": 210,
				"ARITH.DIVIDER_ACTIVE": 250_000_000, "CYCLE_ACTIVITY.STALLS_TOTAL": 2_000_000_000,
				"CYCLE_ACTIVITY.STALLS_MEM_ANY": 1_500_000_000,
			}},
			[]map[string]float64{coreGives, intelCachesGive, stallsGive, {
				"flops_dp": 290, "flops_sp": 520, "flops_any": 810,
				"vectorization_ratio": 210. / 510, // the parts count it by the sums 210 and 300
				"avx512_share":        50. / 510,
			}},
		},
		"Skylake-SP without hyper-threading": {
			skylakeSP, 8, 0,
			[]map[string]uint64{core, intelFlops, intelCaches, {
				"ARITH.DIVIDER_ACTIVE": 250_000_000, "CYCLE_ACTIVITY.STALLS_TOTAL": 2_000_000_000,
				"CYCLE_ACTIVITY.STALLS_MEM_ANY": 1_500_000_000,
				"IDQ_UOPS_NOT_DELIVERED.CORE":   3_000_000_000, "UOPS_ISSUED.ANY": 10_000_000_000,
				"UOPS_RETIRED.RETIRE_SLOTS": 8_000_000_000, "INT_MISC.RECOVERY_CYCLES": 250_000_000,
			}},
			[]map[string]float64{coreGives, intelFlopsGive, intelCachesGive, stallsGive, {
				"tma_retiring":        0.4,  // 8e9 of 4 * 5e9 slots
				"tma_frontend":        0.15, // 3e9 / 20e9
				"tma_bad_speculation": 0.15, // (10e9 - 8e9 + 4 * 0.25e9) / 20e9
				"tma_backend":         0.3,  // (20e9 - 3e9 - 10e9 - 4 * 0.25e9) / 20e9
			}},
		},
		"Ice Lake-SP": {
			iceLakeSP, 8, 0,
			[]map[string]uint64{core, intelFlops, intelCaches, topdown, {
				"ARITH.DIVIDER_ACTIVE": 250_000_000, "CYCLE_ACTIVITY.STALLS_TOTAL": 2_000_000_000,
				"CYCLE_ACTIVITY.STALLS_MEM_ANY": 1_500_000_000,
			}},
			[]map[string]float64{coreGives, intelFlopsGive, intelCachesGive, stallsGive, topdownGives},
		},
		"Sapphire Rapids": {
			sapphireRapids, 8, 0,
			[]map[string]uint64{core, intelFlops, intelCaches, topdown, {
				"ARITH.DIV_ACTIVE": 250_000_000, "CYCLE_ACTIVITY.STALLS_TOTAL": 2_000_000_000,
				"EXE_ACTIVITY.BOUND_ON_LOADS": 1_500_000_000, "topdown-mem-bound": 300,
			}},
			[]map[string]float64{coreGives, intelFlopsGive, intelCachesGive, stallsGive, topdownGives, {
				"tma_memory_bound": 0.3, // 300 / 1000
			}},
		},
		"another Intel": {
			otherIntel, 4, 0,
			[]map[string]uint64{core, {"LONGEST_LAT_CACHE.MISS": 50_000_000}},
			[]map[string]float64{coreGives, {"l3_miss_rate": 0.005}}, // 50e6 / 10e9
		},
		"Zen 2": {
			zen2, 6, 0,
			[]map[string]uint64{core, amdCaches},
			[]map[string]float64{coreGives, amdCachesGive},
		},
		"Zen 3": {
			zen3, 6, 0,
			[]map[string]uint64{core, amdCaches, amdL3},
			[]map[string]float64{coreGives, amdCachesGive, amdL3Gives},
		},
		"Zen 4": {
			zen4, 6, 0,
			[]map[string]uint64{core, amdCaches, amdL3, {
				"fp_ops_retired_by_width.scalar_uops_retired":   100,
				"fp_ops_retired_by_width.pack_128_uops_retired": 100,
				"fp_ops_retired_by_width.pack_256_uops_retired": 200,
				"fp_ops_retired_by_width.pack_512_uops_retired": 600,
				"de_no_dispatch_per_slot.no_ops_from_frontend":  3_000_000_000,
				"de_no_dispatch_per_slot.backend_stalls":        12_000_000_000,
				"de_src_op_disp.all":                            15_000_000_000, "ex_ret_ops": 12_000_000_000,
				"ex_no_retire.not_complete": 2_000_000_000, "ex_no_retire.load_not_complete": 1_500_000_000,
				"ex_no_retire.all": 2_000_000_000,
			}},
			// 6 slots * 5e9 cycles = 30e9 slots
			[]map[string]float64{coreGives, amdCachesGive, amdL3Gives, {
				"vectorization_ratio": 0.9, // (100 + 200 + 600) / 1000
				"avx512_share":        0.6, // 600 / 1000
				"tma_frontend":        0.1, // 3e9 / 30e9
				"tma_backend":         0.4, // 12e9 / 30e9
				"tma_bad_speculation": 0.1, // (15e9 - 12e9) / 30e9
				"tma_retiring":        0.4, // 12e9 / 30e9
				"tma_memory_bound":    0.3, // 0.4 * 1.5e9 / 2e9
				"stall_memory":        0.3, // 1.5e9 / 5e9
				"stall_cycles":        0.4, // 2e9 / 5e9
			}},
		},
		"Zen 5": {
			zen5, 6, 0,
			[]map[string]uint64{core, amdCaches, amdL3, {
				"retired_sse_avx_flops_all_dp_scalar":           1_000_000_000,
				"retired_sse_avx_flops_all_dp_packed":           4_000_000_000,
				"retired_sse_avx_flops_all_sp_scalar":           500_000_000,
				"retired_sse_avx_flops_all_sp_packed":           2_500_000_000,
				"fp_ops_retired_by_width.scalar_uops_retired":   100,
				"fp_ops_retired_by_width.pack_128_uops_retired": 100,
				"fp_ops_retired_by_width.pack_256_uops_retired": 200,
				"fp_ops_retired_by_width.pack_512_uops_retired": 600,
				"de_no_dispatch_per_slot.no_ops_from_frontend":  4_000_000_000,
				"de_no_dispatch_per_slot.backend_stalls":        16_000_000_000,
				"de_src_op_disp.all":                            20_000_000_000, "ex_ret_ops": 16_000_000_000,
			}},
			// 8 slots * 5e9 cycles = 40e9 slots
			[]map[string]float64{coreGives, amdCachesGive, amdL3Gives, {
				"flops_dp":            2.5e9, // (1e9 + 4e9) / 2 s
				"flops_sp":            1.5e9, // (0.5e9 + 2.5e9) / 2 s; both are 4e9, as one event has counted
				"vectorization_ratio": 0.9,   // (100 + 200 + 600) / 1000
				"avx512_share":        0.6,   // 600 / 1000
				"tma_frontend":        0.1,   // 4e9 / 40e9
				"tma_backend":         0.4,   // 16e9 / 40e9
				"tma_bad_speculation": 0.1,   // (20e9 - 16e9) / 40e9
				"tma_retiring":        0.4,   // 16e9 / 40e9
			}},
		},
		"Neoverse N1": {
			neoverseN1, 6, 0, []map[string]uint64{armCoreCounts}, []map[string]float64{coreGives, armCoreGives},
		},
		"Neoverse V1": {
			neoverseV1, 6, 8,
			[]map[string]uint64{armCoreCounts, armVector},
			[]map[string]float64{coreGives, armCoreGives, armVectorGives, {
				"flops_any": 3.5e6, // (1e6 + 3e6 * 256/128) / 2 s
			}},
		},
		"Neoverse V2": {
			neoverseV2, 6, 8,
			[]map[string]uint64{armCoreCounts, armVector, {
				"FP_HP_SPEC": 100, "FP_SP_SPEC": 300, "FP_DP_SPEC": 600,
			}},
			[]map[string]float64{coreGives, armCoreGives, armVectorGives, {
				"flops_any": 2e6, // (1e6 + 3e6 * 128/128) / 2 s
				"sp_share":  0.3, // 300 / (100 + 300 + 600)
			}},
		},
		"any other": {
			otherCPU, 0, 0, []map[string]uint64{core}, []map[string]float64{coreGives},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			recorded, want := map[string]uint64{}, map[string]float64{}
			for _, r := range c.recorded {
				maps.Copy(recorded, r)
			}
			for _, w := range c.want {
				maps.Copy(want, w)
			}
			got, _ := interval(t, c.arch, c.counters, c.slots, recorded)
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) })
			if diff := cmp.Diff(want, got, near); diff != "" {
				t.Errorf("by hand (-), by the table (+)\n%s", diff)
			}
		})
	}
}

// TestMissingEvents: the kernel lacks an event, or a group never had its turn. What needs it is missing and never 0.
func TestMissingEvents(t *testing.T) {
	k := newFakeKernel(1)
	k.lacks = map[uint64]error{0x40c7: unix.ENOENT} // the 512-bit doubles
	metrics := coreMetrics()
	f, absent := newPerfForm(k.calls(), metrics, []eventGroup{coreGroup, intelFP}, 0, 0)
	for _, name := range []string{"flops_dp", "flops_any", "vectorization_ratio", "avx512_share", "sp_share"} {
		if !errors.Is(absent[name], unix.ENOENT) || !strings.Contains(absent[name].Error(), "512B_PACKED_DOUBLE") {
			t.Errorf("%s is absent: %v", name, absent[name])
		}
	}
	if absent["flops_sp"] != nil || absent["ipc"] != nil || !errors.Is(absent["l2_misses"], errNoEvents) {
		t.Errorf("flops_sp: %v, ipc: %v, l2_misses: %v", absent["flops_sp"], absent["ipc"], absent["l2_misses"])
	}
	// The second group was wanted for a second, and never counted.
	from := []uint64{1, 1, 0, 0, 0, 0 /**/, 1, 1, 0, 0, 0, 0, 0, 0, 0}
	to := []uint64{1e9 + 1, 1e9 + 1, 10, 20, 4, 1 /**/, 1e9 + 1, 1, 0, 0, 0, 0, 0, 0, 0}
	out := make([]float64, len(metrics))
	for i := range out {
		out[i] = math.NaN()
	}
	f.form(from, to, time.Second, out)
	for i, m := range metrics {
		has := slices.Contains([]string{"ipc", "cycles", "instructions", "branch_miss_ratio"}, m.name)
		if has == math.IsNaN(out[i]) {
			t.Errorf("%s = %g", m.name, out[i])
		}
	}
}
