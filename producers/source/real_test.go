package source

import (
	"log/slog"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"

	"github.com/weirhpc/weir/config"
)

// procSources are the sources of /proc and of the NUMA nodes.
func procSources() []source {
	return []source{
		stat(), memory(), load(), paging(), pressure(), disks(), ethernet(), nfs(), numa(), agentMemory(),
	}
}

// openHere opens a source of this machine, or skips.
func openHere(tb testing.TB, s source) probe {
	tb.Helper()
	p, err := s.open(config.Agent{ProcPath: "/proc", SysPath: "/sys"}, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Skip("this machine lacks it:", err)
	}
	tb.Cleanup(p.close)
	return p
}

// valuesBetween gives the values of each metric between two readings of a source, by row.
func valuesBetween(s source, p probe, from, to reading, elapsed time.Duration) map[string][]float64 {
	values := map[string][]float64{}
	for i := range max(len(from), len(to)) {
		row := make([]float64, len(s.metrics))
		for k := range row {
			row[k] = math.NaN()
		}
		if a, b := from.row(i), to.row(i); len(a) > 0 && len(a) == len(b) {
			row = formedOf(len(row), p.form, a, b, elapsed)
		}
		for k, m := range s.metrics {
			values[m.name] = append(values[m.name], row[k])
		}
	}
	return values
}

// A reading and its values cost no allocation once the sources are open.
func TestReadingsDoNotAllocate(t *testing.T) {
	for _, s := range procSources() {
		t.Run(s.name, func(t *testing.T) {
			p := openHere(t, s)
			out := make([]float64, len(s.metrics))
			var from, to reading
			step := func() {
				from, to = to, from
				var err error
				if to, err = p.read(to, Vitals{}); err != nil {
					t.Fatal(err)
				}
				for i := range to {
					if row := from.row(i); len(row) > 0 && len(row) == len(to[i]) {
						p.form(row, to[i], time.Second, out)
					}
				}
			}
			step()
			step()
			if n := testing.AllocsPerRun(100, step); n != 0 {
				t.Errorf("%g allocations a reading", n)
			}
		})
	}
}

// Two readings of this machine give values that a machine can have.
func TestReadingsOfThisMachine(t *testing.T) {
	for _, s := range procSources() {
		t.Run(s.name, func(t *testing.T) {
			p := openHere(t, s)
			begin := time.Now()
			from, err := p.read(nil, Vitals{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			to, err := p.read(nil, Vitals{})
			if err != nil {
				t.Fatal(err)
			}
			for name, values := range valuesBetween(s, p, from, to, time.Since(begin)) {
				t.Logf("%s = %v", name, values)
				checkFinite(t, values, math.MaxFloat64)
			}
			for name, err := range p.absent {
				t.Logf("%s is absent: %v", name, err)
			}
		})
	}
}

// A source that the machine lacks says which file is not there.
func TestSourcesOfNothing(t *testing.T) {
	dir := t.TempDir()
	for _, s := range procSources() {
		_, err := s.open(config.Agent{ProcPath: dir, SysPath: dir}, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("%s opened without its file", s.name)
			continue
		}
		t.Logf("%s: %v", s.name, err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRead is a reading of each source of this machine. BenchmarkReadProcfs is what the general library takes for
// the same files.
func BenchmarkRead(b *testing.B) {
	for _, s := range procSources() {
		b.Run(s.name, func(b *testing.B) { benchmarkRead(b, openHere(b, s)) })
	}
}

// BenchmarkReadMany is a reading of the CPUs of a large node, from a fixture: the kernel's own work is not in it.
func BenchmarkReadMany(b *testing.B) {
	for _, cpus := range []int{128, 4096} {
		b.Run(strconv.Itoa(cpus), func(b *testing.B) {
			p, err := openStat(config.Agent{ProcPath: manyCPUTree(b, cpus, 0)}, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			defer p.close()
			benchmarkRead(b, p)
		})
	}
}

// BenchmarkReadNFS is a reading of the fixture of an NFS client.
func BenchmarkReadNFS(b *testing.B) {
	p, err := openNFS(config.Agent{ProcPath: "testdata/nfsclient/proc"}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer p.close()
	benchmarkRead(b, p)
}

func benchmarkRead(b *testing.B, p probe) {
	b.Helper()
	var r reading
	var err error
	b.ReportAllocs()
	for b.Loop() {
		if r, err = p.read(r, Vitals{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadProcfs(b *testing.B) {
	fs, err := procfs.NewFS("/proc")
	if err != nil {
		b.Skip("no /proc here:", err)
	}
	devices, err := blockdevice.NewFS("/proc", "/sys")
	if err != nil {
		b.Skip("no disks here:", err)
	}
	self, err := fs.Self()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		read func() error
	}{
		{"stat", func() error { _, err := fs.Stat(); return err }},
		{"memory", func() error { _, err := fs.Meminfo(); return err }},
		{"load", func() error { _, err := fs.LoadAvg(); return err }},
		{"pressure", func() error {
			for _, name := range pressureFiles {
				if _, err := fs.PSIStatsForResource(name); err != nil {
					return err
				}
			}
			return nil
		}},
		{"disks", func() error { _, err := devices.ProcDiskstats(); return err }},
		{"ethernet", func() error { _, err := fs.NetDev(); return err }},
		{"nfs", func() error { _, err := self.MountStats(); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			if err := c.read(); err != nil {
				b.Skip("procfs cannot read it:", err)
			}
			b.ReportAllocs()
			for b.Loop() {
				_ = c.read()
			}
		})
	}
}
