package producers

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// keptRoutes is how many routes a node remembers. The plan of the running interval and of the one that waits for its
// send slot are needed; the others are for a balancer that writes ahead.
const keptRoutes = 8

// routes are the newest routes of one node, ascending by interval_start and epoch.
type routes struct {
	known []*schemas.Route
	saved *schemas.Route // what is on disk
}

func newer(a, b *schemas.Route) int {
	return cmp.Or(cmp.Compare(a.IntervalStart, b.IntervalStart), cmp.Compare(a.Epoch, b.Epoch))
}

// add remembers a route, in place of an older writing of the same plan.
func (rs *routes) add(r *schemas.Route) {
	i, found := slices.BinarySearchFunc(rs.known, r, newer)
	if found {
		rs.known[i] = r
		return
	}
	rs.known = slices.Insert(rs.known, i, r)
	if extra := len(rs.known) - keptRoutes; extra > 0 {
		rs.known = slices.Delete(rs.known, 0, extra)
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

// newest returns the route that is valid last, or nil.
func (rs *routes) newest() *schemas.Route {
	if len(rs.known) == 0 {
		return nil
	}
	return rs.known[len(rs.known)-1]
}

// errOtherNode is returned when a saved route is not of the node whose name its file has.
var errOtherNode = errors.New("route of another node")

func routePath(dir, node string) string { return filepath.Join(dir, "route-"+node+".avro") }

// removeRoute removes the route of a node that has none any more.
func removeRoute(dir, node string) error {
	if err := os.Remove(routePath(dir, node)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the saved route: %w", err)
	}
	return nil
}

// saveRoute writes a node's route beside the old one and renames it into place: a reader finds one or the other, whole.
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

// loadRoute reads a node's saved route. Without a file it is nil, and so is the error.
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
			n.routes.add(r)
			n.routes.saved = r
		}
	}
}

// saveRoutes writes the newest route of every node whose newest route is not on disk. It returns the first error.
func (f *fleet) saveRoutes() error {
	if f.cfg.Agent.StateDir == "" {
		return nil
	}
	var first error
	for _, n := range f.nodes {
		f.mu.Lock()
		r, saved := n.routes.newest(), n.routes.saved
		n.routes.saved = r // also where writing fails: the next route is the next try
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
