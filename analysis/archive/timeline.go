package archive

import (
	"math"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/table"
	"github.com/weirhpc/weir/sink/totals"
)

// slackMs is the time by which intervals may lie behind an end that was known late, or ahead of a corrected start.
const slackMs = 600_000

// Timeline finds things by job and time: namesakes have one key.
type Timeline[T any] map[schemas.JobKey][]moment[T]

type moment[T any] struct {
	When table.Life
	Of   T
}

// Add notes the life of a thing.
func (t Timeline[T]) Add(key schemas.JobKey, when table.Life, of T) {
	t[key] = append(t[key], moment[T]{when, of})
}

// At returns the thing that lived at a time. Some namesakes are unknown, so a time after an end belongs to another
// namesake.
func (t Timeline[T]) At(key schemas.JobKey, ms int64) (found T, ok bool) {
	best := int64(math.MinInt64)
	for _, m := range t[key] {
		from := m.When.Start()
		past := m.When.To
		if past < math.MaxInt64-slackMs {
			past += slackMs
		}
		if ms < max(from, math.MinInt64+slackMs)-slackMs || ms >= past {
			continue
		}
		if from > ms { // only its correction makes it so: any other is nearer
			from = math.MinInt64 + 1
		}
		if !ok || from > best {
			found, ok, best = m.Of, true, from
		}
	}
	return found, ok
}

// KeyOf returns the key of an archived job, which its namesakes have too.
func KeyOf(r *jobs.Row) schemas.JobKey { return schemas.JobKey{JobID: r.JobID, Restart: r.Restart} }

// OfTotal returns the thing to which a total belongs: it lived in the middle of the total.
func (t Timeline[T]) OfTotal(total *totals.Total) (found T, ok bool) {
	return t.At(schemas.JobKey{JobID: total.JobID, Restart: total.Restart}, total.Start+(total.End-total.Start)/2)
}
