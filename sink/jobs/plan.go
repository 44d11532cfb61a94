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

// plan returns how the files must change so that each life of a job has one row, made of its newest record. rows are
// the jobs' rows in all files. records may be newer or older than these rows. A record replaces all older rows and
// records of the same life. Rows of other lives stay: they belong to namesakes. A record that agrees with its row
// changes nothing.
func plan(rows []held, records map[key]Row) map[string]*edit {
	of := map[number][]held{}
	for _, h := range rows {
		n := h.row.key().number
		of[n] = append(of[n], h)
	}
	for k, r := range records {
		of[k.number] = append(of[k.number], held{"", r}) // in no file
	}
	edits := map[string]*edit{}
	at := func(date string) *edit {
		if edits[date] == nil {
			edits[date] = &edit{put: map[key]Row{}, drop: map[key]bool{}}
		}
		return edits[date]
	}
	for _, all := range of {
		slices.SortFunc(all, newestFirst)
		for i, h := range all {
			life, home := h.row.Life(), h.row.date()
			old := slices.ContainsFunc(all[:i], func(newer held) bool { return newer.row.Life().Same(life) })
			if h.date != "" && (old || h.date != home) {
				at(h.date).drop[h.row.key()] = true
			}
			if !old && h.date != home {
				at(home).put[h.row.key()] = h.row
			}
		}
	}
	return edits
}

// newestFirst orders rows and records of one number. Of one record's row and the record itself, the row comes first.
func newestFirst(a, b held) int {
	inFile := func(h held) int { return min(len(h.date), 1) }
	return cmp.Or(cmp.Compare(b.row.Position, a.row.Position), cmp.Compare(inFile(b), inFile(a)),
		cmp.Compare(b.row.End, a.row.End), cmp.Compare(b.row.Life().From, a.row.Life().From))
}
