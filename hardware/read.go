// Package hardware finds out the hardware of nodes. read.go reads this host from the kernel, peaks.go has the peaks of
// CPU models, and types.go makes node types of the facts about many nodes. It asks no broker.
package hardware

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// errNoCPUs is returned if sysfs lists no CPUs: then nothing else is known either.
var errNoCPUs = errors.New("no CPU is online")

const (
	maxTextBytes = 128 // of a text in NodeFacts
	maxNICs      = 256
	maxGPUs      = 1024
)

// host is a machine while it is read.
type host struct {
	proc, sys string
	facts     schemas.NodeFacts
	cpu       cpu
	clock     float64 // base clock in Hz; 0: unknown
	clockFrom string
}

// cpu is the first CPU of /proc/cpuinfo.
type cpu struct {
	vendor, family, model, name string
	mhz                         float64
	virtual                     bool // a hypervisor is below it
}

// Read returns the hardware of this host, below the mounts of procfs and sysfs. Facts that the kernel does not tell are
// left at 0. Name, source and time are left to the caller. It reads some files of each CPU, so it takes milliseconds.
func Read(procPath, sysPath string) (schemas.NodeFacts, error) {
	h := &host{proc: procPath, sys: sysPath}
	online, err := config.CPUList(h.text(sysPath, "devices/system/cpu/online"))
	if err != nil || len(online) == 0 {
		return h.facts, fmt.Errorf("%w in %s: %w", errNoCPUs, sysPath, errors.Join(err))
	}
	h.facts.CPUs = int32(len(online))
	h.topology(online)
	h.cpuinfo()
	h.memory()
	h.baseClock(online[0])
	h.peaks()
	h.gpus()
	h.nics()
	h.facts.BootID = short(h.text(procPath, "sys/kernel/random/boot_id"))
	h.facts.Kernel = short(h.text(procPath, "sys/kernel/osrelease"))
	h.facts.Version = version()
	return h.facts, nil
}

// version returns the version of this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return short(info.Main.Version)
	}
	return ""
}

// text returns the content of a small file, without blanks around it. It is empty if the file cannot be read.
func (h *host) text(root, name string) string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// short makes a text fit for a record.
func short(s string) string { return schemas.CleanText(strings.TrimSpace(s), maxTextBytes) }

// number returns a decimal number that is not negative.
func number(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0
}

// cores returns the number of cores, or 0 if the threads of a core are not known.
func (h *host) cores() int {
	if h.facts.ThreadsPerCore == 0 {
		return 0
	}
	return int(h.facts.CPUs / h.facts.ThreadsPerCore)
}

// topology counts threads, sockets and NUMA nodes. Cores with fewer threads online than others leave the number of
// threads unknown.
func (h *host) topology(online []int) {
	threads, sockets := map[int]bool{}, map[string]bool{}
	for _, c := range online {
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology", c)
		siblings, err := config.CPUList(h.text(h.sys, filepath.Join(dir, "thread_siblings_list")))
		if err != nil {
			siblings = nil
		}
		threads[len(siblings)] = true
		if s := h.text(h.sys, filepath.Join(dir, "physical_package_id")); s != "" {
			sockets[s] = true
		}
	}
	h.facts.Sockets = int32(len(sockets))
	for n := range threads {
		if len(threads) == 1 && n > 0 && len(online)%n == 0 {
			h.facts.ThreadsPerCore = int32(n)
		}
	}
	nodes, _ := filepath.Glob(filepath.Join(h.sys, "devices/system/node/node[0-9]*"))
	h.facts.NumaNodes = int32(len(nodes))
}

// cpuinfo reads the lines about the first CPU. All architectures write a key, a colon and a value.
func (h *host) cpuinfo() {
	file, err := os.Open(filepath.Join(h.proc, "cpuinfo"))
	if err != nil {
		return
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && len(bytes.TrimSpace(lines.Bytes())) > 0 {
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "vendor_id", "CPU implementer":
			h.cpu.vendor = value
		case "cpu family":
			h.cpu.family = value
		case "model", "CPU part":
			h.cpu.model = value
		case "model name":
			h.cpu.name = value
		case "cpu MHz":
			h.cpu.mhz, _ = strconv.ParseFloat(value, 64)
		case "flags":
			h.cpu.virtual = slices.Contains(strings.Fields(value), "hypervisor")
		}
	}
	if h.facts.CPUModel = short(h.cpu.name); h.cpu.name == "" && h.cpu.vendor != "" {
		h.facts.CPUModel = short("CPU " + h.cpu.vendor + " " + h.cpu.model)
	}
}

func (h *host) memory() {
	fs, err := procfs.NewFS(h.proc)
	if err != nil {
		return
	}
	if m, err := fs.Meminfo(); err == nil && m.MemTotalBytes != nil {
		h.facts.Memory = int64(*m.MemTotalBytes)
	}
}

// named is the base clock in the name of many CPUs of Intel.
var named = regexp.MustCompile(`@ ([0-9.]+)GHz`)

