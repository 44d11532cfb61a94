package processors

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhpc/weir/processors/fold"
)

var errWrongClock = errors.New("clock is off by more than a tenth of the interval: set it, and see that NTP runs there")

const (
	// nameAgain is the time after which the log names a node again if its clock goes wrong again.
	nameAgain = 10 * time.Minute
	// maxNamed bounds the nodes that wrongClocks remembers.
	maxNamed = 1 << 15
	// namesALine bounds a line of the log; `weir status` names all.
	namesALine = 20
)

// wrongClocks logs, once for all partitions of the process, which nodes have a wrong clock, or which broker.
type wrongClocks struct {
	mu   sync.Mutex
	told map[string]time.Time
	seen map[int32]seenClocks // by partition
}

// seenClocks is how one partition sees the clocks.
type seenClocks struct {
	leader int32
	right  bool // most nodes find the leader's clock right
	off    bool // the leader's clock
	at     time.Time
	waits  time.Time // since when there are nodes to name; zero: there are none
}

// leads notes a partition's view, and reports whether its leader's clock is off, and was off before. The clock is off
// if nearly all nodes of the partition are off by the same, while most nodes find another leader right.
func (w *wrongClocks) leads(partition, leader int32, c *fold.Clocks, now time.Time) (ms int64, off, before bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ms, alike, right := c.Alike()
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

// log logs the nodes with trouble that began or ended since the last call, and exports their number. If the clock of
// the partition's leader is off, it names this broker instead.
func (w *wrongClocks) log(l *loop, c *fold.Clocks, leader int32) {
	if l.stage.Name != "collect" {
		return // partials have no sender's clock
	}
	l.meter.wrongClocks(c.Count())
	now := time.Now()
	ms, off, before := w.leads(l.partition, leader, c, now)
	if before && !off {
		l.log.Info("clock of the broker is right again, or its nodes are silent", "stage", l.stage.Name,
			"partition", l.partition, "broker", leader)
	}
	if w.early(l.partition, c.HasNews(), now, l.cfg.Interval) {
		return
	}
	if off {
		c.News()
		if broker := w.untold([]string{fmt.Sprintf("broker %d", leader)}, now); len(broker) > 0 {
			l.log.Warn("clock of a broker is off", "stage", l.stage.Name, "partition", l.partition,
				"broker", leader, "offset_ms", -ms, "count", c.Count(), "err", errBrokersClock)
		}
		return
	}
	fresh, over := c.News()
	fresh, over = w.untold(fresh, now), w.ended(over)
	for names := range slices.Chunk(fresh, namesALine) {
		var text []string
		for _, n := range names {
			text = append(text, fmt.Sprintf("%s %+dms", n, c.AheadMs(n)))
		}
		l.log.Warn("clocks of nodes are off", "stage", l.stage.Name, "partition", l.partition,
			"node", strings.Join(text, ", "), "count", c.Count(), "err", errWrongClock)
	}
	for names := range slices.Chunk(over, namesALine) {
		l.log.Info("clocks of nodes are right again, or the nodes are silent", "stage", l.stage.Name,
			"partition", l.partition, "node", strings.Join(names, ", "), "count", c.Count())
	}
}

// untold returns the nodes that were not named in the last minutes, and notes that they are now.
func (w *wrongClocks) untold(nodes []string, now time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(nodes, func(n string) bool {
		at, told := w.told[n]
		if told && now.Sub(at) < nameAgain {
			return true
		}
		if !told && len(w.told) >= maxNamed {
			return false
		}
		w.told[n] = now
		return false
	})
}

// ended returns the nodes that the log named before. A trouble may last longer than nameAgain, so all are remembered.
func (w *wrongClocks) ended(nodes []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(nodes, func(n string) bool {
		_, told := w.told[n]
		return !told
	})
}
