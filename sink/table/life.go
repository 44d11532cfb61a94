package table

// Life is the time in which a job ran, in Unix milliseconds. Schedulers reuse numbers. So the time decides to which job
// a record belongs, among all jobs with its cluster, id and restart.
type Life struct{ From, To int64 }

// Same reports whether two records belong to one job: lives with one number do not overlap. Then the newer record
// corrects the older one, perhaps its start too. A record that begins at the end of another one, or later, belongs to a
// namesake.
func (l Life) Same(o Life) bool {
	return max(l.From, o.From) < min(l.past(), o.past())
}

// past returns the time behind the life, which takes a millisecond at least.
func (l Life) past() int64 { return max(l.To, l.From+1) }
