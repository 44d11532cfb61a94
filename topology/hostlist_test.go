package topology

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hostlists are what Slurm's own tools make of lists.
var hostlists = map[string]string{
	"n[1-3,7],rack[01-02]node[001-003]": "n1 n2 n3 n7 " +
		"rack01node001 rack01node002 rack01node003 rack02node001 rack02node002 rack02node003",
	"n[1-3,2]":                "n1 n2 n3 n2",
	"n[08-11]":                "n08 n09 n10 n11",
	"n[001-3]":                "n001 n002 n003",
	"n[9-011]":                "n9 n10 n11",
	"n[1-2][3-4]":             "n13 n14 n23 n24",
	"r[01-02]n[8-10],x":       "r01n8 r01n9 r01n10 r02n8 r02n9 r02n10 x",
	"n[00]":                   "n00",
	"n[1-2],[3-4]":            "n1 n2 3 4",
	"a,b,a":                   "a b a",
	"n1,":                     "n1",
	",n1":                     "n1",
	"n1,,n2":                  "n1 n2",
	"n[1-2],,n[3-4],":         "n1 n2 n3 n4",
	" n1 , n2":                "n1 n2",
	"n1,\n\tn[2-3] ":          "n1 n2 n3",
	"":                        "",
	" ":                       "",
	",":                       "",
	"login-1.site,n[099-100]": "login-1.site n099 n100",
}

func TestExpandHosts(t *testing.T) {
	for list, want := range hostlists {
		got, err := ExpandHosts(list)
		if diff := cmp.Diff(strings.Fields(want), got); err != nil || len(got)+len(want) > 0 && diff != "" {
			t.Errorf("%q: error %v, want (-), got (+)\n%s", list, err, diff)
		}
	}
	for list, want := range map[string]string{ // which older tools of Slurm's refuse, or put in another order
		"n[1-2]-ib":           "n1-ib n2-ib",
		"n[1-2]x[3-4]y":       "n1x3y n1x4y n2x3y n2x4y",
		"n[1-2][3-4][5-6]":    "n135 n136 n145 n146 n235 n236 n245 n246",
		"n1,n[1-2]-ib,login,": "n1 n1-ib n2-ib login",
	} {
		if got, err := ExpandHosts(list); err != nil || !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %v, error %v, want %s", list, got, err, want)
		}
	}
	most := []string{"n[0-1048575]", "n[0-1023]x[0-1023]", "n[0-524287],m[0-524287]"}
	for _, list := range append(most, strings.Repeat("n", maxHostBytes),
		strings.Repeat("n", maxHostBytes-3)+"[9-100]") {
		hosts, err := ExpandHosts(list)
		if err != nil || slices.Contains(most, list) && len(hosts) != maxHosts {
			t.Errorf("%.40q is as much as may be: %d hosts, error %v", list, len(hosts), err)
		}
	}
}

func TestExpandHostsRefuses(t *testing.T) {
	digits := strings.Repeat("[000000000000000001-2]", 4) // 18 in each name
	for _, list := range []string{
		"n[", "n]", "n[]", "n[1", "n[1-", "n[1,]", "n[3-1]", "n[a-b]", "n[-1]", "n[1-2-3]", "n[[1-2]]", "n1]2[",
		"n[ 1-2]", "n[1, 2]", "n[+1-2]",
		"n 1", "n1 n2", "n1\tn2", "n1\r\nn2", "n\u00a01", "n1,n[1-2],n[",
		"n[0-999999999]", "n[1-999999999999999999]", "n[1-9999999999999999999999]",
		"n[0-9999][0-9999][0-9999][0-9999][0-9999]",
		"n[0-65535][0-65535][0-65535][0-65535]", // 2^64 of them
		"n[0-1048576]", "n[0-1048575],m", "n[0-1048575,1]", "n[0-1023]x[0-1024]", strings.Repeat("n[1-60000],", 20),
		strings.Repeat("n", maxHostBytes+1), strings.Repeat("n", maxHostBytes-2) + "[9-100]", digits,
		strings.Repeat("[1-2]", 70),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		hosts, err := ExpandHosts(list)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errHostlist) || hosts != nil {
			t.Errorf("%.40q: %d hosts, error %v", list, len(hosts), err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%.40q took %d bytes until it was refused", list, n)
		}
	}
	if _, err := ExpandHosts(strings.Repeat("n,", maxHosts+1)); !errors.Is(err, errHostlist) {
		t.Errorf("too many items: %v", err)
	}
}

func TestExpandRanges(t *testing.T) {
	for list, want := range map[string][]int64{
		"0-3,8": {0, 1, 2, 3, 8}, "007": {7}, "2,0-2": {2, 0, 1, 2},
		"999999999999999999": {999999999999999999},
	} {
		if got, err := ExpandRanges(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, error %v, want %v", list, got, err, want)
		}
	}
	if got, err := ExpandRanges("0-1048575"); err != nil || len(got) != 1<<20 {
		t.Errorf("as many as may be: %d, error %v", len(got), err)
	}
	for _, list := range []string{
		"", ",", "1,", "-1", "1-", "3-1", "a", "+1", " 1", "1-2-3", "[1]", "0-1048576",
		"0-1048575,0", "9999999999999999999",
	} {
		if got, err := ExpandRanges(list); err == nil || got != nil {
			t.Errorf("%q: %d numbers, error %v", list, len(got), err)
		}
	}
}

