package scheduler

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
)

// within fails the test if a call takes too long.
func within(t *testing.T, most time.Duration, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); call() }()
	select {
	case <-done:
	case <-time.After(most):
		t.Fatalf("it takes longer than %v", most)
	}
}

// wantHung asks until a source reports that its path hangs. Each call must return soon, with the job of before.
func wantHung(t *testing.T, source Source, stays string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		var jobs []Job
		var faults []Fault
		within(t, 5*fileWait, func() { jobs, faults = source.Jobs(time.Now()) })
		if len(jobs) != 1 || jobs[0].JobID != "4711" {
			t.Fatalf("the last known list is %+v", jobs)
		}
		switch {
		case len(faults) == 1 && strings.Contains(faults[0].Reason, config.ErrSilent.Error()+" (since 20"):
			if !strings.Contains(faults[0].Reason, stays) || faults[0].Unread {
				t.Errorf("fault %+v", faults[0])
			}
			return
		case len(faults) > 0:
			t.Fatalf("faults %+v", faults)
		case time.Since(begun) > 4*config.ReadPatience:
			t.Fatal("no fault, and the path hangs")
		}
	}
}

// wantOneRead fails the test if more than one call of a function is in flight.
func wantOneRead(t *testing.T, function string) {
	t.Helper()
	var text strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&text, 2); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), function+"("); n != 1 {
		t.Errorf("%d calls of %s are in flight", n, function)
	}
}

// TestHungJobFile: callers continue with the last known list, and one read is in flight. Once the file system answers,
// the file counts again.
func TestHungJobFile(t *testing.T) {
	dir := t.TempDir()
	f := NewFileSource(filepath.Join(dir, "jobs.yaml"))
	if jobs := f.jobsAt(t, 5_900, "- {id: 4711, nodes: [n1]}\n"); len(jobs) != 1 {
		t.Fatal(jobs)
	}
	end := kafkatest.Hang(t, dir)
	wantHung(t, f, "the last good file stays in force")
	wantOneRead(t, "scheduler.(*FileSource).read")
	end()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, faults := f.Jobs(time.Now()); len(faults) == 0 {
			break
		} else if time.Since(begun) > 10*time.Second {
			t.Fatal(faults)
		}
	}
	if jobs := f.jobsAt(t, 7_900, "- {id: later, nodes: [n1]}\n"); len(jobs) != 1 || jobs[0].JobID != "later" {
		t.Error(jobs)
	}
}

// TestHungJobFileAtTheStart: the jobs are unknown, so their routes must not be removed.
func TestHungJobFileAtTheStart(t *testing.T) {
	dir := t.TempDir()
	kafkatest.Hang(t, dir)
	f := NewFileSource(filepath.Join(dir, "jobs.yaml"))
	for range 2 {
		within(t, config.ReadPatience+5*time.Second, func() {
			if jobs, faults := f.Jobs(time.Now()); len(jobs) != 0 || len(faults) != 1 || !faults[0].Unread {
				t.Errorf("jobs %v, faults %+v", jobs, faults)
			}
		})
	}
}

// TestHungDropDir: the last known list stays in force, and a fault contains the time since which the directory hangs.
func TestHungDropDir(t *testing.T) {
	cfg := config.Default()
	cfg.Balance.DropDir, cfg.Balance.Slurm.Poll = t.TempDir(), 100*time.Millisecond
	start := fmt.Sprintf("nodes=n1\nstart_ms=%d\n", time.Now().UnixMilli())
	if err := os.WriteFile(filepath.Join(cfg.Balance.DropDir, "4711.0.start"), []byte(start), 0o600); err != nil {
		t.Fatal(err)
	}
	d := StartDropDir(t.Context(), cfg)
	end := kafkatest.Hang(t, cfg.Balance.DropDir)
	wantHung(t, d, "what it said before stays in force")
	wantOneRead(t, "scheduler.(*DropDir).scan")
	end()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		jobs, faults := d.Jobs(time.Now())
		if len(faults) == 0 && len(jobs) == 1 {
			break
		} else if time.Since(begun) > 10*time.Second {
			t.Fatal(jobs, faults)
		}
	}
}

// TestLongScanOfDropDir: a directory that answers does not count as silent, however many files it has.
func TestLongScanOfDropDir(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	cfg := config.Default()
	cfg.Balance.DropDir = t.TempDir()
	for i := range 20_000 {
		name := filepath.Join(cfg.Balance.DropDir, fmt.Sprintf("%d.0.start", i))
		if err := os.WriteFile(name, []byte("nodes=n1\nstart_ms=1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(d *DropDir) func() {
		return func() {
			if err := d.read(1); err != nil {
				t.Error(err)
			}
		}
	}
	begun := time.Now()
	read(newDropDir(cfg))()
	patience := time.Since(begun) / 4
	d := newDropDir(cfg)
	if hangs := d.lane.Call(patience, read(d)); !hangs.IsZero() {
		t.Errorf("no answer in %v, since %v", patience, hangs.Sub(begun))
	}
}

// TestLongFirstScanOfDropDir: a long first scan holds up no start. Until it ends the jobs are unknown, and a fault
// reports this.
func TestLongFirstScanOfDropDir(t *testing.T) {
	cfg := config.Default()
	cfg.Balance.DropDir = t.TempDir()
	start := fmt.Sprintf("nodes=n1\nstart_ms=%d\n", time.Now().UnixMilli())
	if err := os.WriteFile(filepath.Join(cfg.Balance.DropDir, "4711.0.start"), []byte(start), 0o600); err != nil {
		t.Fatal(err)
	}
	d, scans := newDropDir(cfg), make(chan struct{})
	if d.lane.Call(0, func() { <-scans }).IsZero() { // which is the rest of the first scan
		t.Fatal("no scan is in flight")
	}
	d.start(t.Context(), time.Hour, 10*time.Millisecond)
	if jobs, faults := d.Jobs(time.Now()); len(jobs) > 0 || len(faults) != 1 || !faults[0].Unread {
		t.Errorf("jobs %v, faults %v", jobs, faults)
	}
	close(scans)
	kafkatest.Eventually(t, "the job is known", func() bool {
		jobs, faults := d.Jobs(time.Now())
		return len(jobs) == 1 && len(faults) == 0
	})
}
