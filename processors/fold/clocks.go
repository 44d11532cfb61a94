package fold

import (
	"cmp"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// ClockSign is the sign that a record gives of its node's clock.
type ClockSign struct {
	schemas.ClockSign
	Node string
}

const (
	// maxClocks bounds the nodes with a wrong clock that a partition remembers.
	maxClocks = 1 << 15
	// clockPatience is how many intervals without a further sign end a trouble. A silent node gives none.
	clockPatience = 3
)

// Clocks is which nodes of a partition have a clock that is off by more than a tenth of the interval. It is a function
// of the log. The zero value knows none.
type Clocks struct {
	off    map[string]wrongClock
	right  map[string]int64 // the intervals that were closed at the last sign of a clock that is right
	closed int64            // intervals so far
	fresh  []string         // nodes with a trouble that began, until they are logged
	over   []string         // nodes with a trouble that ended, likewise
}

// wrongClock is the last sign of a clock that is off.
type wrongClock struct{ ms, closed int64 }

// Note adds the sign of an entry. A record without one changes nothing: a node sends its clock's offset in one of its
// records only.
func (c *Clocks) Note(fx Effects) {
	sign := fx.Clock
	_, known := c.off[sign.Node]
	switch {
	case !sign.Known:
	case !sign.Off && !known && (len(c.right) < maxClocks || c.right[sign.Node] > 0):
		if c.right == nil {
			c.right = map[string]int64{}
		}
		c.right[sign.Node] = c.closed
	case sign.Off && (known || len(c.off) < maxClocks):
		if c.off == nil {
			c.off = map[string]wrongClock{}
		}
		if c.off[sign.Node] = (wrongClock{sign.Ms, c.closed}); !known {
			c.fresh = append(c.fresh, sign.Node)
			delete(c.right, sign.Node)
		}
	case !sign.Off && known:
		c.end(sign.Node)
	}
	if !fx.Closes {
		return
	}
	c.closed++
	for node, w := range c.off {
		if c.closed-w.closed > clockPatience {
			c.end(node)
		}
	}
	for node, closed := range c.right {
		if c.closed-closed > clockPatience {
			delete(c.right, node)
		}
	}
}

// Alike returns by how much the clocks of nearly all nodes are ahead, if nearly all are off by the same. right reports
// whether most are right.
func (c *Clocks) Alike() (ms int64, alike, right bool) {
	var all []int64
	for _, w := range c.off {
		all = append(all, w.ms)
	}
	return schemas.Alike(all, len(c.off)+len(c.right))
}

// Count returns how many nodes have a clock that is off.
func (c *Clocks) Count() int { return len(c.off) }

// AheadMs returns by how much a node's clock is ahead, in milliseconds; 0: it is not off.
func (c *Clocks) AheadMs(node string) int64 { return c.off[node].ms }

// HasNews reports whether News will return nodes.
func (c *Clocks) HasNews() bool { return len(c.fresh)+len(c.over) > 0 }

// News returns each node once: in fresh if its trouble began and lasts, the worst first, and in over if it ended.
func (c *Clocks) News() (fresh, over []string) {
	fresh = slices.DeleteFunc(c.fresh, func(n string) bool { return c.off[n].ms == 0 })
	slices.SortFunc(fresh, func(a, b string) int {
		return cmp.Or(cmp.Compare(magnitude(c.off[b].ms), magnitude(c.off[a].ms)), cmp.Compare(a, b))
	})
	over = slices.DeleteFunc(c.over, func(n string) bool { return c.off[n].ms != 0 })
	slices.Sort(over)
	c.fresh, c.over = nil, nil
	return slices.Compact(fresh), slices.Compact(over)
}

func (c *Clocks) end(node string) {
	delete(c.off, node)
	c.over = append(c.over, node)
}

func magnitude(ms int64) int64 { return max(ms, -ms) }
