package sink

// Life is when a job ran, in Unix milliseconds. Schedulers use a number again. So the time tells which job a record is
// of, among all with a job's cluster, id and restart.
type Life struct{ From, To int64 }

// Same reports whether two records are of one job: the lives of a number do not overlap. The newer record corrects the
// other one then, perhaps its start too. A record that begins at another one's end, or later, is of a namesake.
func (l Life) Same(o Life) bool {
	return max(l.From, o.From) < min(l.past(), o.past())
}

// past returns the time behind the life, which takes a millisecond at least.
func (l Life) past() int64 { return max(l.To, l.From+1) }
