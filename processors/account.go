package processors

import "github.com/weirhpc/weir/schemas"

// Fold is a pure function of one partition's log, with its state: a Collector, a Merger or a Finder.
type Fold interface {
	// Apply folds the next entry of the log.
	Apply(e Entry) Effects
	// Progress returns the state once everything before position has been folded.
	Progress(position int64) *schemas.Progress
	// abandon gives up what a replay cannot know, after retention deleted its beginning.
	abandon()
}

// account holds the effects of a fold since the last commit. It keeps exactly-once: a successor folds from hold, and
// drops the effects of entries before position, since its predecessor has committed and counted these.
type account struct {
	fold     Fold
	from     int64 // position of the last commit
	resumed  int64 // position when this account was opened: entries before it are only replayed
	position int64 // behind everything that was read, transaction markers included
	counts   schemas.ProgressCounts
	outputs  []schemas.Record
	rejects  []rejectedEntry
	lost     *[2]int64 // offsets of which retention deleted some, for the next Progress
	replayed int64     // entries folded again
	read     int64     // behind everything that was read in this run

	cut        *cut // until the replay has ended
	unreadable unreadable
	topicID    string // of the input
	intervalMs int64  // of the configuration; 0: not compared
	otherTicks otherInterval
	otherNodes otherInterval
	clocks     clocks
}

// cut is a replay whose beginning retention deleted.
type cut struct {
	from, to int64 // offsets that are gone
	open     int64 // records without a fate at the last commit
}

// openAccount continues from the last committed Progress, nil at the beginning of a partition. It returns where to read
// from. logStart is the first offset that the partition still has.
func openAccount(newFold func(p *schemas.Progress) Fold, p *schemas.Progress, logStart int64,
) (a *account, start int64) {
	a = &account{fold: newFold(p)}
	if p == nil {
		a.from, a.resumed, a.position, a.read = logStart, logStart, logStart, logStart
		return a, logStart
	}
	a.from, a.resumed, a.position, a.counts = p.Position, p.Position, p.Position, p.Counts
	a.topicID, a.unreadable.since, a.unreadable.n = p.TopicID, p.UnreadableSince, p.Unreadable
	if logStart > p.Hold {
		a.cut = &cut{p.Hold, logStart, p.Open}
	}
	if logStart > p.Position {
		a.lost = &[2]int64{p.Position, logStart}
		a.counts.Lost += logStart - p.Position
		a.resumed, a.position = logStart, logStart
		a.endReplay()
	}
	a.read = max(p.Hold, logStart)
	return a, a.read
}

// replays reports whether what a predecessor committed is not folded to its end.
func (a *account) replays() bool { return a.read < a.resumed }

// add folds an entry. It drops what a predecessor has committed.
func (a *account) add(e Entry) {
	a.read = max(a.read, e.Offset+1)
	if e.Offset >= a.resumed {
		a.endReplay()
	}
	fx := a.fold.Apply(e)
	if e.Offset < a.resumed {
		a.replayed++
		return
	}
	for i := range fx.Rejects {
		if !fx.Rejects[i].ByRule {
			a.unreadable.add(e.AppendedMs, fx.Rejects[i])
		}
	}
	a.compare(fx)
	a.clocks.note(fx)
	a.take(fx)
	a.advance(e.Offset + 1)
}

// take adds effects that are to be committed.
func (a *account) take(fx Effects) {
	a.outputs = append(a.outputs, fx.Outputs...)
	a.rejects = append(a.rejects, fx.Rejects...)
	addCounts(&a.counts, fx.Counts)
}

// advance moves the position to next, behind entries or transaction markers.
func (a *account) advance(next int64) {
	if next > a.resumed {
		a.endReplay()
	}
	a.position, a.read = max(a.position, next), max(a.read, next)
}

// endReplay counts as lost the records that were open at the last commit and that retention deleted before the replay.
func (a *account) endReplay() {
	if a.cut == nil {
		return
	}
	a.fold.abandon()
	if missing := a.cut.open - a.fold.Progress(a.resumed).Open; missing > 0 {
		a.counts.Lost += missing
		a.lost = &[2]int64{a.cut.from, a.cut.to}
	}
	a.cut = nil
}

// hasNews reports whether there is something to commit at once.
func (a *account) hasNews() bool { return len(a.outputs) > 0 || len(a.rejects) > 0 || a.lost != nil }

// maxHeldRejects bounds the offsets that a Progress lists. The oldest of more are left out. A replay rejects these
// entries again for what they are, unless another version can read what this one could not.
const maxHeldRejects = 100_000

// progress returns the Progress to commit with the outputs and rejects.
func (a *account) progress() *schemas.Progress {
	p := a.fold.Progress(a.position)
	p.From, p.Counts, p.TopicID = a.from, a.counts, a.topicID
	p.Unreadable, p.UnreadableSince = a.unreadable.n, a.unreadable.since
	if more := len(p.Rejected) - maxHeldRejects; more > 0 {
		p.Rejected = p.Rejected[more:]
	}
	if a.lost != nil {
		p.LostFrom, p.LostTo = &a.lost[0], &a.lost[1]
	}
	return p
}

// committed forgets the effects that are durable now.
func (a *account) committed() {
	a.from, a.outputs, a.rejects, a.lost = a.position, nil, nil, nil
}

// minuteMs is the time within which unreadable records are counted.
const minuteMs = 60_000

// unreadable counts the records that nobody can read. A bad deploy writes many of them in a short time. Append times
// decide, so that a replay decides the same. Records that a rule refuses do not count, or one node with a wrong clock
// would stop the partition.
type unreadable struct {
	limit   int64
	since   int64 // append time of the first
	n       int64 // within a minute from since on
	stopped *rejectedEntry
}

// add counts an unreadable record. The one that passes the limit stops the partition.
func (u *unreadable) add(appendedMs int64, r rejectedEntry) {
	age := appendedMs - u.since // negative if a broker's clock was set back
	if u.n == 0 || age >= minuteMs || age <= -minuteMs {
		u.since, u.n = appendedMs, 0
	}
	if u.n++; u.n > u.limit && u.stopped == nil {
		u.stopped = &r
	}
}

// otherInterval counts entries that name another interval_ms than the configuration.
type otherInterval struct {
	n        int64
	lengthMs int64  // of the last one
	sender   string // of the last one
}

// compare counts an entry with another interval_ms than ours. Its record becomes misrouted, or its Tick takes no
// record.
func (a *account) compare(fx Effects) {
	if a.intervalMs == 0 || fx.Length == 0 || fx.Length == a.intervalMs {
		return
	}
	o := &a.otherNodes
	if fx.Sender == "" {
		o = &a.otherTicks
	}
	o.n, o.lengthMs, o.sender = o.n+1, fx.Length, fx.Sender
}
