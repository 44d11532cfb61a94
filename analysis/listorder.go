package analysis

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/report/view"
)

// order is how jobs are sorted.
type order struct {
	metric string // of METRIC.dK or METRIC.mean
	decile int    // -1: the mean
	value  func(*view.JobLine) *float64
	least  bool // the least value comes first
}

// Sorts are the orders of jobs besides METRIC.d0 to METRIC.d10 and METRIC.mean. The worst job comes first.
func Sorts() []string {
	return []string{"wasted", "gpu-wasted", "busy", "spread", "memory", "severity", "time"}
}

func orderOf(name string) (o order, err error) {
	switch name {
	case "":
		o.value = func(l *view.JobLine) *float64 {
			if l.Start == nil {
				return nil
			}
			start := float64(*l.Start)
			return &start
		}
	case "wasted":
		o.value = func(l *view.JobLine) *float64 { return l.WastedH }
	case "gpu-wasted":
		o.value = func(l *view.JobLine) *float64 { return l.GPUWastedH }
	case "busy":
		o.value, o.least = func(l *view.JobLine) *float64 { return l.Busy }, true
	case "spread":
		o.value = func(l *view.JobLine) *float64 { return l.Spread }
	case "memory":
		o.value = func(l *view.JobLine) *float64 { return l.MemPerNode }
	case "time":
		o.value = func(l *view.JobLine) *float64 { return &l.TimeS }
	case "severity":
		o.value = func(l *view.JobLine) *float64 {
			if l.Finding == nil {
				return nil
			}
			rank := float64(classRank(l.Finding.Class)) + l.Finding.Severity/2
			return &rank
		}
	default:
		at := strings.LastIndexByte(name, '.')
		if o.metric = name[:max(0, at)]; o.metric == "" {
			return o, fmt.Errorf("%w: %q is none of %s, METRIC.dK or METRIC.mean", ErrSort, name,
				strings.Join(Sorts(), ", "))
		}
		o.decile = -1
		if which := name[at+1:]; which != "mean" {
			k, no := strconv.Atoi(strings.TrimPrefix(which, "d"))
			if no != nil || k < 0 || k > 10 || which != "d"+strconv.Itoa(k) {
				return o, fmt.Errorf("%w: %q ends in none of d0 to d10 and mean", ErrSort, name)
			}
			o.decile = k
		}
		o.value = func(l *view.JobLine) *float64 { return l.Of[name] }
	}
	return o, nil
}

// compare orders two lines. Those without the number come last.
func (o order) compare(a, b view.JobLine) int {
	x, y := o.value(&a), o.value(&b)
	switch {
	case x == nil && y == nil:
		return byID(a, b)
	case x == nil:
		return 1
	case y == nil:
		return -1
	case o.least:
		return cmp.Or(cmp.Compare(*x, *y), byID(a, b))
	}
	return cmp.Or(cmp.Compare(*y, *x), byID(a, b))
}
