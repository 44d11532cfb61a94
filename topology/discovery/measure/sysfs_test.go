package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/network"
)

// host writes a directory as Linux has it, of files by their paths.
func host(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, "devices/system", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// twoSockets is a host of 2 packages with 2 dies of 4 cores each. Threads of a core are 16 numbers apart. Each die is a
// NUMA node with one L3; two cores share an L2.
func twoSockets() map[string]string {
	files := map[string]string{"cpu/online": "0-31"}
	both := func(from, to int) string { return fmt.Sprintf("%d-%d,%d-%d", from, to, from+16, to+16) }
	for cpu := range 32 {
		c := cpu % 16
		dir := fmt.Sprintf("cpu/cpu%d/", cpu)
		files[dir+"topology/package_cpus_list"] = both(c/8*8, c/8*8+7)
		files[dir+"topology/physical_package_id"] = fmt.Sprint(c / 8)
		files[dir+"topology/die_cpus_list"] = both(c/4*4, c/4*4+3)
		files[dir+"topology/die_id"] = fmt.Sprint(c / 4 % 2) // counts anew in each package
		files[dir+"topology/core_cpus_list"] = fmt.Sprintf("%d,%d", c, c+16)
		for level, size := range map[int]int{1: 1, 2: 2, 3: 4} {
			cache := fmt.Sprintf("%scache/index%d/", dir, level)
			files[cache+"level"] = fmt.Sprint(level)
			files[cache+"id"] = fmt.Sprint(c / size)
			files[cache+"shared_cpu_list"] = both(c/size*size, c/size*size+size-1)
		}
	}
	for numa := range 4 {
		files[fmt.Sprintf("node/node%d/cpulist", numa)] = both(numa*4, numa*4+3)
	}
	files["node/node4/cpulist"] = "" // memory alone
	return files
}

// parens returns what is below a switch as nested parentheses, with the switches' names.
func parens(n *network.Network, v, parent int) string {
	if !n.IsSwitch(v) {
		return strings.TrimPrefix(n.Names[v], "cpu")
	}
	var below []string
	for _, l := range n.Links {
		if l.A == v && l.B != parent {
			below = append(below, parens(n, l.B, v))
		}
		if l.B == v && l.A != parent {
			below = append(below, parens(n, l.A, v))
		}
	}
	return n.Names[v] + "(" + strings.Join(below, " ") + ")"
}

func TestSysfs(t *testing.T) {
	n, warnings, err := Sysfs(host(t, twoSockets()))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	half := func(p int) string {
		die := func(d int) string {
			first := 8*p + 4*d
			pair := func(c int) string {
				return fmt.Sprintf("l2-%d(core%d(%d %d) core%d(%d %d))", c/2, c, c, c+16, c+1, c+1, c+17)
			}
			return fmt.Sprintf("numa%d(%s %s)", 2*p+d, pair(first), pair(first+2))
		}
		return fmt.Sprintf("package%d(%s %s)", p, die(0), die(1))
	}
	if got, want := parens(n, n.Root, -1), "host("+half(0)+" "+half(1)+")"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestSysfsOdd: offline processors are left out, a group that crosses another is named, and a host without anything is
// an error.
func TestSysfsOdd(t *testing.T) {
	files := twoSockets()
	files["cpu/online"] = "0-3,8-11,16-19"
	files["node/node0/cpulist"] = "0-3,8,16-19"
	n, warnings, err := Sysfs(host(t, files))
	if err != nil || n.Nodes != 12 {
		t.Fatalf("%v: %d processors, want 12", err, n.Nodes)
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0], "package1") || !strings.Contains(warnings[1], "l2-4") {
		t.Errorf("warnings %q, want those of package1 and l2-4, which node0 crosses", warnings)
	}
	for name, files := range map[string]map[string]string{
		"nothing":    {},
		"no CPUs":    {"cpu/online": ""},
		"not a list": {"cpu/online": "0-x"},
		"backwards":  {"cpu/online": "3-1"},
	} {
		if _, _, err := Sysfs(host(t, files)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	n, _, err = Sysfs(host(t, map[string]string{"cpu/online": "0-3"}))
	if err != nil || n.Nodes != 4 || len(n.Links) != 4 {
		t.Errorf("a kernel that says nothing: %v, %+v", err, n)
	}
}
