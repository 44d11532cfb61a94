package overview

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
)

// dated makes directories of dates in a table.
func dated(t *testing.T, dir, table string, dates ...string) {
	t.Helper()
	for _, d := range dates {
		if err := os.MkdirAll(filepath.Join(dir, table, "date="+d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSystemSpan: without times a report is about the archive's last thirty days, and never about the future.
func TestSystemSpan(t *testing.T) {
	day := func(text string) time.Time {
		at, err := time.Parse("2006-01-02T15:04", text)
		if err != nil {
			at, err = time.Parse(time.DateOnly, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	dir := t.TempDir()
	if _, err := Load(t.Context(), config.Default(), Ask{Dir: dir}); !errors.Is(err, errEmptyArchive) {
		t.Errorf("an archive of nothing: %v", err)
	}
	dated(t, dir, "summaries", "2026-03-01", "2026-03-05", "2026-05-20", "stray")
	dated(t, dir, "jobs", "2026-05-21")
	for name, c := range map[string]struct{ from, to, now, wantFrom, wantTo string }{
		"the end of the archive":     {"", "", "2027-01-01", "2026-04-22", "2026-05-22"},
		"a month":                    {"2026-03-01", "2026-04-01", "2027-01-01", "2026-03-01", "2026-04-01"},
		"the begin of the archive":   {"", "2026-03-11", "2027-01-01", "2026-03-01", "2026-03-11"},
		"before the archive":         {"", "2026-02-01", "2027-01-01", "2026-01-02", "2026-02-01"},
		"a month that is not over":   {"2026-05-01", "2026-06-01", "2026-05-22", "2026-05-01", "2026-05-22"},
		"a month that has not begun": {"2026-06-01", "2026-07-01", "2026-05-22", "2026-06-01", ""},
		"parts of hours": {
			"2026-05-01T10:40", "2026-05-01T11:20", "2027-01-01", "2026-05-01T10:00", "2026-05-01T12:00",
		},
		"an hour that is not over": {
			"2026-05-22T10:40", "2026-05-22T11:10", "2026-05-22T11:20", "2026-05-22T10:00", "2026-05-22T11:20",
		},
		"the wrong way round, of two": {"2026-06-01", "2026-05-01", "2027-01-01", "", ""},
	} {
		a := Ask{Dir: dir, Now: func() time.Time { return day(c.now) }}
		if c.from != "" {
			a.From = day(c.from)
		}
		if c.to != "" {
			a.To = day(c.to)
		}
		err := a.setSpan()
		if c.wantFrom == "" {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
			continue
		}
		wantTo := day(c.wantFrom).UnixMilli() + 1
		if c.wantTo != "" {
			wantTo = day(c.wantTo).UnixMilli()
		}
		if err != nil || a.FromMs != day(c.wantFrom).UnixMilli() || a.ToMs != wantTo {
			t.Errorf("%s: %v to %v: %v", name, time.UnixMilli(a.FromMs).UTC(), time.UnixMilli(a.ToMs).UTC(), err)
		}
	}
}

// TestMachineCores: cores are known only where each type tells its nodes and CPUs.
func TestMachineCores(t *testing.T) {
	thin := config.NodeType{Nodes: "n[1-10]", CPUs: 96, ThreadsPerCore: 2}
	fat := config.NodeType{Nodes: "f[1-2],x", CPUs: 64}
	for _, c := range []struct {
		types []config.NodeType
		cores float64
	}{
		{nil, 0},
		{[]config.NodeType{thin}, 960},
		{[]config.NodeType{thin, fat}, 1152},
		{[]config.NodeType{thin, {Nodes: "", CPUs: 64}}, 0},
		{[]config.NodeType{thin, {Nodes: "y"}}, 0},
		{[]config.NodeType{{Nodes: "n[", CPUs: 1}}, 0},
	} {
		if cores := machineCores(c.types); cores != c.cores {
			t.Errorf("%+v: %v cores", c.types, cores)
		}
	}
}

// TestThreads: a type tells the threads of its cores, whether or not it tells its nodes and CPUs. Of nodes that are not
// known, all types together tell them, if they agree.
func TestThreads(t *testing.T) {
	thin := config.NodeType{Name: "thin", Nodes: "n[1-10]", ThreadsPerCore: 2}
	others := config.NodeType{Name: "others"}
	twofold := config.NodeType{Name: "twofold", ThreadsPerCore: 2}
	for _, c := range []struct {
		all   []config.NodeType
		nodes []string
		want  int
	}{
		{nil, nil, 0},
		{nil, []string{"n1"}, 1},
		{[]config.NodeType{twofold}, nil, 2},
		{[]config.NodeType{twofold}, []string{"any", "other"}, 2},
		{[]config.NodeType{thin, others}, []string{"n1", "n2"}, 2},
		{[]config.NodeType{thin, others}, []string{"x"}, 1},
		{[]config.NodeType{thin, others}, nil, 0},
		{[]config.NodeType{thin, twofold}, nil, 2},
		{[]config.NodeType{thin, others, thin}, nil, 0},
	} {
		types, _ := nodetypes.New(c.all) // that a type comes twice is a fault of the configuration alone
		if got := types.Threads(c.nodes); got != c.want {
			t.Errorf("%+v of %+v: %d threads", c.nodes, c.all, got)
		}
	}
}
