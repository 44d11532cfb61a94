package hardware

import (
	"fmt"
	"regexp"
	"strings"
)

// Sources of the table of CPU models. Numbers of operations in a cycle are of FMA units and the width of their vectors.
// Bandwidths are memory channels × transfers/s × 8 bytes, with the fastest memory that the maker specifies.
const (
	fromWikichip = "en.wikichip.org/wiki/flops"
	fromIntel    = "intel.com/ark"
	fromAMD      = "amd.com, processor specifications"
	fromZen4     = "AMD 57647, optimization guide of Zen 4"
	fromZen5     = "AMD 58455, optimization guide of Zen 5"
	fromArm      = "Arm, Neoverse optimization guides"
	fromFujitsu  = "Fujitsu A64FX datasheet"
)

// cpuModel is a row of the table: the peaks of CPUs whose vendor, family, model and name fit. The first row that fits
// counts. 0 stands for unknown.
type cpuModel struct {
	vendor        string
	family, model string // in decimal; of Arm the part, in the form of /proc/cpuinfo
	name          *regexp.Regexp

	flops     float64 // in double precision, of one core in one cycle
	flopsFrom string
	bandwidth float64 // bytes/s of one socket
	bwFrom    string
}

const (
	intel = "GenuineIntel"
	amd   = "AuthenticAMD"
)

// ddr returns the bandwidth of a socket with so many channels of 8 bytes, at so many million transfers a second.
func ddr(channels int, megatransfers float64) float64 { return float64(channels) * megatransfers * 8e6 }

// models returns the table of CPU models.
func models() []cpuModel {
	one := regexp.MustCompile(`Bronze|Silver|Gold 5[12]`) // one FMA unit of 512 bits, where its sisters have two
	slow := regexp.MustCompile(`Bronze|Silver|Gold 52`)   // slower memory than its sisters
	hbm := regexp.MustCompile(`Xeon.* Max |Max 94`)       // HBM beside or instead of DDR
	large := regexp.MustCompile(`Xeon.* 69`)              // of Granite Rapids: 12 channels
	bergamo := regexp.MustCompile(`EPYC 97`)              // of this model; Siena has six channels
	return []cpuModel{
		{intel, "6", "45", nil, 8, fromWikichip, ddr(4, 1600), fromIntel},  // Sandy Bridge
		{intel, "6", "62", nil, 8, fromWikichip, ddr(4, 1866), fromIntel},  // Ivy Bridge
		{intel, "6", "63", nil, 16, fromWikichip, ddr(4, 2133), fromIntel}, // Haswell
		{intel, "6", "79", nil, 16, fromWikichip, ddr(4, 2400), fromIntel}, // Broadwell
		{intel, "6", "85", one, 16, fromWikichip, 0, ""},                   // Skylake, Cascade Lake
		{intel, "6", "85", cascadeLake(), 32, fromWikichip, ddr(6, 2933), fromIntel},
		{intel, "6", "85", skylake(), 32, fromWikichip, ddr(6, 2666), fromIntel},
		{intel, "6", "106", slow, 32, fromWikichip, 0, ""}, // Ice Lake
		{intel, "6", "106", nil, 32, fromWikichip, ddr(8, 3200), fromIntel},
		{intel, "6", "143", hbm, 32, fromWikichip, 0, ""}, // Sapphire Rapids
		{intel, "6", "143", slow, 32, fromWikichip, 0, ""},
		{intel, "6", "143", nil, 32, fromWikichip, ddr(8, 4800), fromIntel},
		{intel, "6", "207", slow, 32, fromWikichip, 0, ""}, // Emerald Rapids
		{intel, "6", "207", nil, 32, fromWikichip, ddr(8, 5600), fromIntel},
		{intel, "6", "173", large, 32, fromWikichip, ddr(12, 6400), fromIntel}, // Granite Rapids
		{intel, "6", "173", nil, 32, fromWikichip, ddr(8, 6400), fromIntel},
		{amd, "23", "1", nil, 8, fromWikichip, ddr(8, 2666), fromAMD},   // Naples
		{amd, "23", "49", nil, 16, fromWikichip, ddr(8, 3200), fromAMD}, // Rome
		{amd, "25", "1", nil, 16, fromWikichip, ddr(8, 3200), fromAMD},  // Milan
		{amd, "25", "17", nil, 16, fromZen4, ddr(12, 4800), fromAMD},    // Genoa
		{amd, "25", "160", bergamo, 16, fromZen4, ddr(12, 4800), fromAMD},
		{amd, "25", "160", nil, 16, fromZen4, 0, ""},                // Siena
		{amd, "25", "144", nil, 16, fromZen4, 0, ""},                // MI300A: HBM is shared with its GPU
		{amd, "26", "2", nil, 32, fromZen5, ddr(12, 6000), fromAMD}, // Turin
		{amd, "26", "17", nil, 32, fromZen5, ddr(12, 6000), fromAMD},
		{"0x41", "", "0xd0c", nil, 8, fromArm, 0, ""},                      // Neoverse N1
		{"0x41", "", "0xd40", nil, 16, fromArm, 0, ""},                     // Neoverse V1
		{"0x41", "", "0xd4f", nil, 16, fromArm, 0, ""},                     // Neoverse V2, as in Grace
		{"0x46", "", "0x001", nil, 32, fromFujitsu, 1.024e12, fromFujitsu}, // A64FX
	}
}

