package source

import (
	"log/slog"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
	"github.com/prometheus/procfs/sysfs"
)

// BenchmarkByProcfs reads the files of a node with 128 CPUs by our readers, as in each cycle, and by procfs. A source of
// ours may read several files: cpu reads stat and schedstat.
func BenchmarkByProcfs(b *testing.B) {
	cfg := wideTree(b, 128)
	for _, s := range sources() {
		p, err := s.open(cfg, slog.New(slog.DiscardHandler))
		if err != nil || p.read == nil {
			continue
		}
		if p.close != nil {
			defer p.close()
		}
		if _, err := p.read(nil, Vitals{}); err != nil {
			continue // it needs more than files
		}
		b.Run("own/"+s.name, func(b *testing.B) {
			b.ReportAllocs()
			var r reading
			for b.Loop() {
				if r, err = p.read(r, Vitals{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	fs, err1 := procfs.NewFS(cfg.ProcPath)
	disks, err2 := blockdevice.NewFS(cfg.ProcPath, cfg.SysPath)
	sys, err3 := sysfs.NewFS(cfg.SysPath)
	if err1 != nil || err2 != nil || err3 != nil {
		b.Fatal(err1, err2, err3)
	}
	for name, read := range map[string]func() error{
		"stat":      func() error { _, err := fs.Stat(); return err },
		"schedstat": func() error { _, err := fs.Schedstat(); return err },
		"meminfo":   func() error { _, err := fs.Meminfo(); return err },
		"pressure": func() (err error) {
			for _, of := range []string{"cpu", "memory", "io"} {
				if _, err = fs.PSIStatsForResource(of); err != nil {
					return err
				}
			}
			return nil
		},
		"diskstats": func() error { _, err := disks.ProcDiskstats(); return err },
		"netdev":    func() error { _, err := fs.NetDev(); return err },
		"loadavg":   func() error { _, err := fs.LoadAvg(); return err },
		"topology": func() error {
			cpus, err := sys.CPUs()
			for _, c := range cpus {
				if _, err := c.Topology(); err != nil {
					return err
				}
			}
			return err
		},
	} {
		b.Run("procfs/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
