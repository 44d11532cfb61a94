package totals

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
)

// picked is a life of a job that gets totals.
type picked struct {
	jobs.Life
	span
	cuts  []int64 // times at which a namesake bounds the span
	final bool
}

// name is how a footer names a life that waits.
func (p *picked) name() string {
	if len(p.cuts) == 0 {
		return p.String()
	}
	return fmt.Sprintf("%s@%d", p, *p.StartMs)
}

// pick returns the lives of a date that get totals, sorted, and the lives that wait: they ended, and are not final.
// With interim the waiting lives get totals too. Jobs that never started get none.
func pick(ended []jobs.Life, n namesakes, final func(*picked) bool, interim bool) (all, waiting []picked) {
	for _, j := range ended {
		if j.StartMs == nil || j.JobID == schemas.JobRest || j.JobID == schemas.JobSystem {
			continue
		}
		p := picked{Life: j}
		p.span, p.cuts = n.span(j)
		p.final = final(&p)
		if !p.final {
			waiting = append(waiting, p)
		}
		if p.final || interim {
			all = append(all, p)
		}
	}
	inOrder := func(a, b picked) int { return cmp.Or(compact.CompareJobs(a.JobKey, b.JobKey), byStart(a.Life, b.Life)) }
	same := func(a, b picked) bool { return a.JobKey == b.JobKey && *a.StartMs == *b.StartMs }
	slices.SortFunc(waiting, inOrder)
	slices.SortFunc(all, inOrder)
	return slices.CompactFunc(all, same), slices.CompactFunc(waiting, same)
}

func dateOf(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }

// lateEndMs is how long after a job's end intervals may still be planned for it: until the balancer learns of the end.
const lateEndMs = 600_000

// touched returns the dates of the jobs' lives, in order, each with the jobs that have intervals there. Only dates that
// are known count: a job that began long ago must not make a list of years.
func touched(all []picked, known []string) (dates []string, of map[string][]schemas.JobKey) {
	of = map[string][]schemas.JobKey{}
	for _, j := range all {
		first, last := dateOf(*j.StartMs), dateOf(j.EndMs+lateEndMs)
		at, _ := slices.BinarySearch(known, first)
		for ; at < len(known) && known[at] <= last; at++ {
			if of[known[at]] == nil {
				dates = append(dates, known[at])
			}
			if keys := of[known[at]]; len(keys) == 0 || keys[len(keys)-1] != j.JobKey {
				of[known[at]] = append(keys, j.JobKey)
			}
		}
	}
	slices.Sort(dates)
	return dates, of
}

// recipe lists the sources of a file of totals. It is the same before and after a compaction.
type recipe struct {
	topic string
	jobs  string   // a hash of the jobs, their lives, and whether they are final
	dates []string // each with its lineage
	// next are the positions behind the files of each date, by partition. They follow from the lineages.
	next map[string]map[int32]int64
	// waiting are jobs that ended and were not final, as texts. They have totals if interim. Both follow from the jobs.
	waiting []string
	interim bool
}

func recipeOf(topic string, all []picked, dates []compact.Inputs) recipe {
	h := sha256.New()
	for _, j := range all {
		fmt.Fprintf(h, "%q %d %d %d %v\n", j.JobID, j.Restart, *j.StartMs, j.EndMs, j.final)
		if len(j.cuts) > 0 {
			fmt.Fprintf(h, "cut %d %d\n", j.from, j.to)
		}
	}
	r := recipe{topic: topic, jobs: hex.EncodeToString(h.Sum(nil)[:16]), next: map[string]map[int32]int64{}}
	for i := range dates {
		if in := &dates[i]; in.Lineage != "" {
			r.dates = append(r.dates, in.Date+" "+in.Lineage)
			r.next[in.Date] = in.Next()
		}
	}
	return r
}

// lineage returns the lineage of a date; empty if the date is not in the recipe.
func (r recipe) lineage(date string) string {
	for _, made := range r.dates {
		if of, lineage, _ := strings.Cut(made, " "); of == date {
			return lineage
		}
	}
	return ""
}

func (r recipe) same(o recipe) bool {
	return r.topic == o.topic && r.jobs == o.jobs && slices.Equal(r.dates, o.dates)
}

// verdict is the decision about a date's totals.
type verdict int

const (
	leave verdict = iota // they are as they should be
	keep                 // some of their sources are no longer in the archive
	write
)

// decide compares the recipe of a file of totals with the recipe of today. there is nil if there is no file. A file
// without a job is not begun. present reports whether the archive has files of a date. A file of totals stays unchanged
// if users deleted a date that it was made of.
func decide(there *recipe, now recipe, jobs int, present func(date string) bool) (v verdict, lost string) {
	switch {
	case there == nil && jobs == 0:
		return leave, ""
	case there == nil:
		return write, ""
	case there.same(now):
		return leave, ""
	}
	for _, made := range there.dates {
		date := made[:min(len(made), len(time.DateOnly))]
		if !slices.Contains(now.dates, made) && !present(date) {
			return keep, date
		}
	}
	return write, ""
}
