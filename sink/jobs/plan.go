package jobs

import (
	"cmp"
	"slices"
)

// held is a row in the file of a date.
type held struct {
	date string
	row  Row
}

// edit says how the file of a date changes. Rows are put in, in place of those with the same key. Rows go that are in
// another file now.
type edit struct {
	put  map[key]Row
	drop map[key]bool
}

// plan returns how files must change so that each job has one row, which is of its newest record. held are all rows
// that files have of the jobs, and records are newer or older ones. Nothing changes for a record that says what the row
// says already.
func plan(rows []held, records map[key]Row) map[string]*edit {
	of := map[key][]held{}
	for _, h := range rows {
		k := h.row.key()
		of[k] = append(of[k], h)
	}
	for k := range records {
		if of[k] == nil {
			of[k] = nil
		}
	}
	edits := map[string]*edit{}
	at := func(date string) *edit {
		if edits[date] == nil {
			edits[date] = &edit{put: map[key]Row{}, drop: map[key]bool{}}
		}
		return edits[date]
	}
	for k, has := range of {
		last, ok := newest(has)
		if r, given := records[k]; given && (!ok || r.Position > last.Position) {
			last = r
		}
		home, there := last.date(), false
		for _, h := range has {
			switch {
			case h.date != home:
				at(h.date).drop[k] = true
				continue
			case h.row.Position != last.Position:
				at(home).put[k] = last
			}
			there = true
		}
		if !there {
			at(home).put[k] = last
		}
	}
	return edits
}

// newest returns the row of the newest record. Only an archive that somebody copied together has several.
func newest(rows []held) (last Row, ok bool) {
	if len(rows) == 0 {
		return last, false
	}
	return slices.MaxFunc(rows, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.row.Position, b.row.Position), cmp.Compare(a.row.End, b.row.End))
	}).row, true
}
