package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// archive makes an archive with rows of a job.
func archive(t *testing.T, rows int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "it's [an] archive?")
	all := make([]schemas.Row, rows)
	for i := range all {
		mean := float64(i)
		all[i] = schemas.Row{Cluster: "c", JobID: "7", IntervalStart: int64(i), Mean: &mean}
	}
	const topic = "weir." + schemas.TopicJobSummary
	f := sink.Footer{Topic: topic, Next: 1, Rows: int64(rows)}
	if err := sink.Append(dir, topic, "2026-01-05", all, f); err != nil {
		t.Fatal(err)
	}
	return dir
}

func weirSQL(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return status, out.String(), errs.String()
}

func TestAsk(t *testing.T) {
	dir := archive(t, 3)
	file := filepath.Join(t.TempDir(), "q.sql")
	if err := os.WriteFile(file, []byte("select 1 as a;\nselect 2 as b"), 0o600); err != nil {
		t.Fatal(err)
	}
	const row = `select job_id, mean, eps, interval_start as t, [1, 2] as l from summaries order by t desc limit 1 -- !`
	for name, c := range map[string]struct {
		stdin  string
		args   []string
		status int
		want   string
	}{
		"a table": {"", []string{row}, 0, "job_id  mean  eps   t                           l\n" +
			"7       2.0   NULL  1970-01-01 00:00:00.002+00  [1, 2]\n"},
		"JSON": {
			"",
			[]string{"--json", row},
			0,
			`{"job_id":"7","mean":2.0,"eps":null,"t":"1970-01-01 00:00:00.002+00","l":[1,2]}` + "\n",
		},
		"CSV": {
			"",
			[]string{row, "--csv"},
			0,
			"job_id,mean,eps,t,l\n7,2.0,,1970-01-01 00:00:00.002+00,\"[1, 2]\"\n",
		},
		"a file":     {"", []string{"-f", file}, 0, "a\n1\nb\n2\n"},
		"stdin":      {"select 1 as a;\nset threads = 1;\nselect ';' as b", nil, 0, "a\n1\nb\n;\n"},
		"a macro":    {"", []string{"select count(*) as n from job_summaries(7)"}, 0, "n\n3\n"},
		"no rollups": {"", []string{"select count(*) as n from rollups"}, 0, "n\n0\n"},
		"an error":   {"select 1 as a; select nope; select 2", nil, 1, "a\n1\n"},
		"no command": {"", []string{"select", "1"}, 2, ""},
		"no archive": {"", []string{"--dir", t.TempDir(), "select 1"}, 1, ""},
		"hostile":    {"", []string{"select chr(27) || '[31m' as x"}, 0, "x\n?[31m\n"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := weirSQL(t, c.stdin, append([]string{"--dir", dir}, c.args...)...)
			if status != c.status || stdout != c.want || (stderr == "") != (status == 0) {
				t.Errorf("status %d, %q, %q, want %d and %q", status, stdout, stderr, c.status, c.want)
			}
		})
	}
}

// compaction is a writer that does what a compaction does, while the rows of a query are printed.
type compaction struct {
	t    *testing.T
	dir  string
	done bool
	rows int
}

func (c *compaction) Write(p []byte) (int, error) {
	c.rows += bytes.Count(p, []byte("\n"))
	if c.done {
		return len(p), nil
	}
	c.done = true
	lock, err := sink.TakeLock(c.t.Context(), sink.LockPath(c.dir), true, time.Second)
	if err != nil {
		return 0, fmt.Errorf("a reader that is slow keeps a compaction out: %w", err)
	}
	defer lock.Unlock()
	return len(p), os.RemoveAll(sink.DatePath(c.dir, "2026-01-05"))
}

// TestSlowReaders: the lock is given back before rows are printed, and all rows are there then.
func TestSlowReaders(t *testing.T) {
	dir := archive(t, 300_000)
	out := &compaction{t: t, dir: dir}
	var errs bytes.Buffer
	status := run(t.Context(), []string{"--dir", dir, "--csv", "select * from summaries"}, nil, out, &errs)
	if status != 0 || out.rows != 300_001 || !out.done {
		t.Errorf("status %d, %d lines, %s", status, out.rows, errs.String())
	}
}

// TestQueriesWaitForACompaction: a query does not begin while a date is replaced.
func TestQueriesWaitForACompaction(t *testing.T) {
	dir := archive(t, 3)
	lock, err := sink.TakeLock(t.Context(), sink.LockPath(dir), true, 0)
	if err != nil {
		t.Fatal(err)
	}
	status := make(chan int)
	go func() {
		var out bytes.Buffer
		status <- run(t.Context(), []string{"--dir", dir, "select count(*) from summaries"}, nil, &out, &out)
	}()
	select {
	case s := <-status:
		t.Errorf("status %d during a replacement", s)
	case <-time.After(300 * time.Millisecond): // longer only makes the test sharper
	}
	lock.Unlock()
	if s := <-status; s != 0 {
		t.Errorf("status %d", s)
	}
}

func TestSplitter(t *testing.T) {
	for text, want := range map[string][]string{
		"select 1; select 2":                {"select 1", " select 2"},
		"select ';''x;' ; -- a;b\n;;\n":     {"select ';''x;' "},
		"/* ; */ select \"a;b\" /* ' */; x": {"/* ; */ select \"a;b\" /* ' */", " x"},
		"select $$a;'b$$, $t$;$$;$t$; y":    {"select $$a;'b$$, $t$;$$;$t$", " y"},
		"select $1;z":                       {"select $1", "z"},
		"  -- nothing\n":                    nil,
		"select 'open; ":                    {"select 'open; "},
	} {
		for _, cut := range []bool{false, true} { // at once, and line by line
			var s splitter
			var got []string
			parts := []string{text}
			if cut {
				parts = slices.Collect(strings.Lines(text))
			}
			for _, p := range parts {
				got = append(got, s.add(p)...)
			}
			got = append(got, s.rest()...)
			if !slices.Equal(trimmed(got), trimmed(want)) {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
	}
}

func trimmed(all []string) (out []string) {
	for _, s := range all {
		out = append(out, strings.TrimSpace(s))
	}
	return out
}
