package schemas

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirhpc/weir/naming"
)

const (
	// MaxMetrics is the largest number of metrics in a record.
	MaxMetrics = 1024
	// MaxReported is the largest number of metrics of its own that a job may report, in a record and in an interval.
	MaxReported = 16
	// MaxNodes is the largest number of nodes of a job.
	MaxNodes = 1 << 22
	// MaxEpoch is the last epoch. A balancer counts on from the epoch of a record, so a record must not exhaust it.
	MaxEpoch = 1 << 53
)

// Bounds on the fields of records. They are far above the needs of any machine, and far below sizes that would do harm.
const (
	maxNameBytes  = naming.MaxBytes // of units and of ids too
	maxIntervalMs = 24 * 3600 * 1000
	maxCount      = 1_000_000_000_000 // values of one metric of one share: sums over all shares stay within int64
	minTimeMs     = 0
	maxTimeMs     = 4102444800000 // the year 2100: sums and multiples of times stay within int64
	maxTotal      = 1 << 60       // values of one metric of all shares: above 2 × maxCount × maxParts
	maxParts      = 10_000        // collectors, as in config
	maxCPUs       = 1 << 16       // of one node
	maxDevices    = 1024          // sockets of one node, or GPUs
	maxTextBytes  = 4096          // of free text
	maxHeadBytes  = 1024          // of a Reject
	maxCores      = 1 << 38       // of a job: MaxNodes × maxCPUs
	maxSeconds    = 1 << 32       // of a time limit
	maxBytes      = 1 << 60       // of a node's memory

	maxFactBytes = 128  // of a text about a node
	maxThreads   = 64   // of one core
	maxNICs      = 256  // network ports of one node
	maxRate      = 1e15 // bit/s of a network port
	maxPeak      = 1e18 // FLOP/s or bytes/s of a node

	maxHostBytes   = 253 // of a host's name in DNS
	minSecretBytes = 16
	maxSecretBytes = 64
)

// MaxOrderSeconds bounds the duration of a measurement of latencies.
const MaxOrderSeconds = 24 * 3600

// OrderWait is the longest time that a measurement waits for its nodes, and the age at which agents ignore an order.
const OrderWait = 2 * time.Minute

// twice returns the position of an item that equals an earlier one, or -1. Records of weir have ascending items: it
// allocates nothing for these.
func twice(n int, compare func(a, b int) int) int {
	ascending := 1
	for ascending < n && compare(ascending-1, ascending) < 0 {
		ascending++
	}
	if ascending >= n {
		return -1
	}
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return compare(int(a), int(b)) })
	for i := 1; i < n; i++ {
		if compare(int(order[i-1]), int(order[i])) == 0 {
			return int(order[i])
		}
	}
	return -1
}

// invalid names the field first, since people search the log and the topic of rejects by it. Callers cut values from
// the record to 80 bytes, because they may be anything.
func invalid(field, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

// checkInterval checks a property that every fold relies on: records of one interval have the same start, regardless of
// their node. So a start is a multiple of the length, and both are in milliseconds.
func checkInterval(start, ms int64) error {
	if ms <= 0 || ms > maxIntervalMs {
		return invalid("interval_ms", "%d is not in 1 to %d", ms, int64(maxIntervalMs))
	}
	if start < minTimeMs || start > maxTimeMs || start%ms != 0 {
		return invalid("interval_start", "%d is not a multiple of interval_ms %d between 1970 and 2100", start, ms)
	}
	return nil
}

// checkJob allows the two ids of ours that no job may have, because records of nodes and of the machine carry them.
func checkJob(jobID string, restart int32) error {
	if !ValidJobID(jobID) && jobID != JobRest && jobID != JobSystem {
		return invalid("job_id", "%.80q is not a job's name", jobID)
	}
	if restart < 0 {
		return invalid("restart", "%d is negative", restart)
	}
	return nil
}

func checkEpoch(epoch int64) error {
	if epoch < 0 || epoch > MaxEpoch {
		return invalid("epoch", "%d is not in 0 to %d", epoch, int64(MaxEpoch))
	}
	return nil
}

// checkTime checks a time that need not be a multiple of an interval.
func checkTime(field string, ms int64) error {
	if ms < minTimeMs || ms > maxTimeMs {
		return invalid(field, "%d is not between 1970 and 2100", ms)
	}
	return nil
}

// checkNodes refuses a node that is listed twice, since it would be expected twice.
func checkNodes(field string, nodes []string) error {
	for _, n := range nodes {
		if !naming.Valid(n) {
			return invalid(field, "%.80q is not a host's name", n)
		}
	}
	if i := twice(len(nodes), func(a, b int) int { return cmp.Compare(nodes[a], nodes[b]) }); i >= 0 {
		return invalid(field, "%s is there twice", nodes[i])
	}
	return nil
}

// checkMetric checks the name, unit and scope of a metric. Names and units reach terminals and SQL unchanged.
func checkMetric(name, unit, scope string) error {
	switch {
	case !naming.Valid(name):
		return invalid("metrics.name", "%.80q is not a metric's name", name)
	case !validUnit(unit):
		return invalid("metrics.unit", "%.80q of %s is not a unit: at most %d bytes of printable UTF-8",
			unit, name, maxNameBytes)
	case !ValidScope(scope):
		return invalid("metrics.scope", "%.80q is not core, socket, gpu, job or node", scope)
	}
	return nil
}

// ValidScope reports whether a metric may have this scope.
func ValidScope(scope string) bool {
	switch scope {
	case ScopeCore, ScopeSocket, ScopeGPU, ScopeJob, ScopeNode:
		return true
	}
	return false
}

// places returns the least and the largest number of values of a metric, including missing ones, in a record of so many
// CPUs. A record does not contain the number of sockets or GPUs of its node.
func places(scope string, cpus int) (least, most int) {
	switch scope {
	case ScopeCore:
		return cpus, cpus
	case ScopeSocket, ScopeGPU:
		return 1, maxDevices
	}
	return 1, 1
}

// checkMetrics checks rules for the metrics of all kinds of records.
func checkMetrics(n int, name func(i int) string) error {
	if n > MaxMetrics {
		return invalid("metrics", "%d are more than %d", n, MaxMetrics)
	}
	if i := twice(n, func(a, b int) int { return cmp.Compare(name(a), name(b)) }); i >= 0 {
		return invalid("metrics.name", "%s is there twice", name(i))
	}
	return nil
}

// checkReported checks the names of the metrics that a job reported. Each must be one of the record's n metrics, with
// the names name(i) and the scopes scope(i).
func checkReported(reported []string, n int, name, scope func(i int) string) error {
	if len(reported) > MaxReported {
		return invalid("reported", "%d are more than %d", len(reported), MaxReported)
	}
	for k, r := range reported {
		if k > 0 && reported[k-1] >= r {
			return invalid("reported", "%.80q does not come after %.80q", r, reported[k-1])
		}
		i := 0
		for i < n && name(i) != r {
			i++
		}
		if i == n || scope(i) != ScopeNode {
			return invalid("reported", "%.80q is no metric of the record with scope node", r)
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// ascending reports whether all values are finite and none is below the previous one. Equal neighbours are valid: many
// nodes may have the same value.
func ascending(v []float64) bool {
	for i := range v {
		if !finite(v[i]) || i > 0 && v[i] < v[i-1] {
			return false
		}
	}
	return true
}
