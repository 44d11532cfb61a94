package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/analysis/audit"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// audit runs `weir audit` as a user does, and returns its report and exit status.
func (m *machine) audit(file string, more ...string) (*audit.Report, int) {
	m.t.Helper()
	args := append([]string{"audit", "--json", "--config", file}, more...)
	cmd := exec.CommandContext(m.t.Context(), m.binary, args...)
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

// TestAuditWhileKilled audits a system again and again, while its services are killed, stopped and fenced. It audits
// once more after their end. The accounts close each time. Then a file of the archive is spoiled, and they do not.
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
	s.expectArchiveErrors(m, file)
	endAll(embedded...)
}

// expectArchiveErrors spoils a file of the archive in one way after the other. Each audit names it.
func (s *system) expectArchiveErrors(m *machine, config string) {
	s.t.Helper()
	files, err := audit.List(s.cfg.Sink.Dir, s.cfg.Prefix+schemas.TopicJobSummary, "")
	if err != nil || len(files[0]) == 0 {
		s.t.Fatalf("%d files, %v", len(files[0]), err)
	}
	path := files[0][0].Path
	rows, _, err := sink.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	moved := slices.Clone(rows)
	i := slices.IndexFunc(rows, func(r schemas.Row) bool { return r.D5 != nil })
	moved[i].D5 = new(math.Nextafter(*moved[i].D5, math.Inf(1)))
	for name, c := range map[string]struct {
		spoil func()
		want  string
	}{
		"row missing": {func() { rewrite(s.t, path, whole, rows[1:]) }, ": the row is missing"},
		"row doubled": {
			func() { rewrite(s.t, path, whole, append(slices.Clone(rows), rows[0])) },
			"rows more than the topic has",
		},
		"decile moved": {func() { rewrite(s.t, path, whole, moved) }, ": column d5 is not as the topic has it"},
		"torn": {
			func() {
				if err := os.WriteFile(path, whole[:len(whole)/2], 0o644); err != nil {
					s.t.Fatal(err)
				}
			}, "it cannot be read: ",
		},
	} {
		c.spoil()
		r, status := m.audit(config)
		if status != 1 || r == nil || r.Found != 1 || r.Differences[0].File != path ||
			!strings.Contains(r.Differences[0].Text, c.want) {
			s.t.Errorf("%s: status %d, %+v", name, status, r)
		}
	}
	if err := os.WriteFile(path, whole, 0o644); err != nil {
		s.t.Fatal(err)
	}
	if r, status := m.audit(config); status != 0 {
		s.t.Errorf("with the file as it was: status %d, %+v", status, r)
	}
}

// rewrite writes a file of the archive with other rows than it had.
func rewrite(t *testing.T, path string, old []byte, rows []schemas.Row) {
	t.Helper()
	p, err := parquet.OpenFile(bytes.NewReader(old), int64(len(old)))
	if err != nil {
		t.Fatal(err)
	}
	options := []parquet.WriterOption{parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest})}
	for _, kv := range p.Metadata().KeyValueMetadata {
		if kv.Key == "weir.rows" {
			kv.Value = strconv.Itoa(len(rows))
		}
		options = append(options, parquet.KeyValueMetadata(kv.Key, kv.Value))
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[schemas.Row](&b, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := sink.ReadFile(path); err != nil {
		t.Fatal(err)
	}
}
