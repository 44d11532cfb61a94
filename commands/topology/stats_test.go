package topology_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/commands/topology"
)

// stats runs weir topology stats and returns what it printed.
func stats(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := topology.NewTopologyStats()
	var out strings.Builder
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetArgs(args)
	err := c.Execute()
	return out.String(), err
}

func TestTopologyStats(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	monday := file("monday.csv", "a,b,c\n0,1,2\n1,0,3\n2,3,0\n")
	tuesday := file("tuesday.csv", "a,b,c\n0,1,3\n1,0,3\n3,3,0\n")
	partial := file("partial.csv", "a,b,c\n0,,\n,0,4\n,4,0\n")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{monday}, []string{"nodes           3", "3 measured, 0 missing", "median"}},
		{[]string{monday, tuesday}, []string{"MD -0.33333, MAD 0.33333, QMD 0.57735, MAXD -1 (a and c), of 3 pairs"}},
		{[]string{monday, "--histogram", "--bins", "4"}, []string{"1 µs        1 ###", "2 µs        1 ###", "…"}},
		{[]string{monday, "--success", ".9"}, []string{"72.9 % that all pairs are right, if one is with 90 %"}},
		{[]string{partial, "--json"}, []string{`"pairs":1,"missing":2`, `"median":4`}},
	} {
		got, err := stats(t, c.args...)
		for _, want := range c.want {
			if err != nil || !strings.Contains(got, want) {
				t.Errorf("%v: %v, lacks %q in\n%s", c.args, err, want, got)
			}
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "wants one file"},
		{[]string{monday, monday, monday}, "wants one file"},
		{[]string{filepath.Join(dir, "absent")}, "no such file"},
		{[]string{monday, "--bins", "0"}, "must be 1 to 1000"},
		{[]string{monday, "--success", "2"}, "must be above 0 and at most 1"},
		{[]string{monday, file("other.csv", "x,y\n0,1\n1,0\n")}, "lacks node a"},
		{[]string{partial, file("rest.csv", "a,b,c\n0,1,\n1,0,\n,,0\n")}, "no measured pair in common"},
	} {
		if _, err := stats(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
