package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhpc/weir/naming"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/derive"
)

// lives is when the chosen jobs ran, by topic jobs and the archive. A time is zero if it is unknown for one of the
// jobs.
type lives struct {
	begin, end time.Time
	starts     map[Choice]time.Time
	of         map[Choice]analysis.Lives
}

// lives reads the lives of the chosen jobs. A pseudo-job has no life. Without the archive, the lives come from topic
// jobs alone.
func (r *replayer) lives(ctx context.Context) (l lives, err error) {
	if len(r.o.Jobs) == 0 {
		return l, nil
	}
	dir := r.cfg.Sink.Dir
	if err = analysis.Readable(dir); err == nil {
		l, err = r.livesIn(ctx, dir)
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, analysis.ErrAmbiguous) || errors.Is(err, analysis.ErrNoJob) {
		return l, err
	}
	r.note("%v; jobs that topic jobs has forgotten are not known", err)
	return r.livesIn(ctx, analysis.NoArchive)
}

// livesIn reads topic jobs and an archive.
func (r *replayer) livesIn(ctx context.Context, dir string) (l lives, err error) {
	l = lives{starts: map[Choice]time.Time{}, of: map[Choice]analysis.Lives{}}
	ask := analysis.Ask{Dir: dir, Topic: true}
	var ids []string
	for _, c := range r.o.Jobs {
		ids = append(ids, c.JobID)
	}
	sources, err := analysis.Open(ctx, r.cfg, analysis.Viewer{All: true}, ask, ids...)
	if err != nil {
		return l, err
	}
	defer sources.Close()
	known := map[Choice][]*schemas.Job{}
	for _, c := range r.o.Jobs {
		if l.of[c], err = sources.Lives(ctx, c.name(), r.o.Since, r.o.Until); err != nil {
			return l, err
		}
		known[c] = slices.DeleteFunc(l.of[c].Jobs(), func(j *schemas.Job) bool { return !c.is(j.Identity()) })
	}
	l.begin, l.end = bounded(known, l.starts, 2*config.Slack(r.cfg.Interval)+r.cfg.Interval)
	return l, nil
}

// bounded returns when the first of the chosen jobs began and the last one ended, with a margin. It notes when each
// began.
func bounded(chosen map[Choice][]*schemas.Job, starts map[Choice]time.Time, margin time.Duration,
) (begin, end time.Time) {
	begins, ends := true, true // of all
	for c, jobs := range chosen {
		for _, j := range jobs {
			if j.Start == nil {
				begins = false
			} else if at := time.UnixMilli(*j.Start); starts[c].IsZero() || at.Before(starts[c]) {
				starts[c] = at
			}
			if j.End == nil {
				ends = false
			} else if at := time.UnixMilli(*j.End).Add(margin); at.After(end) {
				end = at
			}
		}
		known := len(jobs) > 0
		begins, ends = begins && known, ends && known
		if at := starts[c].Add(-margin); known && (begin.IsZero() || at.Before(begin)) {
			begin = at
		}
	}
	if !begins {
		begin = time.Time{}
	}
	if !ends {
		end = time.Time{}
	}
	return begin, end
}

// noteBegins notes the chosen jobs that began before the log does.
func (r *replayer) noteBegins(l lives, from int64) {
	for _, c := range r.o.Jobs {
		at, known := l.starts[c]
		if known && from != recount.Never && at.UnixMilli()+r.cfg.Interval.Milliseconds() < from && r.o.Since.IsZero() {
			r.note("job %s began at %s, and its first intervals are gone: topic counters begins at %s",
				c, at.UTC().Format(time.RFC3339), text(from))
		}
	}
}

// surveyed is the number of offsets at each end of a partition that are searched for the names of metrics.
const surveyed = 64

// define compiles the definitions, and checks the names of metrics against the names in records.
func (r *replayer) define(ctx context.Context, topic recount.Topic) (*derive.Set, error) {
	if len(r.o.Definitions)+len(r.o.Metrics) == 0 {
		return nil, nil
	}
	set, err := derive.Compile(r.o.Definitions)
	if err != nil {
		return nil, err
	}
	recorded, err := r.survey(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err := set.Resolve(recorded); err != nil {
		return nil, fmt.Errorf("%w (%s)", err, lookedAt)
	}
	for _, name := range set.Names() {
		recorded[name] = ""
	}
	for _, name := range r.o.Metrics {
		if _, known := recorded[name]; !known {
			return nil, fmt.Errorf("%w: %q%s (%s)", ErrUnknownMetric, name, naming.Nearest(name, recorded), lookedAt)
		}
	}
	if len(r.o.Definitions) == 0 {
		return nil, nil
	}
	return set, nil
}

var lookedAt = fmt.Sprintf("looked for in the first and the last %d records of each partition: "+
	"--since and --until bound the time", surveyed)

// survey returns the scope of each metric of the first and the last records.
func (r *replayer) survey(ctx context.Context, topic recount.Topic) (map[string]string, error) {
	begins, ends := map[int32]kafka.Range{}, map[int32]kafka.Range{}
	for p, offsets := range topic.Ranges {
		middle := min(offsets.To, offsets.From+surveyed)
		begins[p] = kafka.Range{From: offsets.From, To: middle}
		ends[p] = kafka.Range{From: max(middle, offsets.To-surveyed), To: offsets.To}
	}
	scopes := map[string]string{}
	for _, ranges := range []map[int32]kafka.Range{begins, ends} {
		err := kafka.ReadRanges(ctx, r.cl, r.cfg.Prefix+schemas.TopicCounters, ranges, func(rec *kgo.Record) error {
			v, err := schemas.Unmarshal(rec.Value)
			if err == nil {
				see(scopes, v)
			}
			return nil
		})
		if err != nil {
			return nil, errors.Join(err, ctx.Err())
		}
	}
	return scopes, nil
}

// see notes the scopes of a record's metrics. If records differ, core wins over all other scopes, and node loses to
// them.
func see(scopes map[string]string, v schemas.Record) {
	one := func(name, scope string) {
		if was := scopes[name]; was == "" || was == schemas.ScopeNode || scope == schemas.ScopeCore {
			scopes[name] = scope
		}
	}
	switch v := v.(type) {
	case *schemas.CounterBatch:
		for i := range v.Metrics {
			one(v.Metrics[i].Name, v.Metrics[i].Scope)
		}
	case *schemas.NodeSummary:
		for i := range v.Metrics {
			one(v.Metrics[i].Name, v.Metrics[i].Scope)
		}
	}
}
