package table

import "math"

// Life is the time in which a job ran, in Unix milliseconds. Schedulers reuse numbers. So the time decides to which job
// a record belongs, among all jobs with its cluster, id and restart.
type Life struct{ From, To int64 }

// Same reports whether two records belong to one job: lives with one number do not overlap. Then the newer record
// corrects the older one, perhaps its start too. A record that begins at the end of another one, or later, belongs to a
// namesake.
func (l Life) Same(o Life) bool {
	return max(l.From, o.From) < min(l.past(), o.past())
}

// Start returns the begin of the life, or the least time if it is unknown: such a life is a single moment, its end.
func (l Life) Start() int64 {
	if l.From == l.To-1 {
		return math.MinInt64
	}
	return l.From
}

// past returns the time behind the life, which takes a millisecond at least.
func (l Life) past() int64 { return max(l.To, l.From+1) }
