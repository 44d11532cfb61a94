package source

import (
	"log/slog"
	"math"
	"os"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// procSources are the sources of /proc and of the NUMA nodes.
func procSources() []source {
	return []source{stat(), memory(), load(), paging(), pressure(), disks(), ethernet(), nfs(), numa()}
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
			o := openProbe{probe: p, source: s}
			begin := time.Now()
			var err error
			if o.from, err = p.read(nil, Vitals{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			if o.to, err = p.read(nil, Vitals{}); err != nil {
				t.Fatal(err)
			}
			rows := []int32{0}
			if s.scope == schemas.ScopeCore {
				rows = []int32{0, 1}
			}
			for _, c := range o.columns(rows, time.Since(begin)) {
				t.Logf("%s = %v %s", c.Name, c.Values, c.Unit)
				for _, v := range c.Values {
					if v < 0 || math.IsInf(v, 0) {
						t.Errorf("%s = %g", c.Name, v)
					}
				}
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
