package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/analysis/audit"
	"github.com/weirhpc/weir/schemas"
)

// audit runs `weir audit` as a user does, and returns its report and exit status.
func (m *machine) audit(file string, more ...string) (*audit.Report, int) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), m.binary, append([]string{"audit", "--json", "--config", file}, more...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Errorf("weir audit: %v", err)
		return nil, -1
	}
	r := &audit.Report{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		m.t.Errorf("weir audit: %v: %s%s", err, out.Bytes(), errs.Bytes())
		return nil, cmd.ProcessState.ExitCode()
	}
	for _, d := range r.Differences {
		m.t.Log(d)
	}
	return r, cmd.ProcessState.ExitCode()
}

// TestAuditWhileKilled audits a system again and again, while its services are killed, stopped and fenced, and once more
// after its end. The accounts close each time. Then a file of the archive is taken away, and they do not.
func TestAuditWhileKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("AUDIT OF A KILLED SYSTEM SKIPPED: -short was given")
	}
	const seed, length = 7, 15 * time.Second
	m := newMachine(t)
	at, embedded := m.findBrokers()
	s := systemOn(t, at)
	file := s.configFile()
	services := m.addServices(file)
	for _, p := range services {
		p.start()
	}
	s.eventually("the first summaries", func() bool { return len(s.read(schemas.TopicJobSummary)) > 30 })

	performed := make(chan struct{})
	audits := make(chan int)
	go func() {
		n := 0
		defer func() { audits <- n }()
		for {
			if r, status := m.audit(file); r == nil || r.Found > 0 || status != 0 {
				t.Errorf("audit %d of the running system: status %d, %+v", n, status, r)
			}
			n++
			select {
			case <-performed:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	done := s.perform(schedule(seed, length, s.cfg.Collectors, s.cfg.Partitions.Partials), services)
	close(performed)
	n := <-audits
	s.drain(services)
	r, status := m.audit(file)
	if r == nil {
		t.FailNow()
	}
	t.Logf("%d audits while %v; at the end %+v, archive %+v, notes %q", n, done, r.Summaries, *r.Archive[0], r.Notes)
	if status != 0 || len(r.Notes) > 0 || r.Summaries.InFlight != 0 {
		t.Errorf("after the end: status %d, notes %q, %d in flight", status, r.Notes, r.Summaries.InFlight)
	}
	if r.Summaries.Node == 0 || r.Summaries.Exact == 0 || r.Summaries.Brackets == 0 || r.Archive[0].Rows == 0 {
		t.Errorf("the system did not need every kind of summary: %+v", r.Summaries)
	}
	files, err := audit.List(s.cfg.Sink.Dir, s.cfg.Prefix+schemas.TopicJobSummary)
	if err != nil || len(files[0]) == 0 {
		t.Fatalf("%d files, %v", len(files[0]), err)
	}
	gone := files[0][0]
	if err := os.Rename(gone.Path, filepath.Join(t.TempDir(), "away")); err != nil {
		t.Fatal(err)
	}
	r, status = m.audit(file)
	if len(files[0]) > 1 && (status != 1 || r == nil || r.Found == 0 ||
		!strings.Contains(r.Differences[0].String(), "job-summary-0 at 0: job ")) {
		t.Errorf("without %s: status %d, %+v", gone.Path, status, r)
	}
	endAll(embedded...)
}