// baseClock finds the clock that the maker promises for all cores. A virtual machine shows its host's as its only one.
func (h *host) baseClock(first int) {
	dir := fmt.Sprintf("devices/system/cpu/cpu%d", first)
	kHz, isBase := number(h.text(h.sys, filepath.Join(dir, "cpufreq/base_frequency")))
	mHz, isNominal := number(h.text(h.sys, filepath.Join(dir, "acpi_cppc/nominal_freq")))
	name := named.FindStringSubmatch(h.cpu.name)
	switch {
	case isBase && kHz > 0:
		h.clock, h.clockFrom = float64(kHz)*1e3, "base_frequency"
	case name != nil:
		gHz, _ := strconv.ParseFloat(name[1], 64)
		h.clock, h.clockFrom = gHz*1e9, "its name"
	case isNominal && mHz > 0:
		h.clock, h.clockFrom = float64(mHz)*1e6, "nominal_freq"
	case h.cpu.virtual && h.cpu.mhz > 0:
		h.clock, h.clockFrom = h.cpu.mhz*1e6, "cpu MHz of a virtual machine"
	}
	if !(h.clock > 0 && h.clock < 1e11) {
		h.clock = 0
	}
}

// Classes and vendors of PCI devices.
const (
	pciDisplay     = "0x0300" // VGA: also the display of a server, which computes nothing
	pci3D          = "0x0302"
	pciOther       = "0x0380" // another display controller: accelerators without outputs
	pciAccelerator = "0x1200"

	vendorNVIDIA = "0x10de"
	vendorAMD    = "0x1002"
	vendorIntel  = "0x8086"

	leastGPUBytes = 4 << 30 // of memory of its own, for a VGA device of AMD
)

// gpus lists the GPUs on the PCI bus, with or without a driver. Virtual functions are parts of another device.
func (h *host) gpus() {
	h.facts.Gpus = []schemas.NodeGPU{}
	dir := filepath.Join(h.sys, "bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		class := h.text(at, "class")
		if _, err := os.Lstat(filepath.Join(at, "physfn")); err == nil || len(class) < len(pciDisplay) {
			continue
		}
		own, _ := number(h.text(at, "mem_info_vram_total")) // of amdgpu
		g := schemas.NodeGPU{Memory: own}
		class = class[:len(pciDisplay)]
		switch vendor := h.text(at, "vendor"); {
		case vendor == vendorNVIDIA && (class == pciDisplay || class == pci3D):
			g.Model = h.nvidiaModel(e.Name())
			g.Memory = memoryOf(g.Model)
		case vendor == vendorAMD && (class == pciOther || class == pciAccelerator ||
			class == pciDisplay && own >= leastGPUBytes):
			g.Model = short("AMD " + cmp.Or(h.text(at, "product_name"), h.text(at, "device")))
		case vendor == vendorIntel && class == pciOther:
			g.Model = short("Intel " + h.text(at, "device"))
		default:
			continue
		}
		if len(h.facts.Gpus) < maxGPUs {
			h.facts.Gpus = append(h.facts.Gpus, g)
		}
	}
}

// nvidiaModel returns the name that NVIDIA's driver gives the GPU at a PCI address.
func (h *host) nvidiaModel(address string) string {
	text := h.text(h.proc, filepath.Join("driver/nvidia/gpus", address, "information"))
	for line := range strings.Lines(text) {
		if name, is := strings.CutPrefix(line, "Model:"); is {
			return short(name)
		}
	}
	return "NVIDIA"
}

// nics lists the network ports that are devices, with the rates of their links. It reads single files: drivers of links
// that are down answer some others with errors.
func (h *host) nics() {
	add := func(name string, rate int64) {
		if len(h.facts.Nics) < maxNICs && rate > 0 && rate < 1e15 {
			h.facts.Nics = append(h.facts.Nics, schemas.NodeNIC{Name: short(name), Rate: rate})
		}
	}
	devices, _ := filepath.Glob(filepath.Join(h.sys, "class/net/*/device"))
	for _, d := range devices {
		name := filepath.Base(filepath.Dir(d))
		if _, err := os.Lstat(filepath.Join(d, "physfn")); err == nil { // a virtual function
			continue
		}
		if megabits, ok := number(h.text(filepath.Dir(d), "speed")); ok && megabits < 1e9 {
			add(name, megabits*1e6)
		}
	}
	ports, _ := filepath.Glob(filepath.Join(h.sys, "class/infiniband/*/ports/*"))
	for _, p := range ports {
		if h.text(p, "link_layer") == "Ethernet" { // it is among the ports above
			continue
		}
		gigabits, _, _ := strings.Cut(h.text(p, "rate"), " ")
		if v, err := strconv.ParseFloat(gigabits, 64); err == nil && v > 0 && v < 1e6 {
			add(filepath.Base(filepath.Dir(filepath.Dir(p)))+"/"+filepath.Base(p), int64(v*1e9))
		}
	}
}
