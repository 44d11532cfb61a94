package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/analysis/topics"
)

// position is the end of the archive in a partition of job-summary. The offset is -1 if the archive has none of it.
type position struct {
	offset  int64
	topicID string
}

// positions returns the end of the archive for each partition of job-summary. Summaries that the sink writes from now
// on are read twice, and count once.
func (l *loader) positions() (map[int32]position, error) {
	if l.topic == nil {
		return nil, nil
	}
	topic := l.cfg.Prefix + schemas.TopicJobSummary
	bounds, err := l.topic.Bounds(context.Background(), topic)
	if err != nil {
		return nil, err
	}
	mine := int32(-1) // all
	if !l.unsure {
		mine = int32(kgo.StickyKeyPartitioner(nil).ForTopic(topic).
			Partition(&kgo.Record{Key: l.key.Key()}, len(bounds)))
	}
	from := map[int32]position{}
	err = sink.Reading(context.Background(), l.cfg.Sink.Dir, func() error {
		for p := range bounds {
			if mine >= 0 && p != mine {
				continue
			}
			offset, id, ok, err := archive.Position(l.cfg.Sink.Dir, topic, p)
			if err != nil {
				return err
			}
			if !ok {
				offset = -1
			}
			from[p] = position{offset, id}
		}
		return nil
	})
	if _, missing := os.Stat(filepath.Join(l.cfg.Sink.Dir, "summaries")); errors.Is(missing, fs.ErrNotExist) {
		err = nil
	}
	return from, err
}

// behind holds the summaries behind the archive's end, read backwards.
type behind struct {
	all   []*schemas.JobSummary
	read  int       // of them, in windows that were read completely
	since time.Time // begin of these windows
}

// fromTopic reads the summaries of the job behind the archive's end.
func (l *loader) fromTopic(ctx context.Context, from map[int32]position) error {
	topic := l.cfg.Prefix + schemas.TopicJobSummary
	bounds := map[int32]kafka.Range{}
	archived := true
	for p, b := range l.topic.Ends[topic] {
		at, mine := from[p]
		if !mine {
			continue
		}
		if at.offset >= 0 && at.offset <= b.To && kafka.SameTopic(at.topicID, l.topic.IDs[topic]) {
			b.From = max(b.From, at.offset)
		} else {
			archived = false
		}
		bounds[p] = b
	}
	l.topic.Ends[topic] = bounds
	if l.unsure {
		l.key.Restart = max(0, l.job.Restart)
	}
	var h behind
	limited, cancel := context.WithTimeout(ctx, topics.ReadTimeout)
	defer cancel()
	since := time.Unix(0, 0)
	if !archived { // backwards, so that the newest are there if time runs out
		since = time.Now().Add(-max(time.Minute, 12*l.cfg.Interval))
	}
	_, err := l.topic.Back(limited, topic, since,
		func(r *kgo.Record) error {
			if s := topics.JobSummary(r, l.key.JobID, !l.final); s != nil { // totals are made of certified summaries
				h.all = append(h.all, s)
			}
			return nil
		},
		func(since time.Time) (time.Time, bool) {
			h.since, h.read = since, len(h.all)
			return topics.Earlier(time.Now(), since), since.After(l.start.Add(-time.Hour))
		})
	if err != nil && (limited.Err() == nil || ctx.Err() != nil || !l.cut(&h)) {
		return err
	}
	l.addSummaries(h.all)
	return nil
}

// cut keeps the complete part of a read that ran out of time, and reports whether anything is left to show. Windows are
// read from the newest on, and each from its beginning. So only the last window may have holes.
func (l *loader) cut(h *behind) bool {
	since := h.since.UnixMilli()
	h.all = slices.DeleteFunc(h.all[:h.read], func(s *schemas.JobSummary) bool { return s.IntervalStart < since })
	l.partial = fmt.Sprintf(", without the rest of the topic, which was not read within %v", topics.ReadTimeout)
	if len(h.all) > 0 {
		l.partial = fmt.Sprintf(", without what was written to the topic before %s: it was not read within %v",
			h.since.UTC().Format(time.RFC3339), topics.ReadTimeout)
	}
	return len(h.all) > 0 || l.build != nil
}

// addSummaries takes the summaries of the topic, except for intervals that the archive covers.
func (l *loader) addSummaries(all []*schemas.JobSummary) {
	if l.unsure && l.build == nil {
		for _, s := range all {
			l.key.Restart = max(l.key.Restart, s.Restart)
		}
		l.job.Restart = l.key.Restart
	}
	all = slices.DeleteFunc(all, func(s *schemas.JobSummary) bool {
		return s.Restart != l.key.Restart || !l.span.has(s.IntervalStart) ||
			l.build != nil && l.build.Has(s.IntervalStart)
	})
	slices.SortStableFunc(all, func(a, b *schemas.JobSummary) int {
		return cmp.Compare(a.IntervalStart, b.IntervalStart)
	})
	if len(all) == 0 {
		return
	}
	if l.build == nil {
		var names []string
		for _, s := range all {
			for i := range s.Metrics {
				names = append(names, s.Metrics[i].Name)
			}
		}
		l.show(names)
		last := all[len(all)-1]
		l.draw(all[0].IntervalStart, last.IntervalStart+last.IntervalMs, last.IntervalMs)
	}
	for i, s := range all {
		if i > 0 && s.IntervalStart == all[i-1].IntervalStart {
			continue // written twice
		}
		l.recent++
		rows := s.Rows()
		for k := range rows {
			if r := &rows[k]; archive.Sane(r) {
				l.add(r, archive.MetricOf(r))
			}
		}
	}
}
