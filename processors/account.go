package processors

import "github.com/weirhpc/weir/schemas"

// Fold is a pure function of one partition's log, with its state: a Collector or a Merger.
type Fold interface {
	// Apply folds the next entry of the log.
	Apply(e Entry) Effects
	// Progress is the state once everything before position has been folded.
	Progress(position int64) *schemas.Progress
}

// account holds what a fold has said since the last commit. It is where exactly-once is kept: a successor folds from hold,
// and what the fold says of entries before position was said, and counted, by its predecessor.
type account struct {
	fold     Fold
	from     int64 // position of the last commit
	resumed  int64 // position when this account was opened: entries before it are only replayed
	position int64 // behind everything that was read
	counts   schemas.ProgressCounts
	outputs  []schemas.Record
	rejects  []Rejected
	lost     *[2]int64 // offsets that retention took before they were read, to be said in the next Progress
	replayed int64     // entries folded again
	refused  int       // entries rejected since an interval was closed, those of the replay among them
}

// openAccount continues from the last committed Progress, nil at the beginning of a partition, and says where to read
// from. logStart is the first offset that the partition still has.
func openAccount(newFold func(p *schemas.Progress) Fold, p *schemas.Progress, logStart int64) (a *account, start int64) {
	a = &account{fold: newFold(p)}
	if p == nil {
		a.from, a.resumed, a.position = logStart, logStart, logStart
		return a, logStart
	}
	a.from, a.resumed, a.position, a.counts = p.Position, p.Position, p.Position, p.Counts
	if logStart > p.Position {
		a.lost = &[2]int64{p.Position, logStart}
		a.counts.Lost += logStart - p.Position
		a.resumed, a.position = logStart, logStart
	}
	return a, max(p.Hold, logStart)
}

// take folds an entry.
func (a *account) take(e Entry) {
	fx := a.fold.Apply(e)
	if fx.Closes {
		a.refused = 0
	}
	a.refused += len(fx.Rejects)
	if e.Offset < a.resumed {
		a.replayed++
		return
	}
	a.outputs = append(a.outputs, fx.Outputs...)
	a.rejects = append(a.rejects, fx.Rejects...)
	addCounts(&a.counts, fx.Counts)
	a.advance(e.Offset + 1)
}

// advance notes that everything before next has been read, transaction markers included.
func (a *account) advance(next int64) { a.position = max(a.position, next) }

// hasNews reports whether there is something to commit at once.
func (a *account) hasNews() bool { return len(a.outputs) > 0 || len(a.rejects) > 0 || a.lost != nil }

// progress is what to commit with the outputs and rejects.
func (a *account) progress() *schemas.Progress {
	p := a.fold.Progress(a.position)
	p.From, p.Counts = a.from, a.counts
	if a.lost != nil {
		p.LostFrom, p.LostTo = &a.lost[0], &a.lost[1]
	}
	return p
}

// committed notes that everything said so far is durable.
func (a *account) committed() {
	a.from, a.outputs, a.rejects, a.lost = a.position, nil, nil, nil
}
