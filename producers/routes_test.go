package producers

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

func TestRoutesAt(t *testing.T) {
	var rs routes
	if rs.at(100) != nil || rs.at(math.MaxInt64) != nil {
		t.Error("a node without routes has one")
	}
	for _, r := range []*schemas.Route{
		{IntervalStart: 10, Epoch: 2, Home: 2},
		{IntervalStart: 20, Epoch: 3, Home: 1},
		{IntervalStart: 40, Epoch: 4, Home: 9}, // the next one begins earlier and was written later
		{IntervalStart: 20, Epoch: 5, Home: 3},
		{IntervalStart: 30, Epoch: 6, Home: 4},
	} {
		rs.add(r, math.MaxInt64)
	}
	for start, home := range map[int64]int32{10: 2, 19: 2, 20: 3, 29: 3, 30: 4, 1000: 4} {
		if got := rs.at(start); got == nil || got.Home != home {
			t.Errorf("at(%d) = %+v, want home %d", start, got, home)
		}
	}
	if got := rs.at(9); got != nil {
		t.Errorf("at(9) = %+v, want none", got)
	}
	for i := range int64(100) {
		rs.add(&schemas.Route{IntervalStart: 100 + i}, math.MaxInt64)
	}
	if len(rs.known) != keptRoutes || rs.at(math.MaxInt64).IntervalStart != 199 || rs.at(195).IntervalStart != 195 {
		t.Errorf("%d routes are kept, the newest of %d", len(rs.known), rs.at(math.MaxInt64).IntervalStart)
	}
}

func TestSavedRoute(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if r, err := loadRoute(dir, "n1"); r != nil || err != nil {
		t.Errorf("without a file: %v, %v", r, err)
	}
	want := &schemas.Route{
		Node: "n1", Epoch: 3, IntervalStart: 5000, Home: 2,
		Entries: []schemas.RouteEntry{entry("j", 1, schemas.ModeLocal, 1, 2)},
	}
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
		if err := os.WriteFile(routePath(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := loadRoute(dir, name); r != nil || err == nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	cfg := config.Default()
	cfg.Agent.StateDir = dir
	var logged bytes.Buffer
	f, err := newFleet(cfg, []member{{"n1", nil}, {"torn", nil}, {"none", nil}},
		slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	f.loadRoutes()
	if f.byName["n1"].routes.at(5000) == nil || f.byName["torn"].routes.at(math.MaxInt64) != nil ||
		f.byName["none"].routes.at(math.MaxInt64) != nil {
		t.Error("saved routes are not where they belong")
	}
	if n := strings.Count(logged.String(), "saved route is ignored"); n != 1 {
		t.Errorf("%d files were named:\n%s", n, logged.String())
	}
}

// The vectors are of Kafka's own test of murmur2: what a keyed write by any client hits is what the agent reads.
func TestRoutesPartition(t *testing.T) {
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482,
		"a-little-bit-long-string": -985981536,
	} {
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

// The routes of the topic come into force at once, when it has been read to its end. A route that was replaced forms no
// record on the way. A node with a tombstone, or without a route in the topic, has none, on disk either.
func TestRoutesAreInForceFromTheEndOn(t *testing.T) {
	l := newLab(t)
	l.Agent.StateDir = t.TempDir()
	members := []member{
		{"sim0001", &simulated{node: "sim0001"}},
		{"sim0002", &simulated{node: "sim0002"}},
		{"sim0003", &simulated{node: "sim0003"}},
	}
	f, err := newFleet(l.Config, members, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	saved := &schemas.Route{Node: "sim0002", Epoch: 9, IntervalStart: 9000, Home: 1}
	if err := saveRoute(l.Agent.StateDir, saved); err != nil {
		t.Fatal(err)
	}
	f.loadRoutes()
	r := &follower{fleet: f, caughtUp: make(chan struct{}), behind: true, gathered: map[*node]*routes{}}
	put := func(node string, route *schemas.Route) {
		record := &kgo.Record{Key: []byte(node)}
		if route != nil {
			if record.Value, err = schemas.Marshal(route); err != nil {
				t.Fatal(err)
			}
		}
		r.apply(record)
	}
	put("sim0001", &schemas.Route{Node: "sim0001", Epoch: 1, IntervalStart: 1000, Home: 1})
	put("sim0003", &schemas.Route{Node: "sim0003", Epoch: 1, IntervalStart: 1000, Home: 1})
	if f.byName["sim0001"].routes.at(math.MaxInt64) != nil || f.byName["sim0002"].routes.at(math.MaxInt64) == nil {
		t.Error("before the end, only the saved route is in force")
	}
	put("sim0001", &schemas.Route{Node: "sim0001", Epoch: 2, IntervalStart: 2000, Home: 3})
	put("sim0003", nil)
	r.reach(map[int32]int64{0: 1})
	if f.byName["sim0001"].routes.at(math.MaxInt64) != nil {
		t.Error("the end was not reached yet")
	}
	r.reach(nil)
	if got := f.byName["sim0001"].routes.at(math.MaxInt64); got == nil || got.Home != 3 {
		t.Errorf("sim0001 has %+v", got)
	}
	for _, name := range []string{"sim0002", "sim0003"} {
		if got := f.byName[name].routes.at(math.MaxInt64); got != nil {
			t.Errorf("%s has %+v, the topic has none", name, got)
		}
	}
	if got, err := loadRoute(l.Agent.StateDir, "sim0002"); got != nil || err != nil {
		t.Errorf("%+v is still on disk: %v", got, err)
	}
	put("sim0001", nil)
	r.save()
	if got, err := loadRoute(l.Agent.StateDir, "sim0001"); f.byName["sim0001"].routes.at(math.MaxInt64) != nil ||
		got != nil || err != nil {
		t.Errorf("a tombstone leaves %+v: %v", got, err)
	}
}
