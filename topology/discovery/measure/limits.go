package measure

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Limits bound the cost of a measurement for a node. Each node enforces its own limits, regardless of the requests.
type Limits struct {
	PacketsPerSecond float64 `json:"packets_per_second"` // sent by this node; 0: no limit
	Share            float64 `json:"share"`              // of the time of one CPU, above 0 to 1; 0: no limit
}

// Check returns an error that names the limit out of range.
func (l Limits) Check() error {
	if l.PacketsPerSecond != 0 && !(l.PacketsPerSecond >= 1 && l.PacketsPerSecond <= 1e9) {
		return fmt.Errorf("%v packets per second: must be 1 to 1e9, or 0 for no limit", l.PacketsPerSecond)
	}
	if l.Share != 0 && !(l.Share >= .0001 && l.Share <= 1) {
		return fmt.Errorf("a share of the time of %v: must be .0001 to 1, or 0 for no limit", l.Share)
	}
	return nil
}

// stricter returns limits that hold both.
func (l Limits) stricter(o Limits) Limits {
	least := func(a, b float64) float64 {
		if a == 0 || b == 0 {
			return max(a, b)
		}
		return min(a, b)
	}
	return Limits{least(l.PacketsPerSecond, o.PacketsPerSecond), least(l.Share, o.Share)}
}

// medianLimits returns the median of each limit. Fewer than half of the nodes cannot change it much.
func medianLimits(all []Limits) Limits {
	median := func(of func(l Limits) float64) float64 {
		values := make([]float64, len(all))
		for i, l := range all {
			if values[i] = of(l); values[i] == 0 {
				values[i] = math.Inf(1)
			}
		}
		slices.Sort(values)
		if len(values) == 0 || math.IsInf(values[len(values)/2], 1) {
			return 0
		}
		return values[len(values)/2]
	}
	return Limits{
		PacketsPerSecond: median(func(l Limits) float64 { return l.PacketsPerSecond }),
		Share:            median(func(l Limits) float64 { return l.Share }),
	}
}

// minBurst is how many packets a node may send at once under any limit: a batch is useless if it is interrupted.
const minBurst = 64

// burst returns how many packets a node may send at once.
func (l Limits) burst() float64 { return max(minBurst, l.PacketsPerSecond/10) }

// pause returns how long a node that sent packets and was busy waits until it stays within its limits.
func (l Limits) pause(packets int, busy time.Duration) time.Duration {
	var wait time.Duration
	if l.PacketsPerSecond > 0 {
		wait = time.Duration(float64(packets)/l.PacketsPerSecond*float64(time.Second)) - busy
	}
	if l.Share > 0 {
		wait = max(wait, time.Duration(float64(busy)*(1/l.Share-1)))
	}
	return max(0, wait)
}

// bucket holds the remaining budget. It fills by rate, up to size.
type bucket struct {
	rate, size, level float64 // in units a second, units, units
	filled            time.Time
}

func newBucket(rate, size float64, now time.Time) bucket {
	return bucket{rate: rate, size: size, level: size, filled: now}
}

// take spends units. It spends nothing and returns false if there are too few.
func (b *bucket) take(units float64, now time.Time) bool {
	b.fill(now)
	if b.level < units {
		return false
	}
	b.level -= units
	return true
}

// owe spends units even if there are too few. It returns how long it takes until none are missing.
func (b *bucket) owe(units float64, now time.Time) time.Duration {
	b.fill(now)
	b.level -= units
	if b.level >= 0 || b.rate <= 0 {
		return 0
	}
	return time.Duration(-b.level / b.rate * float64(time.Second))
}

func (b *bucket) fill(now time.Time) {
	b.level = min(b.size, b.level+b.rate*now.Sub(b.filled).Seconds())
	b.filled = now
}

// longestPing returns how long a ping may take under the limits.
func (l Limits) longestPing(g Ping) time.Duration {
	opening := firstWait << openTries
	batch := l.pause(g.Trips+1, longest/time.Duration(g.Batches))
	return opening + longest + 2*time.Duration(g.Batches+1)*batch
}
