package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
)

// reporters is a directory in which jobs report, and the source that reads it.
type reporters struct {
	t    *testing.T
	dir  string
	p    probe
	last uint64 // errors so far
	jobs []schemas.RouteEntry
}

func newReporters(t *testing.T, jobs ...string) *reporters {
	t.Helper()
	r := &reporters{t: t, dir: filepath.Join(t.TempDir(), "report")}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, id := range jobs {
		r.jobs = append(r.jobs, schemas.RouteEntry{JobID: id})
	}
	r.start()
	return r
}

// start starts the agent anew.
func (r *reporters) start() {
	r.t.Helper()
	cfg := config.Default().Agent
	cfg.ReportDir = r.dir
	var err error
	if r.p, err = openReports(cfg, slog.New(slog.DiscardHandler)); err != nil {
		r.t.Fatal(err)
	}
	r.last = 0
}

func (r *reporters) path(file string) string { return filepath.Join(r.dir, file) }

// write appends text to a file, as a job does.
func (r *reporters) write(file, text string) {
	r.t.Helper()
	f, err := os.OpenFile(r.path(file), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// read takes a reading. It returns what the jobs reported since the last one, as `job.restart: name value unit`. It
// also returns how many errors there were.
func (r *reporters) read() (found []string, wrong uint64) {
	r.t.Helper()
	rows, err := r.p.read(nil, Vitals{Jobs: r.jobs})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, job := range r.p.reports() {
		for _, c := range job.Columns {
			if c.Scope != schemas.ScopeNode || len(c.Values) != 1 {
				r.t.Errorf("%+v", c)
			}
			found = append(found, fmt.Sprintf("%s: %s %v %s", ReportFile(job.Job.JobID, job.Job.Restart), c.Name,
				c.Values[0], c.Unit))
		}
	}
	wrong, r.last = rows[0][0]-r.last, rows[0][0]
	return found, wrong
}

// want takes a reading, and compares it.
func (r *reporters) want(wrong uint64, found ...string) {
	r.t.Helper()
	got, n := r.read()
	if !slices.Equal(got, found) || n != wrong {
		r.t.Errorf("found %q and %d errors; want %q and %d", got, n, found, wrong)
	}
}

func TestReportsOfAnInterval(t *testing.T) {
	r := newReporters(t, "7", "8")
	r.write("7.0", "rate 1\n")
	r.want(0) // it may be of any time
	r.want(0)
	r.write("7.0", "rate 2 1/s\nrate 3 1/s\n")
	r.want(0, "7.0: rate 3 1/s") // the last value counts
	r.want(0)                    // it is not repeated
	r.write("7.0", "rate 4 1/s\nloss -1.5e-3\n")
	r.write("8.0", "rate 9\n") // a file that is new since the last reading was written since then
	r.want(0, "7.0: loss -0.0015 1", "7.0: rate 4 1/s", "8.0: rate 9 1")
	r.write("7.0", "ra")
	r.want(0)
	r.write("7.0", "te 5") // a line counts when it ends
	r.want(0)
	r.write("7.0", "\n\n  # a comment\n\t rate\t 6   steps/s \r\n")
	r.want(0, "7.0: rate 6 steps/s")
	r.write("7.0", "rate 7")
	r.start() // a new agent
	r.want(0)
	r.write("7.0", "5 1/s\n")
	r.want(0, "7.0: rate 75 1/s")
}

// TestOnlyJobsOfTheRouteAreRead: the others' sizes are kept, so that a job that a Route names later has what it wrote
// in the interval, and no more.
func TestOnlyJobsOfTheRouteAreRead(t *testing.T) {
	r := newReporters(t, "7")
	r.want(0)
	r.write("8.0", "rate 1\nold 1\n")
	r.write("8.1", "rate 1\n")
	if err := os.Chmod(r.path("8.0"), 0); err != nil { // nobody but root could open it
		t.Fatal(err)
	}
	r.want(0)
	if err := os.Chmod(r.path("8.0"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.write("8.0", "rate 2\n")
	r.jobs = append(r.jobs, schemas.RouteEntry{JobID: "8"})
	r.want(0, "8.0: rate 2 1")
	// A requeued job has another file.
	r.jobs[1].Restart = 1
	r.write("8.0", "rate 3\n")
	r.write("8.1", "rate 4\n")
	r.want(0, "8.1: rate 4 1")
	r.jobs = r.jobs[:0]
	r.write("8.1", "rate 5\n")
	r.want(0)
}

func TestReportsOfReplacedFiles(t *testing.T) {
	r := newReporters(t, "7")
	r.write("7.0", "rate 1\nrate 2\n")
	r.want(0)
	if err := os.Truncate(r.path("7.0"), 0); err != nil {
		t.Fatal(err)
	}
	r.write("7.0", "rate 3\n")
	r.want(0, "7.0: rate 3 1")
	r.write("new", "rate 4\nrate 55555555555\n")
	if err := os.Rename(r.path("new"), r.path("7.0")); err != nil {
		t.Fatal(err)
	}
	r.want(0, "7.0: rate 5.5555555555e+10 1")
	if err := os.Remove(r.path("7.0")); err != nil {
		t.Fatal(err)
	}
	r.want(0)
	r.write("7.0", "rate 6\n")
	r.want(0, "7.0: rate 6 1")
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	r.want(0)
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.write("7.0", "rate 7\n")
	r.want(0, "7.0: rate 7 1")
}

// TestHostileReportFiles: what is no plain file of one name, or what others may write to, is refused and counted. None
// of it hangs, and the other job's file is read.
func TestHostileReportFiles(t *testing.T) {
	for name, make := range map[string]func(r *reporters) error{
		"fifo": func(r *reporters) error { return unix.Mkfifo(r.path("7.0"), 0o644) },
		"symlink": func(r *reporters) error {
			r.write("target", "rate 1\n")
			return os.Symlink(r.path("target"), r.path("7.0"))
		},
		"hard link": func(r *reporters) error {
			r.write("target", "rate 1\n")
			return os.Link(r.path("target"), r.path("7.0"))
		},
		"directory": func(r *reporters) error { return os.Mkdir(r.path("7.0"), 0o755) },
		"written by others": func(r *reporters) error {
			r.write("7.0", "rate 1\n")
			return os.Chmod(r.path("7.0"), 0o666)
		},
		"written by a group": func(r *reporters) error {
			r.write("7.0", "rate 1\n")
			return os.Chmod(r.path("7.0"), 0o664)
		},
		"socket": func(r *reporters) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			r.t.Cleanup(func() { _ = unix.Close(fd) })
			at := fmt.Sprintf("/proc/self/fd/%d/7.0", dirOf(r)) // a path of at most 107 bytes
			return errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: at}), os.Chmod(r.path("7.0"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReporters(t, "7", "8")
			r.want(0)
			if err := make(r); err != nil {
				t.Fatal(err)
			}
			r.write("8.0", "rate 1\n")
			r.want(1, "8.0: rate 1 1")
			r.want(1)
		})
	}
}

// dirOf returns a descriptor of the directory.
func dirOf(r *reporters) int {
	r.t.Helper()
	fd, err := unix.Open(r.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// TestUnsafeReportDirectory: whoever may write to the directory could report for another's job.
func TestUnsafeReportDirectory(t *testing.T) {
	r := newReporters(t, "7")
	r.want(0)
	cfg := config.Default().Agent
	cfg.ReportDir = r.dir
	for _, mode := range []fs.FileMode{0o775, 0o757, 0o777 | fs.ModeSticky} {
		if err := os.Chmod(r.dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := r.p.read(nil, Vitals{Jobs: r.jobs}); !errors.Is(err, errReportDir) {
			t.Errorf("%v: %v", mode, err)
		}
		if _, err := openReports(cfg, slog.New(slog.DiscardHandler)); !errors.Is(err, errReportDir) {
			t.Errorf("%v: %v", mode, err)
		}
	}
	if err := os.Chmod(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(r.dir, 4711, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := r.p.read(nil, Vitals{Jobs: r.jobs}); !errors.Is(err, errReportDir) {
			t.Errorf("another's directory: %v", err)
		}
	}
	cfg.ReportDir = r.path("file")
	if err := os.WriteFile(cfg.ReportDir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openReports(cfg, slog.New(slog.DiscardHandler)); !errors.Is(err, errReportDir) {
		t.Errorf("a file: %v", err)
	}
}

// TestWrongReportLines: each is counted, and the next line counts.
func TestWrongReportLines(t *testing.T) {
	for name, line := range map[string]string{
		"no value": "rate", "four words": "rate 1 1/s x", "NaN": "rate NaN", "infinite": "rate -inf",
		"beyond": "rate 1e999",
		"comma":  "rate 1,5", "thousands": "rate 1_000", "no number": "rate fast",
		"name of the catalogue": "cpu_user 1", "of the agent": "weir_agent_cpu_ms 1", "like the agent's": "weir_x 1",
		"colon": "a:b 1", "slash": "a/b 1", "unicode name": "größe 1", "dots": ".. 1", "quotes": `"rate" 1`,
		"long name": strings.Repeat("a", naming.MaxBytes+1) + " 1", "long unit": "rate 1 " + strings.Repeat("s", 65),
		"unit of Latin-1": "rate 1 \xb5s", "unit with an escape": "rate 1 \x1b[2J", "binary": "\x00\xff\x00 \x01 \x02",
		"other case of a comment": "rate# 1", "long line": "rate 1 " + strings.Repeat(" ", 300) + "s",
		"UTF-16": "\xff\xfer\x00a\x00t\x00e\x00 \x001\x00",
	} {
		t.Run(name, func(t *testing.T) {
			r := newReporters(t, "7")
			r.want(0)
			r.write("7.0", line+"\nother 2\n")
			r.want(1, "7.0: other 2 1")
		})
	}
	r := newReporters(t, "7")
	r.want(0)
	longest := strings.Repeat("x", 64) + " 1 " + strings.Repeat("u", 64)
	r.write("7.0", "a 0x1p-2\nb 1E3 µs\nc .5\nd -0\ne +7 %\n"+longest+"\n")
	r.want(0, "7.0: a 0.25 1", "7.0: b 1000 µs", "7.0: c 0.5 1", "7.0: d -0 1", "7.0: e 7 %", "7.0: "+longest)
}

// TestAtMost16Names of a job, over its whole life: names that change cannot become more and more.
func TestAtMost16Names(t *testing.T) {
	r := newReporters(t, "7", "8")
	r.want(0)
	var text strings.Builder
	var want []string
	for i := range 17 {
		fmt.Fprintf(&text, "m%02d %d\n", i, i)
		if i < schemas.MaxReported {
			want = append(want, fmt.Sprintf("7.0: m%02d %d 1", i, i))
		}
	}
	r.write("7.0", text.String())
	r.write("8.0", "m16 1\n")
	r.want(1, append(want, "8.0: m16 1 1")...)
	r.write("7.0", "m16 1\nother 1\nm03 5\n")
	r.want(2, "7.0: m03 5 1")
}

// TestLongReports: of more than is read in an interval the end counts, and so is the memory bounded.
func TestLongReports(t *testing.T) {
	r := newReporters(t, "7")
	r.want(0)
	var text bytes.Buffer
	text.WriteString("early 1\n")
	for i := range 200_000 { // 2.7 MB
		fmt.Fprintf(&text, "rate %08d\n", i)
	}
	r.write("7.0", text.String())
	r.want(1, "7.0: rate 199999 1")
	r.write("7.0", "rate 1\n")
	r.want(0, "7.0: rate 1 1")

	// A line of 1 GB. The file has holes, which take no space.
	if err := os.Truncate(r.path("7.0"), 1<<30); err != nil {
		t.Fatal(err)
	}
	r.want(1)
	r.want(0)
	r.write("7.0", "\nrate 2\n")
	r.want(1, "7.0: rate 2 1") // its end is no line that can be read
	if err := os.Truncate(r.path("7.0"), 1<<60); err == nil {
		r.want(1)
	}
}

// TestManyJobsShareTheRate: the jobs of a node are read in turn, and none takes what others have.
func TestManyJobsShareTheRate(t *testing.T) {
	var jobs []string
	for i := range 64 {
		jobs = append(jobs, fmt.Sprint(i))
	}
	r := newReporters(t, jobs...)
	r.want(0)
	flood := strings.Repeat("flood 1\n", 100_000)
	for i, id := range jobs {
		text := "rate 1\n"
		if i%2 == 0 {
			text = flood
		}
		r.write(id+".0", text)
	}
	found, wrong := r.read()
	if len(found) != len(jobs) || wrong != 32 {
		t.Errorf("%d of %d jobs, %d errors", len(found), len(jobs), wrong)
	}
}

// TestTooManyReportFiles: files that epilogs left hide no job's file, and they are counted. An old file that shows up
// among them later has nothing of the interval.
func TestTooManyReportFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	r := newReporters(t)
	for i := range maxReportFiles + 100 {
		r.write(fmt.Sprint(i, ".0"), "old 1\n")
	}
	r.jobs = nil
	for i := range maxReportFiles + 100 { // each is a job once: the order of the directory is not known
		r.jobs = append(r.jobs, schemas.RouteEntry{JobID: fmt.Sprint(i)})
	}
	r.want(1)
	for i := range r.jobs {
		r.write(r.jobs[i].JobID+".0", "rate 1\n")
	}
	found, wrong := r.read()
	if len(found) != len(r.jobs) || wrong != 1 {
		t.Errorf("%d of %d jobs, %d errors; want all, and 1", len(found), len(r.jobs), wrong)
	}
	r.jobs = nil
	r.want(1)
	for i := range maxReportFiles + 100 {
		r.jobs = append(r.jobs, schemas.RouteEntry{JobID: fmt.Sprint(i)})
		if i%2 == 0 {
			if err := os.Remove(r.path(fmt.Sprint(i, ".0"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.want(0)
}

// TestReportsOfAHost reads a job's report by the whole machinery, whose two readings bound the interval. A list of
// metrics restricts nothing of it: no list knows what jobs report.
func TestReportsOfAHost(t *testing.T) {
	r := newReporters(t, "7")
	cfg := config.Default().Agent
	cfg.ReportDir, cfg.List = r.dir, &config.MetricList{Keep: []string{"cpu_idle"}}
	h := openSources(cfg, slog.New(slog.DiscardHandler), []source{reports()})
	defer h.Close()
	read := func() ([]Column, []Report) {
		h.Read(Vitals{Jobs: r.jobs, Interval: 10 * time.Second})
		_, columns := h.Interval(time.Second)
		return columns, h.Reports()
	}
	if columns, found := read(); len(columns) != 1 || len(found) > 0 { // agent_sources_late
		t.Errorf("%+v, %+v", columns, found)
	}
	r.write("7.0", "rate 1 1/s\nrate x\n")
	columns, found := read()
	want := []Report{{schemas.JobKey{JobID: "7"}, []Column{{"rate", "1/s", schemas.ScopeNode, nil, []float64{1}}}}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	if i := slices.IndexFunc(columns, func(c Column) bool { return c.Name == "weir_agent_report_errors" }); i < 0 ||
		columns[i].Values[0] != 1 {
		t.Errorf("%+v", columns)
	}
	if _, found := read(); len(found) > 0 {
		t.Errorf("repeated: %+v", found)
	}
}

// TestNoReportDir: nothing is read where the site offers no reports.
func TestNoReportDir(t *testing.T) {
	if p, err := openReports(config.Default().Agent, nil); err != nil || p.read != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestCheckReport(t *testing.T) {
	for _, good := range [][3]string{{"rate", "1", ""}, {"loss", "-1.5e-3", "1/s"}} {
		if err := CheckReport(good[0], good[1], good[2]); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, want := range map[[3]string]error{
		{"", "1", ""}: errReportFields, {"a b", "1", ""}: errReportFields, {"a\nb", "1", ""}: errReportFields,
		{"a", "1", "1 s"}: errReportFields, {"a", "", ""}: errReportFields, {"a", "x", ""}: errReportValue,
		{"cpu_user", "1", ""}: errReportTaken, {"weir_a", "1", ""}: errReportName, {"#a", "1", ""}: errReportName,
	} {
		if err := CheckReport(bad[0], bad[1], bad[2]); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", bad, err, want)
		}
	}
}

// FuzzReport appends pieces of a file, and reads after each. However it is cut, every line that is whole counts once,
// and nothing that a record would refuse passes.
func FuzzReport(f *testing.F) {
	f.Add([]byte("rate 1\nrate 2 1/s\n"), uint16(3))
	f.Add([]byte("cpu_user 1\n\n# x\nrate 1e999\na"), uint16(7))
	f.Add(append(bytes.Repeat([]byte("x"), 300), "\nb 2\n"...), uint16(250))
	taken := map[string]bool{"cpu_user": true}
	f.Fuzz(func(t *testing.T, data []byte, at uint16) {
		data = data[:min(len(data), 1<<16)]
		cut := min(int(at), len(data))
		var whole, pieces reportFile
		errsOf := func(f *reportFile, lines []byte) (n int) {
			for len(lines) > 0 {
				var line []byte
				line, lines, _ = bytes.Cut(lines, []byte{'\n'})
				if f.take(line, taken, 1) != nil {
					n++
				}
			}
			return n
		}
		lines, lost := linesSince(data, 0, true)
		want := errsOf(&whole, lines)
		first, lost1 := linesSince(data[:cut], 0, true)
		got := errsOf(&pieces, first)
		from := max(cut-maxReportLine-1, 0)
		second, lost2 := linesSince(data[from:], cut-from, from == 0)
		got += errsOf(&pieces, second)
		if lost2 { // a line that is too long is wrong either way
			got++
		}
		if lost || lost1 || got != want || !slices.Equal(whole.metrics, pieces.metrics) {
			t.Fatalf("%d errors and %+v in one piece, %d and %+v in two", want, whole.metrics, got, pieces.metrics)
		}
		for _, c := range whole.columns(1) {
			if !naming.Valid(c.Name) || strings.HasPrefix(c.Name, "weir_") || taken[c.Name] ||
				!schemas.ValidUnit(c.Unit) || math.IsNaN(c.Values[0]) || math.IsInf(c.Values[0], 0) {
				t.Fatalf("%+v", c)
			}
		}
		if len(whole.metrics) > schemas.MaxReported {
			t.Fatalf("%d metrics", len(whole.metrics))
		}
	})
}

// TestReportHooksOfSlurm runs the shipped scripts. A job gets a file that its user alone may write to, and is told
// where. The file goes with the job. A requeued job has another.
func TestReportHooksOfSlurm(t *testing.T) {
	r := newReporters(t, "7")
	r.want(0)
	hook := func(script string, environ ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "../../deploy/slurm/"+script)
		c.Env = append([]string{
			"REPORT_DIR=" + r.dir, "PERF_LOCK=" + filepath.Join(t.TempDir(), "lock"), "SLURM_JOB_ID=7",
			fmt.Sprint("SLURM_JOB_UID=", os.Getuid()),
		}, environ...)
		c.Stderr = t.Output()
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		return string(out)
	}
	r.write("71.0", "")
	hook("node-prolog", "SLURM_JOB_RESTART_COUNT=0")
	info, err := os.Stat(r.path("7.0"))
	if err != nil || info.Mode() != 0o644 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		t.Fatalf("%+v, %v", info, err)
	}
	if got := hook("task-prolog"); got != "export WEIR_REPORT_FILE="+r.path("7.0")+"\n" {
		t.Errorf("the task is told %q", got)
	}
	r.write("7.0", "rate 1\n")
	r.want(0, "7.0: rate 1 1")
	hook("node-prolog", "SLURM_JOB_RESTART_COUNT=1") // no epilog ran, where the node was lost
	r.jobs[0].Restart = 1
	if got := hook("task-prolog"); got != "export WEIR_REPORT_FILE="+r.path("7.1")+"\n" {
		t.Errorf("the task is told %q", got)
	}
	r.write("7.1", "rate 2\n")
	r.want(0, "7.1: rate 2 1")
	if got := hook("task-prolog", "SLURM_JOB_ID=6", "SLURM_JOB_ID_HET_GROUP_1=7"); !strings.Contains(got, "7.1") {
		t.Errorf("the task of a second component is told %q", got)
	}
	hook("node-epilog")
	if files, err := os.ReadDir(r.dir); err != nil || len(files) != 1 || files[0].Name() != "71.0" {
		t.Errorf("%v, %v", files, err)
	}
	if got := hook("task-prolog"); got != "" {
		t.Errorf("the task is told %q", got)
	}
}

// TestJobThatFillsItsReport: a job that writes as much as it can refuses no report of another one. The directory is a
// file system in memory, as deploy/systemd mounts it. The epilog leaves no mount behind.
func TestJobThatFillsItsReport(t *testing.T) {
	r := newReporters(t, "7", "8")
	if err := syscall.Mount("weir-report", r.dir, "tmpfs", 0, "mode=0755,size=1m"); err != nil {
		t.Skipf("FULL REPORT SKIPPED: NO FILE SYSTEM CAN BE MOUNTED HERE: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(r.dir, syscall.MNT_DETACH) })
	hook := func(script, job string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "../../deploy/slurm/"+script)
		c.Env = []string{
			"REPORT_DIR=" + r.dir, "PERF_LOCK=" + filepath.Join(t.TempDir(), "lock"), "SLURM_JOB_ID=" + job,
			"SLURM_JOB_RESTART_COUNT=0", fmt.Sprint("SLURM_JOB_UID=", 1000+len(job)),
		}
		if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
	}
	r.start()
	hook("node-prolog", "7")
	r.read()
	file, err := os.OpenFile(r.path("7.0"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for chunk := make([]byte, 1<<18); err == nil && written < 64<<20; {
		var n int
		n, err = file.Write(chunk)
		written += n
	}
	if cerr := file.Close(); !errors.Is(err, syscall.ENOSPC) || cerr != nil || written > 17<<20 {
		t.Errorf("the job wrote %d bytes: %v, %v", written, err, cerr)
	}
	hook("node-prolog", "8")
	info, err := os.Stat(r.path("8.0"))
	if err != nil || info.Mode() != 0o644 || info.Sys().(*syscall.Stat_t).Uid != 1001 {
		t.Fatalf("%+v, %v", info, err)
	}
	r.read()
	r.write("8.0", "rate 1\n")
	if found, _ := r.read(); !slices.Equal(found, []string{"8.0: rate 1 1"}) {
		t.Errorf("found %q", found)
	}
	hook("node-prolog", "8") // again, where no epilog ran
	hook("node-epilog", "7")
	hook("node-epilog", "8")
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo") // another test may have moved the main thread elsewhere
	if err != nil || strings.Count(string(mounts), r.dir) != 1 {
		t.Errorf("%v: mounts are left:\n%s", err, mounts)
	}
	if left, err := os.ReadDir(r.dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestReportsThatGrow: a job writes as fast as it can while the agent reads. No line is seen in part, none twice, and
// what is found is the newest.
func TestReportsThatGrow(t *testing.T) {
	r := newReporters(t, "7")
	r.want(0)
	ctx, end := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		f, err := os.OpenFile(r.path("7.0"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = f.Close() }()
		var piece bytes.Buffer
		for n := 1; n < 4_000_000 && ctx.Err() == nil; piece.Reset() {
			for range 100 {
				fmt.Fprintf(&piece, "n %07d\n", n)
				n++
			}
			text := piece.Bytes()
			for _, part := range [][]byte{text[:505], text[505:]} { // in the middle of a line
				if _, err := f.Write(part); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	last := 0.
	for found := 0; found < 50; {
		before := r.last
		for _, of := range r.readColumns() {
			if of.Name != "n" || of.Values[0] <= last || of.Values[0] != math.Trunc(of.Values[0]) {
				t.Fatalf("%+v after %v", of, last)
			}
			last = of.Values[0]
			found++
		}
		if r.last-before > 1 { // more than is read
			t.Fatalf("%d errors", r.last-before)
		}
	}
	end()
	writer.Wait()
}

// readColumns takes a reading, and returns what the first job reported.
func (r *reporters) readColumns() []Column {
	r.t.Helper()
	rows, err := r.p.read(nil, Vitals{Jobs: r.jobs})
	if err != nil {
		r.t.Fatal(err)
	}
	r.last = rows[0][0]
	if reports := r.p.reports(); len(reports) > 0 {
		return reports[0].Columns
	}
	return nil
}

// BenchmarkReports reads a node of four jobs, each of which wrote two lines in the interval.
func BenchmarkReports(b *testing.B) {
	dir := b.TempDir()
	cfg := config.Default().Agent
	cfg.ReportDir = dir
	p, err := openReports(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	var jobs []schemas.RouteEntry
	var files []*os.File
	for i := range 4 {
		jobs = append(jobs, schemas.RouteEntry{JobID: fmt.Sprint(i)})
		name := filepath.Join(dir, ReportFile(fmt.Sprint(i), 0))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		files = append(files, f)
	}
	var rows reading
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for _, f := range files {
			if _, err := f.WriteString("steps_per_second 12.5 1/s\nloss 0.125\n"); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if rows, err = p.read(rows, Vitals{Jobs: jobs}); err != nil {
			b.Fatal(err)
		}
	}
}
