package hardware

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

// tree writes files below a new directory. A name that ends with a slash is a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == path {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// node returns a /sys of so many sockets, with cores of two threads.
func node(sockets, coresPerSocket, threads int, further map[string]string) map[string]string {
	cores := sockets * coresPerSocket
	files := map[string]string{"devices/system/cpu/online": "0-" + strconv.Itoa(cores*threads-1) + "\n"}
	for c := range cores {
		var siblings []string
		for k := range threads {
			siblings = append(siblings, strconv.Itoa(c+k*cores))
		}
		for k := range threads {
			dir := "devices/system/cpu/cpu" + strconv.Itoa(c+k*cores) + "/topology/"
			files[dir+"thread_siblings_list"] = strings.Join(siblings, ",") + "\n"
			files[dir+"physical_package_id"] = strconv.Itoa(c/coresPerSocket) + "\n"
		}
	}
	maps.Copy(files, further)
	return files
}

const meminfo = "MemTotal:       527950316 kB\nMemFree:        500000000 kB\n"

func milan(flags string) string {
	one := "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n" +
		"model name\t: AMD EPYC 7763 64-Core Processor\ncpu MHz\t\t: 2450.000\nflags\t\t: fpu avx2 " + flags + "\n\n"
	return one + strings.Replace(one, "processor\t: 0", "processor\t: 1", 1)
}

