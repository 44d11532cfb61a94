package source

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
)

const numastat = "numa_hit 9\nnuma_miss 1\nnuma_foreign 0\ninterleave_hit 5\nlocal_node %d\nother_node %d\n"

func TestNuma(t *testing.T) {
	sys := t.TempDir()
	dir := filepath.Join(sys, "devices/system/node")
	set := func(node string, local, other int) {
		mkdir(t, filepath.Join(dir, node))
		write(t, filepath.Join(dir, node, "numastat"), fmt.Sprintf(numastat, local, other))
	}
	set("node0", 1000, 100)
	set("node2", 50, 0) // there is no node 1
	set("node3", 7, 7)
	mkdir(t, filepath.Join(dir, "node4")) // without the file
	mkdir(t, filepath.Join(dir, "power"))
	set("node99999", 1, 1)
	p, err := openNuma(config.Agent{SysPath: sys}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	from, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	if len(from) != 4 {
		t.Errorf("%d rows", len(from))
	}
	set("node0", 1300, 200) // 300 pages to its own processes, 100 to others
	set("node2", 50, 0)
	set("node3", 6, 8) // went back
	to, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	got := valuesBetween(numa(), p, from, to, time.Second)
	nan := math.NaN()
	wantValues(t, []float64{0.25, nan, nan, nan}, got["numa_remote"]) // 100 / (300 + 100)

	set("node0", 1300, 1)
	write(t, filepath.Join(dir, "node0/numastat"), "local_node 12")
	if r, err := p.read(nil, Vitals{}); err == nil {
		t.Errorf("a file that was cut is read as %v", r)
	}
}

// A kernel without NUMA says so.
func TestNoNuma(t *testing.T) {
	sys := t.TempDir()
	mkdir(t, filepath.Join(sys, "devices/system/node"))
	if _, err := openNuma(config.Agent{SysPath: sys}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no nodes, and no error")
	}
}

// What this machine's file says is between two readings of ours.
func TestNumaAgreesWithItsFile(t *testing.T) {
	p := openHere(t, numa())
	var wrong []string
	for range 100 { // the kernel gathers these counts while others read them, which shows for a moment
		if wrong = numaDiffers(t, p); wrong == nil {
			return
		}
	}
	t.Error(wrong)
}

// numaDiffers returns where node 0's own file is not between two readings of ours.
func numaDiffers(t *testing.T, p probe) (wrong []string) {
	t.Helper()
	before, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/sys/devices/system/node/node0/numastat")
	if err != nil {
		t.Skip("no node 0 here:", err)
	}
	var hit, miss, foreign, interleave, local, other uint64
	if _, err := fmt.Sscanf(string(text),
		"numa_hit %d\nnuma_miss %d\nnuma_foreign %d\ninterleave_hit %d\nlocal_node %d\nother_node %d\n",
		&hit, &miss, &foreign, &interleave, &local, &other); err != nil {
		t.Fatal(err)
	}
	after, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range []uint64{local, other} {
		if v < before[0][i] || v > after[0][i] {
			wrong = append(wrong, fmt.Sprintf("the file says %d, we said %d before and %d after", v, before[0][i],
				after[0][i]))
		}
	}
	return wrong
}

func FuzzNuma(f *testing.F) {
	f.Add(fmt.Appendf(nil, numastat, 10, 5), fmt.Appendf(nil, numastat, 20, 7))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		from, to := numbersOf(nil, a, "", numaNames), numbersOf(nil, b, "", numaNames)
		if slices.Contains(from, unread) || slices.Contains(to, unread) {
			return
		}
		checkFinite(t, formedOf(1, formNuma, from, to, time.Second), 1)
	})
}
