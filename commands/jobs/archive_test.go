package jobs_test

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	summaries "github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestReportsOfAnArchive is what a user-support person does: look at the jobs, then at some of them, without a broker.
func TestReportsOfAnArchive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	for _, args := range [][]string{
		{"simulate", "archive", dir, "--days", "1", "--nodes", "8", "--interval", "10m", "--period", "1h"},
		{"archive", "totals", "--dir", dir, "--through", "2026-01-02T00:00:00Z"},
	} {
		if status, _, stderr := clitest.Weir(t.Context(), args...); status != cli.ExitDone {
			t.Fatalf("%v: %s", args, stderr)
		}
	}
	config := filepath.Join(filepath.Dir(dir), "weir.yaml")
	if err := os.WriteFile(config, []byte("sink: {dir: "+dir+"}\nmachine: [{name: all, cpus: 16, threads_per_core: 1, "+
		"gpus: 0, memory: 274877906944}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := clitest.Weir(t.Context(), append(args, "--config", config)...)
		if status != cli.ExitDone || stderr != "" {
			t.Fatalf("%v: status %d, %q", args, status, stderr)
		}
		return stdout
	}
	rows := func(args ...string) []map[string]any {
		t.Helper()
		return clitest.Objects[map[string]any](t, append(args, "--config", config)...)
	}
	all := rows("jobs", "--json", "--sort", "wasted")
	if len(all) < 5 {
		t.Fatalf("%d jobs", len(all))
	}
	worst := all[0]["job_id"].(string)
	t.Run("wrong names are no answers", func(t *testing.T) {
		for _, c := range []struct {
			status     int
			says, args string
		}{
			{cli.ExitUsage, `--finding: no rule "idle-core": there are `, "jobs --finding idle-core"},
			{cli.ExitFailed, "no job of the list has the metric cpu_usr", "jobs --sort cpu_usr.d5"},
			{cli.ExitFailed, "no metric cpu_usr;", "job " + worst + " --metrics cpu_usr"},
			{cli.ExitDone, "no metric cpu_usr;", "job " + worst + " --metrics cpu_usr,cpu_user"},
			{cli.ExitDone, "no metric cpu_usr;", "job " + worst + " --metrics cpu_usr,cpu_user --json"},
			{cli.ExitFailed, "with metric cpu_usr there", "job " + worst + " --metrics cpu_usr --csv --dir " + dir},
			{cli.ExitFailed, "no complete interval has both", "job " + worst + " --correlate cpu_usr,cpu_user"},
			{cli.ExitDone, "", "jobs --finding idle-cores"},
		} {
			status, stdout, stderr := clitest.Weir(t.Context(), append(strings.Fields(c.args), "--config", config)...)
			if status != c.status || !strings.Contains(stderr, c.says) || (stdout == "") == (status == cli.ExitDone) {
				t.Errorf("%s: status %d, %q, %q", c.args, status, stdout, stderr)
			}
		}
	})
	t.Run("lists agree", func(t *testing.T) {
		cells, err := csv.NewReader(strings.NewReader(ask("jobs", "--csv", "--sort", "wasted"))).ReadAll()
		if err != nil || len(cells) != len(all)+1 || cells[1][slices.Index(cells[0], "job_id")] != worst {
			t.Errorf("%v, %d rows of %d jobs", err, len(cells), len(all))
		}
		lines := strings.Split(strings.TrimSpace(ask("jobs", "--sort", "wasted", "--limit", "3")), "\n")
		if len(lines) != 4 || !strings.HasPrefix(lines[1], worst+" ") {
			t.Errorf("%q", lines)
		}
		user := all[0]["user"].(string)
		for _, job := range rows("jobs", "--json", "--user", user) {
			if job["user"] != user {
				t.Errorf("job %v of %v is one of %s", job["job_id"], job["user"], user)
			}
		}
		of := rows("jobs", "--json", "--sort", "cpu_idle.d5", "--limit", "1")[0]["of"].(map[string]any)
		if v, is := of["cpu_idle.d5"].(float64); !is || v < 0.5 {
			t.Errorf("the most idle job has %v", of)
		}
	})
	t.Run("one job", func(t *testing.T) {
		text := ask("job", worst, "--ascii")
		for _, want := range []string{"Job " + worst + " ", "busy cores [|", "cpu_user ", "Read from archive"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		totals := rows("job", worst, "--totals", "--json")
		at := slices.IndexFunc(totals, func(r map[string]any) bool { return r["metric"] == "cpu_idle" })
		if at < 0 || totals[at]["job_id"] != worst || totals[at]["final"] != true {
			t.Fatalf("totals: %v", totals)
		}
		// A core has one thread, so that busy is what is not idle.
		if busy := all[0]["busy"].(float64); math.Abs(busy+totals[at]["mean"].(float64)-1) > 1e-9 {
			t.Errorf("busy %v and idle %v are not 1", busy, totals[at]["mean"])
		}
		if one := rows("job", worst, "--totals", "--json", "--metrics", "cpu_user"); len(one) != 1 ||
			one[0]["metric"] != "cpu_user" {
			t.Errorf("one metric: %v", one)
		}
		if text := ask("job", worst, "--rules"); !strings.Contains(text, "swapping ") ||
			!strings.Contains(text, "not evaluated: no metric swap_pages") {
			t.Errorf("rules: %s", text)
		}
	})
	t.Run("totals are the archive's", func(t *testing.T) {
		key := schemas.JobKey{JobID: worst}
		of, err := summaries.Totals(t.Context(), dir, "", "", key)
		if err != nil {
			t.Fatal(err)
		}
		want := map[any]map[string]any{}
		for i := range of {
			text, err := json.Marshal(&of[i])
			var row map[string]any
			if err = cmp.Or(err, json.Unmarshal(text, &row)); err != nil {
				t.Fatal(err)
			}
			want[row["metric"]] = row
		}
		every := rows("job", worst, "--json", "--from", "2026-01-01T00:00:00Z", "--metrics", "cpu_idle")
		middle := time.UnixMilli(int64(every[len(every)/2]["interval_start"].(float64))).Format(time.RFC3339)
		for _, args := range [][]string{nil, {"--from", middle}, {"--to", middle}} {
			got := rows(append([]string{"job", worst, "--totals", "--json"}, args...)...)
			for _, row := range got {
				if diff := gocmp.Diff(want[row["metric"]], row); diff != "" {
					t.Errorf("%v: %v (-archive +report)\n%s", args, row["metric"], diff)
				}
			}
			if len(got) < 5 || got[0]["stddev"] == nil {
				t.Errorf("%v: %v", args, got)
			}
		}
	})
	t.Run("several jobs", func(t *testing.T) {
		other := all[1]["job_id"].(string)
		text := ask("job", worst, other, worst, "--width", "120")
		if strings.Count(text, "\n"+worst+" ") != 1 || !strings.Contains(text, "All 2 jobs together") {
			t.Errorf("%s", text)
		}
		if two := rows("job", worst, other, "--totals", "--json", "--metrics", "cpu_user"); len(two) != 2 {
			t.Errorf("totals of two jobs: %v", two)
		}
	})
	t.Run("rows", func(t *testing.T) {
		starts := func(args ...string) (all []float64) {
			for _, r := range rows(append([]string{"job", worst, "--json"}, args...)...) {
				if at := r["interval_start"].(float64); !slices.Contains(all, at) {
					all = append(all, at)
				}
			}
			return all
		}
		every := starts("--from", "2026-01-01T00:00:00Z")
		whole := rows("job", worst, "--totals", "--json", "--metrics", "cpu_idle")[0]
		if n := whole["intervals"].(float64); float64(len(every)) != n || !slices.IsSorted(every) {
			t.Fatalf("intervals %v, and %v of them in all", every, n)
		}
		last := every[len(every)-3:]
		if got := starts(); !slices.Equal(got, last) {
			t.Errorf("the last three: %v, not %v", got, last)
		}
		from, to := time.UnixMilli(int64(every[1])), time.UnixMilli(int64(every[4]))
		span := []string{"--from", from.Format(time.RFC3339), "--to", to.Format(time.RFC3339)}
		if got := starts(span...); !slices.Equal(got, every[1:4]) {
			t.Errorf("from %v to %v: %v, not %v", from, to, got, every[1:4])
		}
		if got := starts(append(span, "-n", "1")...); !slices.Equal(got, every[3:4]) {
			t.Errorf("the last of a span: %v, not %v", got, every[3:4])
		}
		if got := rows("job", worst, "--json", "-n", "1", "--metrics", "cpu_idle"); len(got) != 1 ||
			len(got[0]) != len(namesOf(t, schemas.Row{})) || got[0]["d5"] == nil || got[0]["stddev"] == nil {
			t.Errorf("a row: %v", got)
		}
	})
	t.Run("a page", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "page.html")
		text := ask("job", worst, "--html", file)
		page, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(page), "<svg ") || !strings.Contains(string(page), worst) {
			t.Errorf("%v, %.200q", err, page)
		}
		if text != "" {
			t.Errorf("beside the page: %q", text)
		}
		ask("job", worst, all[1]["job_id"].(string), "--html", file)
		if both, err := os.ReadFile(file); err != nil || bytes.Equal(page, both) {
			t.Errorf("the page of two jobs: %v", err)
		}
	})
	t.Run("none", func(t *testing.T) {
		for _, args := range [][]string{{"job", "nosuch"}, {"job", worst, "nosuch"}, {"job", "nosuch_[1-3]"}} {
			status, stdout, stderr := clitest.Weir(t.Context(), append(args, "--dir", dir)...)
			if status != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, "nosuch") {
				t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
			}
		}
	})
	t.Run("findings", func(t *testing.T) {
		job := ""
		for _, j := range all {
			if job == "" && j["time_s"].(float64) > 6*3600 && j["busy"].(float64) < 0.5 {
				job = j["job_id"].(string)
			}
		}
		found := rows("job", job, "--findings", "--json")
		at := slices.IndexFunc(found, func(f map[string]any) bool { return f["rule"] == "idle-cores" })
		if at < 0 || found[at]["class"] != "HIGH" || found[at]["state"] != "OPEN" {
			t.Fatalf("job %s: %v", job, found)
		}
		hint, _, _ := strings.Cut(found[at]["hint"].(string), " ")
		plain := ask("job", job)
		for _, want := range []string{"\n HIGH idle-cores  " + hint, " %  low\n"} {
			if !strings.Contains(plain, want) || clitest.Drives(plain) {
				t.Errorf("no %q in %q", want, plain)
			}
		}
		if clitest.Drives(ask("job", job, "--color", "auto")) || clitest.Drives(ask("job", job, "--findings", "--csv")) {
			t.Error("a pipe gets colours")
		}
		colored := ask("job", job, "--color", "always")
		if !strings.Contains(colored, "\x1b[31mHIGH\x1b[0m idle-cores") {
			t.Errorf("no colours in %q", colored)
		}
		if clitest.Drives(ask("job", job, "--findings", "--json", "--color", "always")) {
			t.Error("JSON has colours")
		}
	})
}
