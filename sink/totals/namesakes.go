package totals

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
)

// hourMs is how long the hours of rollups are.
const hourMs = 3_600_000

// span is the time [from, to) in Unix milliseconds in which intervals belong to a life, among all lives with its id.
type span struct{ from, to int64 }

func (s span) has(ms int64) bool { return s.from <= ms && ms < s.to }

// namesakes are the lives of each id and restart that several jobs had, in time order.
type namesakes map[schemas.JobKey][]jobs.Life

// namesakesIn finds the namesakes of an archive. It keeps eight bytes for each life. A date with unreadable jobs is
// left out: its own totals fail, and report the fault.
func namesakesIn(dir string) (namesakes, error) {
	dates, err := jobs.Dates(dir)
	if err != nil {
		return nil, err
	}
	seed, hashes := maphash.MakeSeed(), []uint64(nil)
	each := func(fn func(j jobs.Life, hash uint64)) {
		for _, date := range dates {
			lives, err := jobs.Lives(dir, date)
			if err != nil {
				continue
			}
			for _, j := range lives {
				if j.StartMs != nil {
					fn(j, maphash.Comparable(seed, j.JobKey))
				}
			}
		}
	}
	each(func(_ jobs.Life, hash uint64) { hashes = append(hashes, hash) })
	slices.Sort(hashes)
	several := map[uint64]bool{}
	for i := 1; i < len(hashes); i++ {
		if hashes[i-1] == hashes[i] {
			several[hashes[i]] = true
		}
	}
	found := namesakes{}
	if len(several) == 0 {
		return found, nil
	}
	each(func(j jobs.Life, hash uint64) {
		if several[hash] {
			found[j.JobKey] = append(found[j.JobKey], j)
		}
	})
	for _, lives := range found {
		slices.SortFunc(lives, byStart)
	}
	return found, nil
}

func byStart(a, b jobs.Life) int {
	return cmp.Or(cmp.Compare(*a.StartMs, *b.StartMs), cmp.Compare(a.EndMs, b.EndMs))
}

// alone is the span of a life without namesakes: whole hours, with a margin for starts and ends that became known late.
func alone(j jobs.Life) span {
	hours := func(ms int64) int64 { return ms - (ms%hourMs+hourMs)%hourMs }
	return span{hours(*j.StartMs - lateEndMs), hours(j.EndMs + lateEndMs + hourMs - 1)}
}

// span returns the span of a life, and the times at which a namesake bounds it. The id passes on when the later life
// begins.
func (n namesakes) span(j jobs.Life) (s span, cuts []int64) {
	s = alone(j)
	for _, o := range n[j.JobKey] {
		switch c := byStart(o, j); {
		case c < 0 && alone(o).to > s.from && *j.StartMs > s.from:
			s.from, cuts = *j.StartMs, append(cuts, *j.StartMs)
		case c > 0 && *o.StartMs < s.to:
			s.to, cuts = *o.StartMs, append(cuts, *o.StartMs)
		}
	}
	return s, cuts
}
