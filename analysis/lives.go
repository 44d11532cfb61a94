package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/table"

	"github.com/weirhpc/weir/analysis/archive"
)

var (
	// ErrAmbiguous is returned for an id that several jobs have had. The error lists these jobs.
	ErrAmbiguous = errors.New("several jobs have this id")
	// errLife is returned if the text behind the @ of ID@DATE is neither a date nor a time.
	errLife = errors.New("no date of a job's start")
)

// running stands for the date of a running job with an unknown start.
const running = "running"

// SplitID splits ID@DATE, the name of the job with this id that began on a date of UTC. A time of RFC 3339 in place of
// the date names the job that began in that second. The date of a plain ID is empty. The date "running" names a running
// job with an unknown start. Any other date is errLife.
func SplitID(name string) (id, date string, err error) {
	id, date, dated := strings.Cut(name, "@")
	if _, no := startOf(date); dated && no != nil && date != running {
		return "", "", fmt.Errorf("%w: %q: write %s@2026-11-20, or %[3]s@2026-11-20T06:00:00Z", errLife, name, id)
	}
	return id, date, nil
}

// startOf returns the time in which a job of ID@DATE began.
func startOf(date string) (s span, err error) {
	if day, err := time.Parse(time.DateOnly, date); err == nil {
		return span{day.UnixMilli(), day.AddDate(0, 0, 1).UnixMilli()}, nil
	}
	at, err := time.Parse(time.RFC3339, date)
	at = at.Truncate(time.Second)
	return span{at.UnixMilli(), at.UnixMilli() + 1000}, err
}

// span is a time [from, to) in Unix milliseconds.
type span struct{ from, to int64 }

// always contains every time.
var always = span{math.MinInt64, math.MaxInt64}

func (s span) has(ms int64) bool { return s.from <= ms && ms < s.to }

// life is the scheduler's record of one life of a job.
type life struct {
	*schemas.Job
	cluster string // empty: unknown
}

// started reports whether the start is known.
func (l life) started() bool { return l.Start != nil && *l.Start > 0 }

// when returns the time of a life, by which the archive distinguishes lives. The time of a running job is open, and a
// life without a start is a single moment.
func (l life) when() table.Life {
	to := int64(math.MaxInt64)
	if schemas.Over(l.State) && l.End != nil {
		to = *l.End
	}
	if l.started() {
		return table.Life{From: *l.Start, To: to}
	}
	return table.Life{From: to - 1, To: to}
}

// lives are all lives of an id, in time order.
type lives []life

// add adds a life. If the topic's record of this life is there already, it stays: it is newer or the same.
func (l lives) add(one life) lives {
	for i := range l {
		if l[i].Restart == one.Restart && l[i].when().Same(one.when()) {
			l[i].cluster = cmp.Or(l[i].cluster, one.cluster)
			return l
		}
	}
	l = append(l, one)
	slices.SortFunc(l, func(a, b life) int {
		return cmp.Or(cmp.Compare(a.when().From, b.when().From), cmp.Compare(a.Restart, b.Restart))
	})
	return l
}

// jobs groups the lives by job. A requeued job gets a higher restart in each life. A restart that is not higher belongs
// to another job with the same id.
func (l lives) jobs() (all []lives) {
	for i := range l {
		if i == 0 || l[i].Restart <= l[i-1].Restart {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], l[i])
	}
	return all
}

// seenBy returns the lives that a viewer may see.
func (l lives) seenBy(v Viewer) lives {
	return slices.DeleteFunc(slices.Clone(l), func(one life) bool { return !v.May(one.Job) })
}

// choose returns the lives of the job that ID@DATE names, or none if the id is unknown. A viewer gets no other lives
// than own ones.
func (l lives) choose(v Viewer, id, date string) (lives, error) {
	all := l.jobs()
	for i := range all {
		all[i] = all[i].seenBy(v)
	}
	all = slices.DeleteFunc(all, func(job lives) bool { return len(job) == 0 })
	some := all
	if began, err := startOf(date); err == nil || date == running {
		some = slices.DeleteFunc(slices.Clone(all), func(job lives) bool {
			return !slices.ContainsFunc(job, func(one life) bool {
				from := one.when().From
				return began.has(from) || date == running && from == math.MaxInt64-1
			})
		})
	}
	switch {
	case len(some) == 1:
		return some[0], nil
	case len(all) == 0:
		return nil, nil
	case len(some) == 0:
		return nil, fmt.Errorf("%w that began then: %s@%s. There are\n%s", ErrNoJob, id, date, listed(id, all))
	}
	return nil, fmt.Errorf("%w: %s. Name one of them:\n%s", ErrAmbiguous, id, listed(id, some))
}

// mostListed is the number of jobs with one id that an error lists: the last ones.
const mostListed = 20

// listed returns a line for each job: its name, its user, and its time.
func listed(id string, jobs []lives) string {
	on := map[string]int{}
	for _, job := range jobs {
		on[archive.DateAt(job[0].when().From)]++
	}
	var b strings.Builder
	if more := len(jobs) - mostListed; more > 0 {
		fmt.Fprintf(&b, "  %d earlier ones\n", more)
		jobs = jobs[more:]
	}
	stamp := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	for i, job := range jobs {
		first, last := job[0].when(), job[len(job)-1]
		name, from, to := running, "an unknown time", "now"
		if first.From < math.MaxInt64-1 {
			if name = archive.DateAt(first.From); on[name] > 1 {
				name = stamp(first.From)
			}
		}
		if job[0].started() {
			from = stamp(first.From)
		}
		if last.when().To < math.MaxInt64 {
			to = stamp(last.when().To)
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  %s@%s  %s, from %s to %s, %s", id, name, cmp.Or(last.User, "nobody"), from, to, last.State)
	}
	return b.String()
}

// span returns the time in which intervals belong to a life, among namesakes with its restart. The id passes on when
// the later job begins.
func (l lives) span(of life) span {
	s := always
	cut := func(before, after life) int64 {
		if after.started() {
			return *after.Start
		}
		return before.when().To
	}
	for _, o := range l {
		switch {
		case o.Restart != of.Restart || o.Job == of.Job:
		case o.when().From < of.when().From:
			s.from = cut(o, of)
		default:
			s.to = min(s.to, cut(of, o))
		}
	}
	return s
}

// Lives are the lives of one job, and all lives of jobs with its id.
type Lives struct {
	mine, all lives
	dated     bool // the name gave the date on which the job began
}

// Jobs returns the scheduler's records.
func (l Lives) Jobs() (jobs []*schemas.Job) {
	for _, one := range l.mine {
		jobs = append(jobs, one.Job)
	}
	return jobs
}

// Has reports whether an interval belongs to the job. An interval of an unknown restart belongs to any job without a
// date.
func (l Lives) Has(restart int32, start int64) bool {
	known := l.dated
	for _, one := range l.all {
		if one.Restart != restart {
			continue
		}
		known = true
		if l.all.span(one).has(start) && slices.ContainsFunc(l.mine, func(m life) bool { return m.Job == one.Job }) {
			return true
		}
	}
	return !known
}