// TestRead reads a node with two sockets, four GPUs, and a network of each kind.
func TestRead(t *testing.T) {
	proc := tree(t, map[string]string{
		"cpuinfo": milan(""), "meminfo": meminfo, "sys/kernel/osrelease": "5.14.0-427.el9.x86_64\n",
		"sys/kernel/random/boot_id":                   "0f7c\n",
		"driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ: 1\n",
	})
	sys := tree(t, node(2, 4, 2, map[string]string{
		"devices/system/node/node0/": "", "devices/system/node/node1/": "",
		"devices/system/cpu/cpu0/acpi_cppc/nominal_freq": "2450\n",
		"bus/pci/devices/0000:01:00.0/class":             "0x030200\n", "bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
		"bus/pci/devices/0000:02:00.0/class": "0x030000\n", "bus/pci/devices/0000:02:00.0/vendor": "0x1a03\n",
		"bus/pci/devices/0000:03:00.0/class": "0x038000\n", "bus/pci/devices/0000:03:00.0/vendor": "0x1002\n",
		"bus/pci/devices/0000:03:00.0/device": "0x740c\n", "bus/pci/devices/0000:03:00.0/mem_info_vram_total": "68702699520\n",
		"bus/pci/devices/0000:04:00.0/class": "0x030200\n", "bus/pci/devices/0000:04:00.0/vendor": "0x10de\n",
		"bus/pci/devices/0000:04:00.0/physfn/": "",
		"class/net/eth0/device/":               "", "class/net/eth0/speed": "25000\n",
		"class/net/eth1/device/": "", "class/net/eth1/speed": "-1\n", // its link is down
		"class/net/lo/speed":                         "0\n",
		"class/infiniband/mlx5_0/ports/1/rate":       "200 Gb/sec (4X HDR)\n",
		"class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
		"class/infiniband/mlx5_1/ports/1/rate":       "25 Gb/sec (1X EDR)\n",
		"class/infiniband/mlx5_1/ports/1/link_layer": "Ethernet\n",
	}))
	got, err := Read(proc, sys)
	if err != nil {
		t.Fatal(err)
	}
	got.Version = ""
	want := schemas.NodeFacts{
		BootID: "0f7c", Kernel: "5.14.0-427.el9.x86_64", CPUModel: "AMD EPYC 7763 64-Core Processor",
		CPUs: 16, ThreadsPerCore: 2, Sockets: 2, NumaNodes: 2, Memory: 527950316 << 10,
		PeakFlops: 8 * 16 * 2.45e9, PeakMemBW: 2 * 204.8e9,
		PeakFlopsFrom: "16 FLOP/cycle (en.wikichip.org/wiki/flops) x 2.45 GHz (nominal_freq) x 8 cores",
		PeakMemBWFrom: "204.8 GB/s (amd.com, processor specifications) x 2 sockets",
		Gpus:          []schemas.NodeGPU{{Model: "NVIDIA A100-SXM4-40GB", Memory: 40 << 30}, {Model: "AMD 0x740c", Memory: 68702699520}},
		Nics:          []schemas.NodeNIC{{Name: "eth0", Rate: 25e9}, {Name: "mlx5_0/1", Rate: 200e9}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReadVirtual: a guest knows neither its share of the memory bandwidth nor a base clock of its own, and has no GPU.
func TestReadVirtual(t *testing.T) {
	got, err := Read(tree(t, map[string]string{"cpuinfo": milan("hypervisor"), "meminfo": meminfo}), tree(t, node(1, 2, 1, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if got.PeakFlops != 2*16*2.45e9 || got.PeakMemBW != 0 || got.Gpus == nil || len(got.Gpus) != 0 || got.ThreadsPerCore != 1 {
		t.Errorf("%+v", got)
	}
}

// TestReadLittle: a kernel that tells little leaves facts unknown, and one without CPUs is an error.
func TestReadLittle(t *testing.T) {
	if f, err := Read(t.TempDir(), t.TempDir()); err == nil {
		t.Errorf("a machine without CPUs: %+v", f)
	}
	got, err := Read(t.TempDir(), tree(t, map[string]string{
		"devices/system/cpu/online":                             "0-2\n", // one thread of a core is offline
		"devices/system/cpu/cpu0/topology/thread_siblings_list": "0-1\n",
		"devices/system/cpu/cpu1/topology/thread_siblings_list": "0-1\n",
		"devices/system/cpu/cpu2/topology/thread_siblings_list": "2\n",
	}))
	if err != nil || got.CPUs != 3 || got.ThreadsPerCore != 0 || got.PeakFlops != 0 || got.Memory != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestReadHere: facts of the host that runs the test fit into a record.
func TestReadHere(t *testing.T) {
	f, err := Read("/proc", "/sys")
	if err != nil {
		t.Skip(err)
	}
	f.Cluster, f.Node, f.Source = "c", "n", schemas.FactsAgent
	if _, err := schemas.MarshalChecked(&f); err != nil || f.CPUs == 0 || f.Memory == 0 || f.Kernel == "" {
		t.Errorf("%+v: %v", f, err)
	}
	t.Logf("%+v", f)
}

// TestPeaksOfModels compares rows of the table with numbers that makers publish.
func TestPeaksOfModels(t *testing.T) {
	for name, c := range map[string]struct {
		cpu              cpu
		flops, bandwidth float64 // in a cycle of a core; bytes/s of a socket
	}{
		"Gold 6148":     {cpu{vendor: intel, family: "6", model: "85", name: "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz"}, 32, 127.968e9},
		"Gold 6248":     {cpu{vendor: intel, family: "6", model: "85", name: "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"}, 32, 140.784e9},
		"Silver 4110":   {cpu{vendor: intel, family: "6", model: "85", name: "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz"}, 16, 0},
		"Platinum 8360": {cpu{vendor: intel, family: "6", model: "106", name: "Intel(R) Xeon(R) Platinum 8360Y CPU @ 2.40GHz"}, 32, 204.8e9},
		"Max 9480":      {cpu{vendor: intel, family: "6", model: "143", name: "Intel(R) Xeon(R) CPU Max 9480"}, 32, 0},
		"EPYC 9654":     {cpu{vendor: amd, family: "25", model: "17", name: "AMD EPYC 9654 96-Core Processor"}, 16, 460.8e9},
		"EPYC 8534":     {cpu{vendor: amd, family: "25", model: "160", name: "AMD EPYC 8534P 64-Core Processor"}, 16, 0},
		"A64FX":         {cpu{vendor: "0x46", model: "0x001"}, 32, 1.024e12},
		"Grace":         {cpu{vendor: "0x41", model: "0xd4f"}, 16, 0},
	} {
		m := lookup(&c.cpu)
		if m == nil || m.flops != c.flops || math.Abs(m.bandwidth-c.bandwidth) > 1e6 {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if m := lookup(&cpu{vendor: intel, family: "6", model: "9999"}); m != nil {
		t.Errorf("an unknown model has peaks: %+v", m)
	}
	for _, m := range models() {
		if m.flops > 0 && m.flopsFrom == "" || m.bandwidth > 0 && m.bwFrom == "" {
			t.Errorf("a number without a source: %+v", m)
		}
	}
}
