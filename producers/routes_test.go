package producers

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

func TestRoutesAt(t *testing.T) {
	var rs routes
	if rs.at(100) != nil || rs.newest() != nil {
		t.Error("a node without routes has one")
	}
	for _, r := range []*schemas.Route{
		{IntervalStart: 20, Epoch: 3, Home: 1},
		{IntervalStart: 10, Epoch: 2, Home: 2},
		{IntervalStart: 20, Epoch: 4, Home: 3},
		{IntervalStart: 30, Epoch: 1, Home: 4},
		{IntervalStart: 10, Epoch: 2, Home: 5},
	} {
		rs.add(r)
	}
	for start, home := range map[int64]int32{10: 5, 19: 5, 20: 3, 29: 3, 30: 4, 1000: 4} {
		if got := rs.at(start); got == nil || got.Home != home {
			t.Errorf("at(%d) = %+v, want home %d", start, got, home)
		}
	}
	if got := rs.at(9); got != nil {
		t.Errorf("at(9) = %+v, want none", got)
	}
	for i := range int64(100) {
		rs.add(&schemas.Route{IntervalStart: 100 + i})
	}
	if len(rs.known) != keptRoutes || rs.newest().IntervalStart != 199 || rs.at(195).IntervalStart != 195 {
		t.Errorf("%d routes are kept, the newest of %d", len(rs.known), rs.newest().IntervalStart)
	}
}

func TestSavedRoute(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if r, err := loadRoute(dir, "n1"); r != nil || err != nil {
		t.Errorf("without a file: %v, %v", r, err)
	}
	want := &schemas.Route{Node: "n1", Epoch: 3, IntervalStart: 5000, Home: 2, Entries: []schemas.RouteEntry{entry("j", 1, schemas.ModeLocal, 1, 2)}}
	if err := saveRoute(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := loadRoute(dir, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}

	// A file that was torn, or holds another record or another node's route, is named and ignored.
	whole, err := os.ReadFile(routePath(dir, "n1"))
	if err != nil {
		t.Fatal(err)
	}
	tick, err := schemas.Marshal(&schemas.Tick{IntervalMs: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"torn": whole[:len(whole)-1], "empty": nil, "a-tick": tick, "other": whole} {
		write(t, routePath(dir, name), string(b))
		if r, err := loadRoute(dir, name); r != nil || err == nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	cfg := config.Default()
	cfg.Agent.StateDir = dir
	var logged bytes.Buffer
	f, err := newFleet(cfg, []member{{"n1", nil}, {"torn", nil}, {"none", nil}}, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	f.loadRoutes()
	if f.byName["n1"].routes.at(5000) == nil || f.byName["torn"].routes.newest() != nil || f.byName["none"].routes.newest() != nil {
		t.Error("saved routes are not where they belong")
	}
	if n := strings.Count(logged.String(), "saved route is ignored"); n != 1 {
		t.Errorf("%d files were named:\n%s", n, logged.String())
	}
}

// The vectors are of Kafka's own test of murmur2: what a keyed write by any client hits is what the agent reads.
func TestRoutesPartition(t *testing.T) {
	for key, hash := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536} {
		if got, want := routesPartition(key, 16), (hash&0x7fffffff)%16; got != want {
			t.Errorf("partition of %s is %d, want %d", key, got, want)
		}
	}
}

func TestNewFleetRefuses(t *testing.T) {
	for name, members := range map[string][]member{
		"none": nil, "twice": {{"a", nil}, {"a", nil}}, "a path": {{"../a", nil}}, "no name": {{"", nil}},
	} {
		if _, err := newFleet(config.Default(), members, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