func TestFoldHosts(t *testing.T) {
	for hosts, want := range map[string]string{ // what scontrol show hostlistsorted says
		"n1 n2 n3 n7":    "n[1-3,7]",
		"n01 n1 n02":     "n[1,01-02]",
		"n3 n1 n2 n1":    "n[1-3]",
		"n9 n10 n11":     "n[9-11]",
		"n09 n10 n11":    "n[09-11]",
		"login n1":       "login,n1",
		"n099 n100":      "n[099-100]",
		"n1 n2 m1":       "m1,n[1-2]",
		"a1b1 a1b2 a2b1": "a1b[1-2],a2b1",
		"n1-ib n2-ib":    "n1-ib,n2-ib",
		"":               "",
	} {
		if got := FoldHosts(strings.Fields(hosts)); got != want {
			t.Errorf("%s: %q, want %q", hosts, got, want)
		}
	}
}

// TestHostlistsAsScontrol compares with Slurm's own tool: what it makes of our folded lists, and what it expands.
func TestHostlistsAsScontrol(t *testing.T) {
	scontrol, err := exec.LookPath("scontrol")
	if err != nil {
		t.Skip("SCONTROL IS MISSING: hostlists were not compared with Slurm's own")
	}
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	text := "ClusterName=x\nSlurmctldHost=localhost\nAuthType=auth/none\nNodeName=n1\nPartitionName=p Nodes=n1\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	expand := func(list string) []string {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, scontrol, "show", "hostnames", list)
		cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("SCONTROL DOES NOT WORK HERE (%v): hostlists were not compared with Slurm's own", err)
		}
		return strings.Fields(string(out))
	}
	for list := range hostlists {
		slurms := expand(list)
		ours, err := ExpandHosts(list)
		if diff := cmp.Diff(slurms, ours); err != nil || len(slurms)+len(ours) > 0 && diff != "" {
			t.Errorf("%q: error %v, Slurm's (-), ours (+)\n%s", list, err, diff)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 40 {
		hosts := randomHosts(rnd)
		want := slices.Compact(slices.Sorted(slices.Values(hosts)))
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(expand(FoldHosts(hosts))))); diff != "" {
			t.Errorf("%v folds to %s, of which Slurm makes\n%s", hosts, FoldHosts(hosts), diff)
		}
	}
}

func randomHosts(rnd *rand.Rand) (hosts []string) {
	for range 1 + rnd.IntN(30) {
		name := []string{"n", "rack1-", "a0b", "login"}[rnd.IntN(4)]
		hosts = append(hosts, name+padded(int64(rnd.IntN(25)), rnd.IntN(4))+[]string{"", "", "", "x"}[rnd.IntN(4)])
	}
	return hosts
}

func TestFoldedHostsExpandAgain(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		checkFold(t, randomHosts(rnd))
	}
	checkFold(t, []string{"n", "n0", "n00"})
	checkFold(t, []string{"n999999999999999999", "n1000000000000000000", "n1000000000000000001"}) // 18 digits and 19
	var many []string
	for i := range 100_000 {
		many = append(many, "n"+strconv.Itoa(i))
	}
	if got := FoldHosts(many); got != "n[0-99999]" {
		t.Errorf("100,000 hosts fold to %.80q", got)
	}
}

func checkFold(t *testing.T, hosts []string) {
	t.Helper()
	folded := FoldHosts(hosts)
	again, err := ExpandHosts(folded)
	want := slices.Compact(slices.Sorted(slices.Values(hosts)))
	slices.Sort(again)
	if err != nil || !slices.Equal(want, again) {
		t.Fatalf("%q folds to %q, which expands to %q, error %v", hosts, folded, again, err)
	}
}

func FuzzExpandHosts(f *testing.F) {
	for list := range hostlists {
		f.Add(list)
	}
	f.Add("n[1-2]x[[")
	f.Add("n[0-999999999],a[1-9][1-9][1-9]")
	f.Add("n[999999999999999998-999999999999999999],n1000000000000000000")
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := ExpandHosts(list)
		if err != nil {
			if !errors.Is(err, errHostlist) || hosts != nil || len(err.Error()) > 1500 {
				t.Fatal(err)
			}
			return
		}
		if len(hosts) > maxHosts {
			t.Fatalf("%d hosts", len(hosts))
		}
		for _, h := range hosts {
			if h == "" || len(h) > maxHostBytes || strings.ContainsAny(h, "[], \t\r\n") {
				t.Fatalf("%q is no name", h)
			}
		}
		if len(hosts) < 1000 {
			checkFold(t, hosts)
		}
	})
}
