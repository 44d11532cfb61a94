package topics

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// history collects the summaries of one job while the topic is read backwards, until it holds n intervals.
type history struct {
	jobID string
	n     int
	mine  func(*schemas.JobSummary) bool // summaries of namesakes are not

	all   []*schemas.JobSummary
	read  int       // summaries in windows that were read completely
	since time.Time // start of the windows that were read completely
	begin bool      // the topic holds nothing before since

	asked   bool   // whether the scheduler's record was read
	restart int32  // the last known one
	started *int64 // start of that restart in milliseconds; nil if unknown
}

// add takes the summaries of the job, and no others. An undecodable one is passed over: the archive's footers and
// `weir tail` show it.
func (h *history) add(r *kgo.Record) error {
	if s := JobSummary(r, h.jobID, false); s != nil && h.mine(s) {
		h.all = append(h.all, s)
	}
	return nil
}

// JobSummary decodes a summary of a job; nil for any other record, and for one that cannot be decoded. Without
// certified it leaves certified summaries out, which are most of a record.
func JobSummary(r *kgo.Record, jobID string, certified bool) *schemas.JobSummary {
	if !isOf(r, jobID) {
		return nil
	}
	v, err := schemas.Unmarshal(r.Value)
	s, is := v.(*schemas.JobSummary)
	if err != nil || !is {
		return nil
	}
	for i := range s.Metrics {
		if !certified {
			s.Metrics[i].Certified = nil
		}
	}
	return s
}

// window notes that all records since a time were read.
func (h *history) window(since time.Time) {
	h.since, h.read = since, len(h.all)
	for _, s := range h.all {
		h.restarted(s.Restart, nil)
	}
}

func (h *history) restarted(restart int32, started *int64) {
	if restart > h.restart || restart == h.restart && h.started == nil {
		h.restart, h.started = restart, started
	}
}

// scheduled notes the restarts that the scheduler knows of.
func (h *history) scheduled(known map[schemas.JobKey]*schemas.Job) {
	h.asked = true
	for key, j := range known {
		h.restarted(key.Restart, j.Start)
	}
}

// intervals counts the intervals of the last restart that begin at or after from.
func (h *history) intervals(from int64) (n int) {
	for _, s := range h.all[:h.read] {
		if s.Restart == h.restart && s.IntervalStart >= from {
			n++
		}
	}
	return n
}

// enough reports whether the last n intervals are there. A summary is written after its interval, so unread
// summaries are of intervals before h.since. Summaries may be late: the first n rows need not be the last intervals.
func (h *history) enough() bool { return h.intervals(h.since.UnixMilli()) >= h.n }

// whole reports whether the job began after h.since.
func (h *history) whole() bool { return h.started != nil && *h.started >= h.since.UnixMilli() }

// fewer returns why there are less than n intervals. It is empty if there are n.
func (h *history) fewer(cfg config.Config) string {
	there := h.intervals(0)
	if there >= h.n {
		return ""
	}
	utc := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	why := fmt.Sprintf("what was written before %s was not read within %v; the archive may have it",
		utc(h.since), ReadTimeout)
	switch {
	case h.whole():
		why = "it began at " + utc(time.UnixMilli(*h.started))
	case h.begin:
		why = fmt.Sprintf("topic %s%s has no more; the archive may have them", cfg.Prefix, schemas.TopicJobSummary)
	}
	return fmt.Sprintf("job %s has %d of %d intervals: %s", h.jobID, there, h.n, why)
}
