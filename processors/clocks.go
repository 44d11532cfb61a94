package processors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// clockSign is what a record tells of the clock of the node that sent it.
type clockSign struct {
	schemas.ClockSign
	node string
}

const (
	// maxClocks bounds the nodes with a wrong clock that a partition remembers.
	maxClocks = 1 << 15
	// clockPatience is how many intervals without a further sign end a trouble. A node that is silent has none.
	clockPatience = 3
)

// clocks is which nodes of a partition have a clock that is off by more than a tenth of the interval. It is a function
// of the log. The zero value knows none.
type clocks struct {
	off    map[string]wrongClock
	right  map[string]int64 // the intervals that were closed at the last sign of a clock that is right
	closed int64            // intervals so far
	fresh  []string         // nodes whose trouble began, until they are logged
	over   []string         // nodes whose trouble ended, likewise
}

// wrongClock is the last sign of a clock that is off.
type wrongClock struct{ ms, closed int64 }

// note adds what an entry tells. A record with no word on its node's clock changes nothing: a node sends what it
// measured in one of its records only.
func (c *clocks) note(fx Effects) {
	sign := fx.Clock
	_, known := c.off[sign.node]
	switch {
	case !sign.Known:
	case !sign.Off && !known && (len(c.right) < maxClocks || c.right[sign.node] > 0):
		if c.right == nil {
			c.right = map[string]int64{}
		}
		c.right[sign.node] = c.closed
	case sign.Off && (known || len(c.off) < maxClocks):
		if c.off == nil {
			c.off = map[string]wrongClock{}
		}
		if c.off[sign.node] = (wrongClock{sign.Ms, c.closed}); !known {
			c.fresh = append(c.fresh, sign.node)
			delete(c.right, sign.node)
		}
	case !sign.Off && known:
		c.end(sign.node)
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

// alike returns by how much the clocks of nearly all nodes are ahead, if nearly all are off by the same. right reports
// whether most are right.
func (c *clocks) alike() (ms int64, alike, right bool) {
	var all []int64
	for _, w := range c.off {
		all = append(all, w.ms)
	}
	return schemas.Alike(all, len(c.off)+len(c.right))
}

// news returns, once, the nodes whose trouble began and is not over, the worst first, and those whose trouble ended.
func (c *clocks) news() (fresh, over []string) {
	fresh = slices.DeleteFunc(c.fresh, func(n string) bool { return c.off[n].ms == 0 })
	slices.SortFunc(fresh, func(a, b string) int {
		return cmp.Or(cmp.Compare(magnitude(c.off[b].ms), magnitude(c.off[a].ms)), cmp.Compare(a, b))
	})
	over = slices.DeleteFunc(c.over, func(n string) bool { return c.off[n].ms != 0 })
	slices.Sort(over)
	c.fresh, c.over = nil, nil
	return slices.Compact(fresh), slices.Compact(over)
}

func (c *clocks) end(node string) {
	delete(c.off, node)
	c.over = append(c.over, node)
}

var errWrongClock = errors.New("clock is off by more than a tenth of the interval: set it, and see that NTP runs there")

const (
	// tellAgain is the time after which a node whose clock went wrong again is named again.
	tellAgain = 10 * time.Minute
	// namesALine bounds a line of the log; `weir status` names all.
	namesALine = 20
)

// wrongClocks logs, once for all partitions of the process, which nodes have a wrong clock, or which broker.
type wrongClocks struct {
	mu   sync.Mutex
	told map[string]time.Time
	seen map[int32]seenClocks // by partition
}

// seenClocks is the view that one partition has of the clocks.
type seenClocks struct {
	leader int32
	right  bool // most nodes find the leader's clock right
	off    bool // the leader's clock
	at     time.Time
	waits  time.Time // since when there are nodes to name; zero: there are none
}

// leads notes a partition's view, and reports whether its leader's clock is off, and was off before. The clock is off
// if nearly all nodes of the partition are off by the same, while most nodes find another leader right.
func (w *wrongClocks) leads(partition, leader int32, c *clocks, now time.Time) (ms int64, off, before bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ms, alike, right := c.alike()
	for _, other := range w.seen {
		if other.leader != leader && other.right && now.Sub(other.at) < time.Minute {
			off = alike
		}
	}
	last := w.seen[partition]
	w.seen[partition] = seenClocks{leader, right, off, now, last.waits}
	return ms, off, last.off
}

// early reports whether it is too early to name nodes. The first news waits for one interval, until the other nodes
// have sent records too.
func (w *wrongClocks) early(partition int32, news bool, now time.Time, interval time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seen[partition]
	switch {
	case !news:
		s.waits = time.Time{}
	case s.waits.IsZero():
		s.waits = now
	}
	w.seen[partition] = s
	return news && now.Sub(s.waits) < interval
}

var errBrokersClock = errors.New("clock of this broker is off by more than a tenth of the interval, " +
	"against nodes that other brokers find right: set it, and see that NTP runs there")

// tell logs the nodes with trouble that began or ended since the last call, and exports their number. If the clock of
// the partition's leader is off, it names this broker instead.
func (w *wrongClocks) tell(l *loop, c *clocks, leader int32) {
	if l.stage.name != "collect" {
		return // partials have no sender's clock
	}
	l.meter.wrongClocks(len(c.off))
	now := time.Now()
	ms, off, before := w.leads(l.partition, leader, c, now)
	if before && !off {
		l.log.Info("clock of the broker is right again, or its nodes are silent", "stage", l.stage.name,
			"partition", l.partition, "broker", leader)
	}
	if w.early(l.partition, len(c.fresh)+len(c.over) > 0, now, l.cfg.Interval) {
		return
	}
	if off {
		c.news()
		if broker := w.untold([]string{fmt.Sprintf("broker %d", leader)}, now); len(broker) > 0 {
			l.log.Warn("clock of a broker is off", "stage", l.stage.name, "partition", l.partition,
				"broker", leader, "offset_ms", -ms, "count", len(c.off), "err", errBrokersClock)
		}
		return
	}
	fresh, over := c.news()
	fresh, over = w.untold(fresh, now), w.ended(over)
	for names := range slices.Chunk(fresh, namesALine) {
		var text []string
		for _, n := range names {
			text = append(text, fmt.Sprintf("%s %+dms", n, c.off[n].ms))
		}
		l.log.Warn("clocks of nodes are off", "stage", l.stage.name, "partition", l.partition,
			"node", strings.Join(text, ", "), "count", len(c.off), "err", errWrongClock)
	}
	for names := range slices.Chunk(over, namesALine) {
		l.log.Info("clocks of nodes are right again, or the nodes are silent", "stage", l.stage.name,
			"partition", l.partition, "node", strings.Join(names, ", "), "count", len(c.off))
	}
}

func magnitude(ms int64) int64 { return max(ms, -ms) }

// untold returns the nodes that were not named in the last minutes, and notes that they are now.
func (w *wrongClocks) untold(nodes []string, now time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(nodes, func(n string) bool {
		at, told := w.told[n]
		if told && now.Sub(at) < tellAgain {
			return true
		}
		if !told && len(w.told) >= maxClocks {
			return false
		}
		w.told[n] = now
		return false
	})
}

// ended returns the nodes whose trouble the log has. A trouble may last longer than tellAgain, so all are remembered.
func (w *wrongClocks) ended(nodes []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(nodes, func(n string) bool {
		_, told := w.told[n]
		return !told
	})
}
