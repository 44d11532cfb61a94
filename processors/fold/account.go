package fold

import "github.com/weirhpc/weir/schemas"

// Fold is a pure function of one partition's log, with its state: a Collector, a Merger or a Finder.
type Fold interface {
	// Apply folds the next entry of the log.
	Apply(e Entry) Effects
	// Progress returns the state once everything before position has been folded.
	Progress(position int64) *schemas.Progress
	// Abandon gives up the windows that a replay cannot know, after retention deleted its beginning.
	Abandon()
}

// Account holds the effects of a fold since the last commit. It keeps exactly-once: a successor folds from hold, and
// drops the effects of entries before position, since its predecessor has committed and counted these.
type Account struct {
	Fold     Fold
	From     int64 // position of the last commit
	resumed  int64 // position when this account was opened: entries before it are only replayed
	Position int64 // behind everything that was read, transaction markers included
	Counts   schemas.ProgressCounts
	Outputs  []schemas.Record
	Rejects  []Rejected
	Lost     *[2]int64 // offsets of which retention deleted some, for the next Progress
	replayed int64     // entries folded again
	read     int64     // behind everything that was read in this run

	cut        *cut // until the replay has ended
	Unreadable unreadable
	TopicID    string // of the input
	IntervalMs int64  // of the configuration; 0: not compared
	OtherTicks OtherInterval
	OtherNodes OtherInterval
	Clocks     Clocks
}

// cut is a replay whose beginning retention deleted.
type cut struct {
	from, to int64 // offsets that are gone
	open     int64 // records without a fate at the last commit
}

// OpenAccount continues from the last committed Progress, nil at the beginning of a partition. It returns where to read
// from. logStart is the first offset that the partition still has.
func OpenAccount(newFold func(p *schemas.Progress) Fold, p *schemas.Progress, logStart int64,
) (a *Account, start int64) {
	a = &Account{Fold: newFold(p)}
	if p == nil {
		a.From, a.resumed, a.Position, a.read = logStart, logStart, logStart, logStart
		return a, logStart
	}
	a.From, a.resumed, a.Position, a.Counts = p.Position, p.Position, p.Position, p.Counts
	a.TopicID, a.Unreadable.since, a.Unreadable.n = p.TopicID, p.UnreadableSince, p.Unreadable
	if logStart > p.Hold {
		a.cut = &cut{p.Hold, logStart, p.Open}
	}
	if logStart > p.Position {
		a.Lost = &[2]int64{p.Position, logStart}
		a.Counts.Lost += logStart - p.Position
		a.resumed, a.Position = logStart, logStart
		a.endReplay()
	}
	a.read = max(p.Hold, logStart)
	return a, a.read
}

// Replays reports whether entries are left that a predecessor committed.
func (a *Account) Replays() bool { return a.read < a.resumed }

// Add folds an entry. It drops the effects that a predecessor committed.
func (a *Account) Add(e Entry) {
	a.read = max(a.read, e.Offset+1)
	if e.Offset >= a.resumed {
		a.endReplay()
	}
	fx := a.Fold.Apply(e)
	if e.Offset < a.resumed {
		a.replayed++
		return
	}
	for i := range fx.Rejects {
		if !fx.Rejects[i].ByRule {
			a.Unreadable.add(e.AppendedMs, fx.Rejects[i])
		}
	}
	a.compare(fx)
	a.Clocks.Note(fx)
	a.Take(fx)
	a.Advance(e.Offset + 1)
}

// Take adds effects that are to be committed.
func (a *Account) Take(fx Effects) {
	a.Outputs = append(a.Outputs, fx.Outputs...)
	a.Rejects = append(a.Rejects, fx.Rejects...)
	a.Counts.Add(fx.Counts)
}

// Advance moves the position to next, behind entries or transaction markers.
func (a *Account) Advance(next int64) {
	if next > a.resumed {
		a.endReplay()
	}
	a.Position, a.read = max(a.Position, next), max(a.read, next)
}

// endReplay counts as lost the records that were open at the last commit and that retention deleted before the replay.
func (a *Account) endReplay() {
	if a.cut == nil {
		return
	}
	a.Fold.Abandon()
	if missing := a.cut.open - a.Fold.Progress(a.resumed).Open; missing > 0 {
		a.Counts.Lost += missing
		a.Lost = &[2]int64{a.cut.from, a.cut.to}
	}
	a.cut = nil
}

// HasNews reports whether there is something to commit at once.
func (a *Account) HasNews() bool { return len(a.Outputs) > 0 || len(a.Rejects) > 0 || a.Lost != nil }

// maxHeldRejects bounds the offsets that a Progress lists. The oldest of more are left out. A replay rejects these
// entries again for what they are, unless another version can read them.
const maxHeldRejects = 100_000

// Progress returns the Progress to commit with the outputs and rejects.
func (a *Account) Progress() *schemas.Progress {
	p := a.Fold.Progress(a.Position)
	p.From, p.Counts, p.TopicID = a.From, a.Counts, a.TopicID
	p.Unreadable, p.UnreadableSince = a.Unreadable.n, a.Unreadable.since
	if more := len(p.Rejected) - maxHeldRejects; more > 0 {
		p.Rejected = p.Rejected[more:]
	}
	if a.Lost != nil {
		p.LostFrom, p.LostTo = &a.Lost[0], &a.Lost[1]
	}
	return p
}

// Committed forgets the effects that are durable now.
func (a *Account) Committed() {
	a.From, a.Outputs, a.Rejects, a.Lost = a.Position, nil, nil, nil
}

// minuteMs is the time within which unreadable records are counted.
const minuteMs = 60_000

// unreadable counts the records that nobody can read. A bad deploy writes many of them in a short time. Append times
// decide, so that a replay decides the same. Records that a rule refuses do not count, or one node with a wrong clock
// would stop the partition.
type unreadable struct {
	Limit   int64
	since   int64 // append time of the first
	n       int64 // within a minute from since on
	Stopped *Rejected
}

// add counts an unreadable record. The one that passes the limit stops the partition.
func (u *unreadable) add(appendedMs int64, r Rejected) {
	age := appendedMs - u.since // negative if a broker's clock was set back
	if u.n == 0 || age >= minuteMs || age <= -minuteMs {
		u.since, u.n = appendedMs, 0
	}
	if u.n++; u.n > u.Limit && u.Stopped == nil {
		u.Stopped = &r
	}
}

// OtherInterval counts entries that name another interval_ms than the configuration.
type OtherInterval struct {
	N        int64
	LengthMs int64  // of the last one
	Sender   string // of the last one
}

// compare counts an entry with another interval_ms than ours. Its record becomes misrouted, or its Tick takes no
// record.
func (a *Account) compare(fx Effects) {
	if a.IntervalMs == 0 || fx.Length == 0 || fx.Length == a.IntervalMs {
		return
	}
	o := &a.OtherNodes
	if fx.Sender == "" {
		o = &a.OtherTicks
	}
	o.N, o.LengthMs, o.Sender = o.N+1, fx.Length, fx.Sender
}