// cascadeLake fits the second generation of Xeon Scalable, such as Gold 6248 or Platinum 8280.
func cascadeLake() *regexp.Regexp { return regexp.MustCompile(`(Gold 62|Platinum [89]2)\d\d`) }

// skylake fits the first generation, such as Gold 6148 or Platinum 8180.
func skylake() *regexp.Regexp { return regexp.MustCompile(`(Gold 61|Platinum 81)\d\d`) }

// lookup returns the row of a CPU, or nil.
func lookup(c *cpu) *cpuModel {
	all := models()
	for i := range all {
		m := &all[i]
		if m.vendor == c.vendor && (m.family == "" || m.family == c.family) && m.model == c.model &&
			(m.name == nil || m.name.MatchString(c.name)) {
			return m
		}
	}
	return nil
}

// peaks sets the peaks of a node from the table. An unknown clock, or an unknown number of cores or sockets, leaves
// them unknown. A virtual machine has a part of its host's memory bandwidth, and nobody knows which.
func (h *host) peaks() {
	m := lookup(&h.cpu)
	if m == nil {
		return
	}
	f := &h.facts
	if cores := h.cores(); m.flops > 0 && h.clock > 0 && cores > 0 {
		f.PeakFlops = m.flops * h.clock * float64(cores)
		f.PeakFlopsFrom = fmt.Sprintf("%g FLOP/cycle (%s) x %.4g GHz (%s) x %d cores", m.flops, m.flopsFrom,
			h.clock/1e9, h.clockFrom, cores)
	}
	if m.bandwidth > 0 && f.Sockets > 0 && !h.cpu.virtual {
		f.PeakMemBW = m.bandwidth * float64(f.Sockets)
		f.PeakMemBWFrom = fmt.Sprintf("%.4g GB/s (%s) x %d sockets", m.bandwidth/1e9, m.bwFrom, f.Sockets)
	}
}

// nominal is the memory in a model's name, such as NVIDIA A100-SXM4-40GB.
var nominal = regexp.MustCompile(`(\d+) ?GB\b`)

// memoryOf returns the memory of a GPU of NVIDIA by its name, in bytes, or 0. The name of a superchip counts the memory
// of its CPU.
func memoryOf(model string) int64 {
	m := nominal.FindStringSubmatch(model)
	if m == nil || strings.Contains(model, "GH200") || strings.Contains(model, "GB200") {
		return 0
	}
	n, _ := number(m[1])
	return n << 30
}
