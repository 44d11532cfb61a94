package sink

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNames(t *testing.T) {
	name := fileName("weir.job-summary", 7, 12345)
	if want := "weir.job-summary-7-00000000000000012345.parquet"; name != want {
		t.Errorf("fileName: %s, want %s", name, want)
	}
	if p, start, ok := parseName("weir.job-summary", name); !ok || p != 7 || start != 12345 {
		t.Errorf("parseName(%s) = %d, %d, %v", name, p, start, ok)
	}
	for _, name := range []string{
		"", "weir.job-summary-7-12345.parquet", "weir.job-summary-07-00000000000000012345.parquet",
		"weir.job-summary--7-00000000000000012345.parquet", "other.job-summary-7-00000000000000012345.parquet",
		"weir.job-summary-7-00000000000000012345", ".tmp-1-host-0", "weir.job-summary-7-99999999999999999999.parquet",
		"weir.job-summary-7-00000000000000012345.parquet.parquet", "weir.job-summary-2-7-00000000000000012345.parquet",
	} {
		if _, _, ok := parseName("weir.job-summary", name); ok {
			t.Errorf("parseName(%q) takes it", name)
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("weir.job-summary-7-00000000000000012345.parquet")
	f.Fuzz(func(t *testing.T, name string) {
		if p, start, ok := parseName("weir.job-summary", name); ok && fileName("weir.job-summary", p, start) != name {
			t.Errorf("parseName(%q) = %d, %d: another file's", name, p, start)
		}
		parseTemp(name)
		if date, ok := parseDate(name); ok && name != datePrefix+date {
			t.Errorf("parseDate(%q) = %q", name, date)
		}
	})
}

func TestCheck(t *testing.T) {
	at := func(date, previous string, start, next int64) link {
		return link{path: fileName("t", 0, start), date: date, previous: previous, start: start, next: next}
	}
	broken := func(start int64) link {
		return link{path: fileName("t", 0, start), date: "2026-11-19", start: start, fault: ErrBadFile}
	}
	const compacted = "2026-11-20"
	lost := func(start int64) link {
		path := CompactedName("t", 0, start)
		return link{path: path, date: compacted, start: start, compacted: true, fault: ErrBadFile}
	}
	const d1, d2, d3 = "2026-11-19", "2026-11-20", "2026-11-21"
	for name, c := range map[string]struct {
		links  []link
		oldest string
		holes  [][2]int64
		err    error
	}{
		"nothing":         {},
		"one, anywhere":   {links: []link{at(d2, d1, 50, 60)}, oldest: d2},
		"whole, unsorted": {links: []link{at(d2, d1, 20, 30), at(d1, "", 0, 20)}, oldest: d1},
		"a file is gone": {
			links:  []link{at(d1, "", 0, 10), at(d1, d1, 20, 30)},
			oldest: d1, holes: [][2]int64{{10, 20}},
		},
		"two holes": {
			links:  []link{at(d1, "", 0, 1), at(d1, d1, 2, 3), at(d1, d1, 4, 5)},
			oldest: d1, holes: [][2]int64{{1, 2}, {3, 4}},
		},
		"old date deleted": {links: []link{at(d2, d1, 0, 10), at(d2, d1, 20, 30)}, oldest: d2},
		"middle date deleted": {
			links:  []link{at(d1, "", 0, 10), at(d3, d2, 20, 30)},
			oldest: d1, holes: [][2]int64{{10, 20}},
		},
		"two beginnings": {
			links:  []link{at(d2, "", 0, 10), at(d2, "", 20, 30)},
			oldest: d2, holes: [][2]int64{{10, 20}},
		},
		"damaged, in between":  {links: []link{at(d1, "", 0, 10), broken(10), at(d1, d1, 20, 30)}, oldest: d1},
		"damaged, after a gap": {links: []link{at(d1, "", 0, 10), broken(15), at(d1, d1, 20, 30)}, oldest: d1},
		"hole behind damaged": {
			links:  []link{broken(0), at(d1, d1, 10, 20), at(d1, d1, 30, 40)},
			oldest: d1, holes: [][2]int64{{20, 30}},
		},
		"damaged, compacted, of two ranges": {
			links:  []link{at(d1, "", 0, 10), lost(10), at(d3, d2, 20, 30), at(d3, d2, 40, 50)},
			oldest: d1,
		},
		"hole behind a compacted file that is damaged": {
			links:  []link{at(d1, "", 0, 10), lost(10), at(d3, d2, 20, 30), at(d3, d3, 40, 50)},
			oldest: d1, holes: [][2]int64{{30, 40}},
		},
		"hole before a compacted file that is damaged": {
			links:  []link{at(d1, "", 0, 10), at(d3, d2, 20, 30), lost(30), at(d3, d2, 40, 50)},
			oldest: d1, holes: [][2]int64{{10, 20}},
		},
		"overlap, damaged": {
			links:  []link{at(d1, "", 0, 11), broken(10), at(d1, d1, 20, 30)},
			oldest: d1, err: ErrBadFile,
		},
		"overlap": {
			links:  []link{at(d1, "", 0, 11), at(d1, d1, 10, 20)},
			oldest: d1, err: ErrBadFile,
		},
		"two of the same name": {
			links:  []link{at(d1, "", 0, 10), at(d2, "", 0, 10)},
			oldest: d1, err: ErrBadFile,
		},
	} {
		t.Run(name, func(t *testing.T) {
			holes, err := check(c.links, c.oldest)
			if !errors.Is(err, c.err) {
				t.Fatalf("check: %v, want %v", err, c.err)
			}
			var got [][2]int64
			for _, h := range holes {
				got = append(got, [2]int64{h.before.next, h.after.start})
			}
			if diff := cmp.Diff(c.holes, got); diff != "" {
				t.Errorf("holes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOldestDate: rows that came late make no date the oldest. This holds for a date that never was and for a date that
// users deleted. Otherwise all files between this date and the oldest kept date would be missing.
func TestOldestDate(t *testing.T) {
	t.Parallel()
	const d70, d1, d2, d3, d4 = "1970-01-01", "2026-11-19", "2026-11-20", "2026-11-21", "2026-11-22"
	at := func(partition int32, date, previous string, start, next int64) File {
		return File{
			Path: date + "/" + fileName("t", partition, start), Date: date, Partition: partition, Start: start,
			Footer: Footer{Topic: "t", Partition: partition, Start: start, Next: next, PreviousDate: previous},
		}
	}
	// Around the midnight between d2 and d3 the files of both dates alternated. Users have deleted d1 and d2.
	kept := []File{at(0, d3, d2, 10, 20), at(0, d3, d2, 30, 40), at(0, d4, d3, 40, 50), at(1, d3, d2, 7, 8)}
	for name, c := range map[string]struct {
		more   []File
		oldest string
		holes  int
	}{
		"nothing came late": {nil, d3, 0},
		"a row of 1970":     {[]File{at(1, d70, d3, 8, 9)}, d3, 0},
		"two files of 1970": {[]File{at(1, d70, d3, 8, 9), at(1, d70, d70, 9, 10)}, d3, 0},
		"late rows of deleted dates": {
			[]File{at(1, d1, d3, 8, 9), at(1, d3, d1, 9, 12), at(0, d2, d4, 50, 60)}, d3, 0,
		},
		"the older date is there":                     {[]File{at(1, d2, d1, 5, 7)}, d2, 1},
		"of the older date the first file is missing": {[]File{at(1, d2, d2, 5, 7)}, d2, 1},
		"the chain begins in it":                      {[]File{at(2, d1, "", 0, 7)}, d1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			found, oldest := linksOf(append(slices.Clone(kept), c.more...))
			holes, err := check(found[0], oldest)
			if oldest != c.oldest || len(holes) != c.holes || err != nil {
				t.Errorf("oldest %s, holes %v, %v: want %s, and %d", oldest, holes, err, c.oldest, c.holes)
			}
		})
	}
}
