package integration

import (
	"bytes"
	"flag"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/analysis/audit"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

var (
	auditSeed = flag.Uint64("audit.seed", 65, "seed of the schedule of the audit of a killed system")
	auditFor  = flag.Duration("audit.for", 6*time.Second, "how long services are killed while audits run")
)

// TestAuditWhileKilled audits a system again and again while its services are killed and fenced, and once more after
// their end. The accounts close each time. Then a file of the archive is damaged, and the accounts do not close.
//
// The schedule is the same in every run: within its six seconds this seed kills collect, merge, sink and simulate.
func TestAuditWhileKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	beside(t)
	m := newMachine(t)
	at, embedded := m.findBrokers()
	s := systemOn(t, at)
	file := s.configFile()
	services := m.addServices(file)
	for _, p := range services {
		p.start()
	}
	s.eventually("summaries of every kind", s.hasEveryKind)

	stop := m.auditOnAndOn(file)
	done := s.perform(schedule(*auditSeed, *auditFor, s.cfg), services)
	n := stop()
	for _, what := range []string{"kill collect", "kill merge", "kill sink", "fence collect", "fence merge", "fault"} {
		if done[what] == 0 {
			t.Errorf("the schedule has no %s: %v", what, done)
		}
	}
	s.drain(services)
	r, status := m.audit(file)
	if r == nil {
		t.FailNow()
	}
	rows := int64(0)
	for _, c := range r.Archive {
		rows += c.Rows
	}
	t.Logf("%d audits while %v; at the end %+v, %d rows, notes %q", n, done, r.Summaries, rows, r.Notes)
	if status != 0 || len(r.Notes) > 0 || r.Summaries.InFlight != 0 {
		t.Errorf("after the end: status %d, notes %q, %d in flight", status, r.Notes, r.Summaries.InFlight)
	}
	if c := r.Summaries; c.Node == 0 || c.Exact == 0 || c.Brackets == 0 || c.Certified == 0 || rows == 0 {
		t.Errorf("not every kind of summary was compared: %+v, %d rows", c, rows)
	}
	s.expectArchiveErrors(m, file)
	endAll(embedded...)
}

// hasEveryKind reports whether the topic contains summaries of nodes, exact ones and estimates.
func (s *system) hasEveryKind() bool {
	s.t.Helper()
	var node, exact, estimated bool
	for _, r := range s.read(schemas.TopicJobSummary) {
		v, _ := schemas.Unmarshal(r.Value)
		of, ok := v.(*schemas.JobSummary)
		if !ok {
			continue
		}
		for _, m := range of.Metrics {
			switch {
			case m.Count == 0:
			case of.Method == schemas.MethodNode:
				node = true
			case of.Method == schemas.MethodExact && of.Parts == 1:
				exact = true
			case m.Lo != nil:
				estimated = true
			}
		}
	}
	return node && exact && estimated
}

// auditOnAndOn audits until stop is called, which returns how often it was.
func (m *machine) auditOnAndOn(file string) (stop func() int) {
	enough, n := make(chan struct{}), 0
	var audits sync.WaitGroup
	audits.Go(func() {
		for {
			r, status := m.audit(file)
			if m.t.Context().Err() != nil {
				return
			}
			if n++; r == nil || r.Found > 0 || status != 0 {
				m.t.Errorf("audit %d of the running system: status %d, %+v", n, status, r)
			}
			select {
			case <-enough:
				return
			case <-m.t.Context().Done():
				return
			case <-time.After(time.Second):
			}
		}
	})
	m.t.Cleanup(audits.Wait)
	return func() int {
		close(enough)
		audits.Wait()
		return n
	}
}

// expectArchiveErrors spoils a file of the archive in one way after the other. Each audit names it.
func (s *system) expectArchiveErrors(m *machine, config string) {
	s.t.Helper()
	path, rows, whole := s.fullFile()
	moved, ranked := slices.Clone(rows), slices.Clone(rows)
	i := slices.IndexFunc(rows, hasDeciles)
	moved[i].D5 = new(math.Nextafter(*moved[i].D5, math.Inf(1)))
	ranked[i].Eps = new(*ranked[i].Eps + 1)
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
		"eps changed":  {func() { rewrite(s.t, path, whole, ranked) }, ": column eps is not as the topic has it"},
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

func hasDeciles(r schemas.Row) bool { return r.D5 != nil }

// fullFile returns a file of the archive with deciles, its rows and its bytes.
func (s *system) fullFile() (path string, rows []schemas.Row, whole []byte) {
	s.t.Helper()
	files, err := audit.List(s.cfg.Sink.Dir, s.cfg.Prefix+schemas.TopicJobSummary, "")
	for _, of := range files {
		for i := range of {
			if rows, _, err = sink.ReadFile(of[i].Path); len(rows) > 1 && slices.ContainsFunc(rows, hasDeciles) {
				if whole, err = os.ReadFile(of[i].Path); err == nil {
					return of[i].Path, rows, whole
				}
			}
		}
	}
	s.t.Fatalf("no file of the archive has deciles: %v", err)
	return "", nil, nil
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
