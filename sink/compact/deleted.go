package compact

import (
	"maps"
	"slices"

	"github.com/weirhpc/weir/sink"
)

// Users may delete the directory of an old date, and keep its rollups. Late rows begin the date anew then. Their
// compaction is the generation after the rollups, and adds the rows to them too.

// afterRollups corrects next, the generation that follows from a date's files alone, by the date's rollups. small are
// the files that are not compacted. deleted is true if users deleted rows of the rollups, and all small files are late.
// After a crash ahead of the exchange, the rollups already contain some of the small files.
func afterRollups(next int64, there *rollupsFooter, small []sink.File) (generation int64, deleted bool) {
	if next > 1 || there == nil {
		return next, false
	}
	late := true
	for _, f := range small {
		if slices.Contains(there.inputs, f.Name) {
			return there.generation, false
		}
		late = late && f.Start >= there.next[f.Partition]
	}
	if !late { // an older copy of the date was brought back
		return next, false
	}
	return there.generation + 1, true
}

// behindRollups returns the task with the generation that its rollups ask for.
func (c *compactor) behindRollups(t task) (task, error) {
	there, err := footerOfRollups(rollupsPath(c.dir, t.date))
	if err != nil {
		return t, err
	}
	t.generation, t.deleted = afterRollups(t.generation, there, slices.Concat(slices.Collect(maps.Values(t.inputs))...))
	return t, nil
}

// deletedRows returns the number of rows in the rollups that are no longer in the date's directory.
func deletedRows(t task, there *rollupsFooter) int64 {
	switch {
	case there == nil:
		return 0
	case t.deleted:
		return there.intervals
	}
	return there.deleted
}

// nextOf returns the end of the files that the rollups will contain, by partition.
func nextOf(t task, there *rollupsFooter) map[int32]int64 {
	next := map[int32]int64{}
	if there != nil {
		maps.Copy(next, there.next)
	}
	for p, of := range t.inputs {
		for _, f := range of {
			next[p] = max(next[p], end(f))
		}
	}
	return next
}
