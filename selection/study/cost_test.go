package study

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhpc/weir/selection"
)

var costOf = flag.String("cost", "", "measure one selection in this process: MACHINES,HALVES,SHIFTS")

// TestCost runs one selection on 3,000 rows and writes its CPU time. costGoal starts it as a process of its own, so
// that its memory is known.
func TestCost(t *testing.T) {
	if *costOf == "" {
		t.Skip("NOT TESTED: what a selection costs (make selection-study)")
	}
	var machines, halves, shifts int
	if _, err := fmt.Sscanf(*costOf, "%d,%d,%d", &machines, &halves, &shifts); err != nil {
		t.Fatal(err)
	}
	c := Large(1, machines)
	o := selection.Defaults()
	o.Halves, o.Shifts = halves, shifts
	debug.FreeOSMemory() // what making the table left is not the selection's
	before := cpu(t)
	s, err := selection.Select(c.Table, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cost: %d %d %d %d", len(c.Table.Metrics), c.Table.Rows(), len(s.Kept), cpu(t)-before)
}

// cpu is what this process has used, in microseconds.
func cpu(t *testing.T) int64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return (u.Utime.Nano() + u.Stime.Nano()) / 1000
}

// costGoal measures CPU time and the largest memory, the table included.
func costGoal(t *testing.T, g *goals) {
	t.Helper()
	run := func(machines, halves, shifts int) (seconds, mib float64) {
		fmt.Fprintf(os.Stderr, "cost: %d machines\n", machines)
		what := fmt.Sprintf("%d,%d,%d", machines, halves, shifts)
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCost$", "-test.v", "-cost="+what)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		_, line, _ := strings.Cut(string(out), "cost: ")
		fields := strings.Fields(line)
		if len(fields) < 4 {
			t.Fatalf("no cost in %s", out)
		}
		us, err := strconv.ParseFloat(fields[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		return us / 1e6, float64(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024
	}
	plain, _ := run(6, 0, 0)
	report, _ := run(6, 25, 19)
	large, mib := run(48, 0, 0)
	g.check(13, "628 metrics × 3,000 rows: at most .5 s of CPU, 2 s with 25 halves and 19 shifts; "+
		"5,000 × 3,000: 10 s, 400 MB", plain <= .5 && report <= 2 && large <= 10 && mib <= 400,
		"%.2f s, %.2f s; %.1f s, %.0f MB with the table", plain, report, large, mib)
}
