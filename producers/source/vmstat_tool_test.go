package source

import (
	"bufio"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhpc/weir/config"
)

// vmstatOf runs vmstat of this machine. It gives the lines of its answer.
func vmstatOf(t *testing.T, option string) (lines []string) {
	t.Helper()
	tool, err := exec.LookPath("vmstat")
	if err != nil {
		t.Skip("NOT CHECKED against an independent tool: this machine has no vmstat (package procps)")
	}
	command := exec.Command(tool, option)
	command.Env = append(command.Environ(), "LC_ALL=C")
	out, err := command.Output()
	if err != nil {
		t.Skipf("NOT CHECKED against an independent tool: vmstat %s does not work here: %v", option, err)
	}
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

// vmstat -s prints since boot what we count: it reads between two readings of ours. Gauges move while they are read.
// So one of many tries has to have vmstat's number between ours, with a hundredth of the memory to spare.
func TestAgreesWithVmstat(t *testing.T) {
	states, pages, mem := openHere(t, stat()), openHere(t, paging()), openHere(t, memory())
	var rows reading
	read := func() (ours map[string]float64) {
		var err error
		if rows, err = states.read(rows, Vitals{}); err != nil {
			t.Fatal(err)
		}
		ours = map[string]float64{}
		for _, row := range rows {
			for i, name := range map[int]string{
				stateUser: "non-nice user cpu ticks", stateNice: "nice user cpu ticks", stateSystem: "system cpu ticks",
				stateIRQ: "IRQ cpu ticks", stateSoftIRQ: "softirq cpu ticks", stateSteal: "stolen cpu ticks",
			} {
				if len(row) > 0 {
					ours[name] += float64(row[i])
				}
			}
		}
		p, m := readRow(t, pages), readRow(t, mem)
		ours["pages swapped in"], ours["pages swapped out"] = float64(p[pagesIn]), float64(p[pagesOut])
		ours["K total memory"], ours["K free memory"] = float64(m[memTotal]), float64(m[memFree])
		ours["K total swap"], ours["K free swap"] = float64(m[memSwapTotal]), float64(m[memSwapFree])
		return ours
	}
	var wrong []string
	for range 100 {
		wrong = nil
		before := read()
		lines := vmstatOf(t, "-s")
		after := read()
		for _, line := range lines {
			digits, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			theirs, err := strconv.ParseFloat(digits, 64)
			lo, known := before[name]
			if err != nil || !known {
				continue
			}
			// vmstat sums the CPUs in the kernel's own unit, and so may have a tick more for each.
			hi, spare := after[name], float64(len(rows.present()))
			if strings.HasPrefix(name, "K ") {
				lo, hi, spare = min(lo, hi), max(lo, hi), before["K total memory"]/100
			}
			if theirs < lo-spare || theirs > hi+spare {
				wrong = append(wrong, line+": we said "+strconv.FormatFloat(before[name], 'f', -1, 64)+
					" before and "+strconv.FormatFloat(after[name], 'f', -1, 64)+" after")
			}
			delete(before, name)
		}
		if len(before) > 0 {
			t.Fatalf("vmstat -s does not say %v in:\n%s", before, strings.Join(lines, "\n"))
		}
		if wrong == nil {
			return
		}
	}
	t.Error(strings.Join(wrong, "\n"))
}

// vmstat -d prints the reads, sectors read, writes and sectors written of each disk.
func TestDisksAgreeWithVmstat(t *testing.T) {
	file, err := openKernelFile("/proc/diskstats")
	if err != nil {
		t.Skip("no /proc/diskstats here:", err)
	}
	defer file.close()
	all := newTally(diskCounters, everyName, grewAll)
	read := func() map[string][]uint64 { return countersOf(t, all, file, parseDisks) }
	before := read()
	lines := vmstatOf(t, "-d")
	after := read()
	found := 0
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) < 9 || before[f[0]] == nil || after[f[0]] == nil {
			continue
		}
		found++
		for i, column := range []int{1, 3, 5, 7} {
			theirs, err := strconv.ParseUint(f[column], 10, 64)
			if err != nil || theirs < before[f[0]][i] || theirs > after[f[0]][i] {
				t.Errorf("vmstat says %q, we said %v before and %v after", line, before[f[0]], after[f[0]])
			}
		}
	}
	if found == 0 {
		t.Skip("NOT CHECKED: vmstat found no disk on this machine")
	}
}

// countersOf returns the counters of each device of a file.
func countersOf(t *testing.T, all *tally, file *kernelFile, parse func(*tally, []byte) error) map[string][]uint64 {
	t.Helper()
	data, err := file.read()
	if err != nil {
		t.Fatal(err)
	}
	all.begin()
	if err := parse(all, data); err != nil {
		t.Fatal(err)
	}
	all.end()
	found := map[string][]uint64{}
	for name, d := range all.known {
		found[name] = append([]uint64(nil), d.last...)
	}
	return found
}

// What the agent calls the disks of this machine are those that vmstat -d names, without virtual ones.
func TestDisksOfThisMachine(t *testing.T) {
	p, err := openDisks(config.Agent{ProcPath: "/proc", SysPath: "/sys"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Skip("this machine lacks it:", err)
	}
	defer p.close()
	for _, line := range vmstatOf(t, "-d") {
		name, _, _ := strings.Cut(line, " ")
		virtual := false
		for _, prefix := range []string{"loop", "ram", "zram", "dm-", "md"} {
			virtual = virtual || strings.HasPrefix(name, prefix)
		}
		if virtual && isDisk("/sys/block", name) {
			t.Errorf("%s counts as a disk", name)
		}
	}
}
