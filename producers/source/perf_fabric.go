package source

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// flow is the direction of memory's bytes.
type flow uint8

const (
	reads flow = iota
	writes
	both // a PMU that counts reads and writes together
)

// fabricEvent is an event of a memory controller. Each count is so many bytes.
type fabricEvent struct {
	flow  flow
	pmu   string // the PMU's name without its number
	name  string // below events of the PMU
	terms string // used if the PMU does not describe it
	bytes float64
}

// memoryEvents are the events of memory controllers that the kernel describes, and the events of AMD's controllers.
var memoryEvents = []fabricEvent{
	// Intel since Skylake-SP; the PMU's own scale gives the bytes of a count. Granite Rapids counts each of two
	// schedulers.
	{reads, "uncore_imc", "cas_count_read", "", 64},
	{writes, "uncore_imc", "cas_count_write", "", 64},
	{reads, "uncore_imc", "cas_count_read_sch0", "", 64},
	{reads, "uncore_imc", "cas_count_read_sch1", "", 64},
	{writes, "uncore_imc", "cas_count_write_sch0", "", 64},
	{writes, "uncore_imc", "cas_count_write_sch1", "", 64},
	// Zen 4 since Linux 6.10: umc_cas_cmd.rd and .wr of tools/perf/pmu-events/arch/x86/amdzen4/memory-controller.json.
	{reads, "amd_umc", "umc_cas_cmd.rd", "event=0x0a,rdwrmask=0x1", 64},
	{writes, "amd_umc", "umc_cas_cmd.wr", "event=0x0a,rdwrmask=0x2", 64},
	// NVIDIA Grace: a beat of a read is 32 bytes, as in likwid's group MEM.
	{reads, "nvidia_scf_pmu", "cmem_rd_data", "", 32},
	{writes, "nvidia_scf_pmu", "cmem_wr_total_bytes", "", 1},
}

// dramChannels are the data fabric's requests with data on Zen 2 and Zen 3, read or written, of 64 bytes: Linux,
// tools/perf/pmu-events/arch/x86/amdzen3/data-fabric.json. The fabric offers four counters for eight channels.
var dramChannels = []fabricEvent{
	{both, "amd_df", "dram_channel_data_controller_0", "event=0x07,umask=0x38", 64},
	{both, "amd_df", "dram_channel_data_controller_1", "event=0x47,umask=0x38", 64},
	{both, "amd_df", "dram_channel_data_controller_2", "event=0x87,umask=0x38", 64},
	{both, "amd_df", "dram_channel_data_controller_3", "event=0xc7,umask=0x38", 64},
	{both, "amd_df", "dram_channel_data_controller_4", "event=0x107,umask=0x38", 64},
	{both, "amd_df", "dram_channel_data_controller_5", "event=0x147,umask=0x38", 64},
	{both, "amd_df", "dram_channel_data_controller_6", "event=0x187,umask=0x38", 64},
	{both, "amd_df", "dram_channel_data_controller_7", "event=0x1c7,umask=0x38", 64},
}

// fabricCounters is the least number of counters of a memory controller.
const fabricCounters = 4

// controller is events of one memory controller, or of some of its channels, which are counted at the same time.
type controller struct {
	name   string
	socket int
	cpu    int // the CPU through which the kernel reads it
	events []event
	flows  []flow
	bytes  []float64 // of each event's count

	group group
	row   []uint64 // its last reading, empty if that failed
}

// controllers finds the memory controllers of the host, or why there are none that can be counted.
func controllers(sysPath string, arch architecture) (all []*controller, err error) {
	entries, err := os.ReadDir(pmuDir(sysPath, ""))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		found, err := controllersOf(sysPath, entry.Name(), slices.Concat(memoryEvents, arch.fabric))
		if err != nil {
			return nil, err // some controllers alone give no bandwidth
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w below %s", errNoController, pmuDir(sysPath, ""))
	}
	return all, nil
}

// isPMU reports whether a PMU bears the name, followed by nothing or by a number.
func isPMU(pmu, name string) bool {
	rest, ok := strings.CutPrefix(pmu, name)
	if !ok || rest == "" {
		return ok
	}
	rest, ok = strings.CutPrefix(rest, "_")
	return ok && rest != "" && strings.Trim(rest, "0123456789") == ""
}

// controllersOf finds the controllers that a PMU counts: one for each CPU of its cpumask, and for each four events.
func controllersOf(sysPath, pmu string, events []fabricEvent) (all []*controller, err error) {
	events = slices.DeleteFunc(events, func(e fabricEvent) bool { return !isPMU(pmu, e.pmu) })
	if len(events) == 0 {
		return nil, nil
	}
	dir := pmuDir(sysPath, pmu)
	mask, err := os.ReadFile(filepath.Join(dir, "cpumask"))
	if err != nil {
		return nil, err
	}
	cpus := parseCPUList(mask)
	if len(cpus) == 0 && len(strings.TrimSpace(string(mask))) > 0 {
		return nil, fmt.Errorf("%s/cpumask: %w: %.80q", dir, errFormat, mask)
	}
	var c controller
	for _, e := range events {
		kind, config, err := lookUp(sysPath, pmu, e.name, e.terms)
		if os.IsNotExist(err) {
			continue // another generation's event
		}
		if err != nil {
			return nil, err
		}
		bytes := e.bytes
		if scale, ok := readNumber(filepath.Join(dir, "events", e.name+".scale")); ok {
			unit, _ := os.ReadFile(filepath.Join(dir, "events", e.name+".unit")) // a missing one fits none
			if strings.TrimSpace(string(unit)) == "MiB" {
				bytes = scale * (1 << 20)
			}
		}
		c.events = append(c.events, event{name: e.name, kind: kind, config: config, pmu: pmu})
		c.flows, c.bytes = append(c.flows, e.flow), append(c.bytes, bytes)
	}
	for _, cpu := range cpus {
		socket, err := socketOf(sysPath, int(cpu))
		if err != nil {
			return nil, err
		}
		for at := 0; at < len(c.events); at += fabricCounters {
			end := min(at+fabricCounters, len(c.events))
			all = append(all, &controller{
				name: pmu, socket: socket, cpu: int(cpu),
				events: c.events[at:end], flows: c.flows[at:end], bytes: c.bytes[at:end],
			})
		}
	}
	return all, nil
}

// flowed adds to bytes the data that flowed through a controller between two rows, by direction. If the controller was
// not counted, its directions are missing.
func (c *controller) flowed(from, to []uint64, bytes *[both + 1]float64) {
	for i, f := range c.flows {
		n, ok := scaled(from, to, rowEvents+i)
		if !ok {
			n = missing
		}
		bytes[f] += n * c.bytes[i]
	}
}
