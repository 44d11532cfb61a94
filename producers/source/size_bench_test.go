//go:build linux && (amd64 || arm64) && !static

package source

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
)

// nodeSize is the size of a node in the table of docs/overhead.md.
type nodeSize struct{ cpus, numa, gpus, disks int }

// sizedTree is wideTree with so many NUMA nodes and disks.
func sizedTree(tb testing.TB, size nodeSize) config.Agent {
	tb.Helper()
	cfg := wideTree(tb, size.cpus)
	put := func(path, text string) {
		tb.Helper()
		mkdir(tb, filepath.Dir(path))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	for node := range size.numa {
		put(filepath.Join(cfg.SysPath, fmt.Sprintf("devices/system/node/node%d/numastat", node)),
			"numa_hit 123123123\nnuma_miss 12\nnuma_foreign 13\ninterleave_hit 12\nlocal_node 12312312\nother_node 123123\n")
	}
	mkdir(tb, filepath.Join(cfg.SysPath, "block"))
	var lines strings.Builder
	for i := range size.disks {
		name := fmt.Sprintf("sd%04d", i)
		link(tb, "../devices/pci0000:00/block/"+name, cfg.SysPath, "block", name)
		fmt.Fprintf(&lines, "   8 %d %s 11232 23 4123123 1231 12312 2312 41231231 2312 0 1231 1231 0 0 0 0 12 12\n", i, name)
	}
	put(filepath.Join(cfg.ProcPath, "diskstats"), lines.String())
	return cfg
}

// BenchmarkSizes is the cost of a cycle, and of the sources that grow with the node, for nodes of several sizes: the
// table of docs/overhead.md. Files and GPUs are stand-ins, so the time of the kernel and of the driver is not in it.
func BenchmarkSizes(b *testing.B) {
	for _, size := range []nodeSize{
		{8, 1, 0, 2}, {128, 2, 4, 8}, {512, 8, 16, 16}, {512, 8, 16, 10_000}, {4096, 8, 16, 16},
	} {
		b.Run(fmt.Sprintf("%d_CPUs_%d_NUMA_%d_GPUs_%d_disks", size.cpus, size.numa, size.gpus, size.disks),
			func(b *testing.B) { benchmarkSize(b, size) })
	}
}

func benchmarkSize(b *testing.B, size nodeSize) {
	log := slog.New(slog.DiscardHandler)
	all := sources()
	if i := slices.IndexFunc(all, func(s source) bool { return s.name == nvml().name }); size.gpus > 0 {
		stub := newStub(b)
		stub.set("count", -1, uint64(size.gpus))
		all[i].open = func(cfg config.Agent, log *slog.Logger) (probe, error) { return openNVML(stub.path, cfg, log) }
	}
	h := openSources(sizedTree(b, size), log, all)
	defer h.Close()
	sources, _, err := h.Costs(b.Context(), 20, 10*time.Millisecond)
	if err != nil {
		b.Fatal(err)
	}
	cycle(b, h)
	for _, s := range sources {
		if grows := []string{"stat", "numa", "disks", "nvml"}; slices.Contains(grows, s.Source) && len(s.CPU) > 0 {
			slices.Sort(s.CPU)
			b.ReportMetric(float64(s.CPU[len(s.CPU)/2].Nanoseconds())/1000, s.Source+"-us")
		}
	}
}
