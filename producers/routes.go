package producers

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// keptRoutes is the number of routes that a node remembers. It needs two: the plan of the running interval, and the
// plan of the interval that waits for its send slot. The others serve a balancer that plans ahead.
const keptRoutes = 8

// routes are the newest routes of one node, ascending by interval_start.
type routes struct {
	known []*schemas.Route
	saved *schemas.Route // the route on disk
}

// add remembers a route. Routes come in the order in which they were written, and the last one wins: it replaces all
// routes that begin at the same time or later. So a route that a balancer with a wrong clock planned for the future
// never comes into force again. Of the routes that begin after horizon only the last is kept: they must not push out
// the one in force.
func (rs *routes) add(r *schemas.Route, horizon int64) {
	rs.known = slices.DeleteFunc(rs.known, func(k *schemas.Route) bool {
		return k.IntervalStart >= r.IntervalStart || k.IntervalStart > horizon
	})
	rs.known = append(rs.known, r)
	if extra := len(rs.known) - keptRoutes; extra > 0 {
		rs.known = slices.Delete(rs.known, 0, extra)
	}
}

// replace puts the topic's routes in place of the known ones. If all of them begin after horizon, the route that was in
// force stays.
func (rs *routes) replace(topic []*schemas.Route, horizon int64) {
	before := rs.at(horizon)
	rs.known = topic
	if before != nil && len(topic) > 0 && rs.at(horizon) == nil {
		rs.known = slices.Insert(topic, 0, before)
	}
}

// at returns the newest route valid for the interval that begins at start, or nil.
func (rs *routes) at(start int64) *schemas.Route {
	for i := len(rs.known) - 1; i >= 0; i-- {
		if rs.known[i].IntervalStart <= start {
			return rs.known[i]
		}
	}
	return nil
}

// errOtherNode is returned if a saved route belongs to another node than its file's name states.
var errOtherNode = errors.New("route of another node")

func routePath(dir, node string) string { return filepath.Join(dir, "route-"+node+".avro") }

// removeRoute removes the saved route of a node that is without a route now.
func removeRoute(dir, node string) error {
	if err := os.Remove(routePath(dir, node)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the saved route: %w", err)
	}
	return nil
}

// saveRoute writes a node's route beside the old one and renames it into place, so a reader always finds a whole file.
func saveRoute(dir string, r *schemas.Route) error {
	b, err := schemas.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keeping the route of %s: %w", r.Node, err)
	}
	path := routePath(dir, r.Node)
	if err := os.WriteFile(path+".tmp", b, 0o644); err != nil {
		return fmt.Errorf("keeping the route of %s: %w", r.Node, err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("keeping the route of %s: %w", r.Node, err)
	}
	return nil
}

// loadRoute reads a node's saved route. It returns nil without an error if there is no file.
func loadRoute(dir, node string) (*schemas.Route, error) {
	b, err := os.ReadFile(routePath(dir, node))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the saved route of %s: %w", node, err)
	}
	record, err := schemas.Unmarshal(b)
	if err != nil {
		return nil, fmt.Errorf("reading the saved route of %s: %w", node, err)
	}
	r, ok := record.(*schemas.Route)
	if !ok || r.Node != node {
		return nil, fmt.Errorf("reading the saved route of %s: %w", node, errOtherNode)
	}
	return r, nil
}

// loadRoutes gives every node its saved route, so that it can form records while Kafka is away.
func (f *fleet) loadRoutes() {
	if f.cfg.Agent.StateDir == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		r, err := loadRoute(f.cfg.Agent.StateDir, n.name)
		if err != nil {
			f.log.Warn("saved route is ignored", "node", n.name, "err", err)
		}
		if r != nil {
			n.routes.add(r, f.horizon(f.now()))
			n.routes.saved = r
		}
	}
}

// saveRoutes writes the newest usable route of every node whose saved route differs. It returns the first error.
func (f *fleet) saveRoutes() error {
	if f.cfg.Agent.StateDir == "" {
		return nil
	}
	var first error
	horizon := f.horizon(f.now())
	for _, n := range f.nodes {
		f.mu.Lock()
		r, saved := n.routes.at(horizon), n.routes.saved
		if r == nil && len(n.routes.known) > 0 {
			r = saved // this clock takes all of them for the future
		}
		n.routes.saved = r // also if writing fails: the next route is the next try
		f.mu.Unlock()
		if r == saved {
			continue
		}
		var err error
		if r == nil {
			err = removeRoute(f.cfg.Agent.StateDir, n.name)
		} else {
			err = saveRoute(f.cfg.Agent.StateDir, r)
		}
		if err != nil && first == nil {
			first = err
		}
	}
	return first
}

// horizon is the interval_start, in Unix milliseconds, after which a route is from the future.
func (f *fleet) horizon(now time.Time) int64 {
	return now.Add(config.Slack(f.cfg.Interval)).UnixMilli()
}

// errFutureRoute is logged when the route that was written last begins far in the future.
var errFutureRoute = errors.New("the balancer's clock was ahead, or this host's is behind: set it; " +
	"the balancer's next plan replaces the route")

// logRoutes logs routes from the future, once and then every ten minutes.
func (f *fleet) logRoutes(now time.Time) {
	var future *schemas.Route // of the first node
	futures := 0
	f.mu.Lock()
	for _, n := range f.nodes {
		if k := n.routes.known; len(k) > 0 && k[len(k)-1].IntervalStart > f.horizon(now) {
			future, futures = cmp.Or(future, k[len(k)-1]), futures+1
		}
	}
	f.mu.Unlock()
	if future == nil {
		f.future.Over()
	} else if f.future.Worth(errFutureRoute, now) {
		f.log.Warn("route from the future is not used", "node", future.Node, "count", futures,
			"interval_start", time.UnixMilli(future.IntervalStart).UTC(), "epoch", future.Epoch, "err", errFutureRoute)
	}
}
