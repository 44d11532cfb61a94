package table

import (
	"cmp"
	"slices"
)

// held is a row in a file, or a record: its key, the life of its job, and the offset of the record.
type held struct {
	key      Key
	life     Life
	date     string // of the file; empty: it is a record
	position int64
}

func (t *Table[R]) held(r *R, date string) held {
	return held{t.Key(r), t.Life(r), date, *t.Position(r)}
}

// edit describes the change of a date's file. The rows in put replace rows with the same key. The rows in drop are in
// another file now.
type edit[R any] struct {
	put  map[Key]R
	drop map[Key]bool
}

// plan returns the changes after which each life of a job has one row, made of its newest record. rows are the jobs'
// rows in all files. records may be newer or older than these rows. A record replaces all older rows and records of the
// same life. Rows of other lives stay: they belong to namesakes. A record that agrees with its row changes nothing.
func (t *Table[R]) plan(rows []held, records map[Key]R) map[string]*edit[R] {
	of := map[Number][]held{}
	for _, h := range rows {
		of[h.key.Number] = append(of[h.key.Number], h)
	}
	for k, r := range records {
		of[k.Number] = append(of[k.Number], t.held(&r, ""))
	}
	edits := map[string]*edit[R]{}
	at := func(date string) *edit[R] {
		if edits[date] == nil {
			edits[date] = &edit[R]{put: map[Key]R{}, drop: map[Key]bool{}}
		}
		return edits[date]
	}
	for _, all := range of {
		slices.SortFunc(all, newestFirst)
		for i, h := range all {
			old := slices.ContainsFunc(all[:i], func(newer held) bool { return newer.life.Same(h.life) })
			switch {
			case old && h.date != "":
				at(h.date).drop[h.key] = true
			case !old && h.date == "":
				r := records[h.key]
				at(t.Date(&r)).put[h.key] = r
			}
		}
	}
	return edits
}

// newestFirst orders rows and records of one number. Of one record's row and the record itself, the row comes first.
func newestFirst(a, b held) int {
	inFile := func(h held) int { return min(len(h.date), 1) }
	return cmp.Or(cmp.Compare(b.position, a.position), cmp.Compare(inFile(b), inFile(a)),
		cmp.Compare(b.life.To, a.life.To), cmp.Compare(b.life.From, a.life.From))
}
