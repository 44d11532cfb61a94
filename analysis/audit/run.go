package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// Options bound an audit.
type Options struct {
	Since     time.Time // audit intervals that begin then or later; zero: all that the topics hold
	Partition int32     // audit this partition of counters alone; -1: all
	// Progress is called every five seconds: how many offsets of all were read, and the interval. It may be nil.
	Progress func(read, all, interval int64)
}

// ErrNoPartition is returned when the partition to audit does not exist.
var ErrNoPartition = errors.New("topic counters has no such partition")

// Run audits an installation.
//
// The order of the reads makes it right while the services run. The positions of merge are read first, those of collect
// next, and the ends of the topics last. So whatever a position promises lies before the end that is read to.
func Run(ctx context.Context, cfg config.Config, o Options) (*Report, error) {
	cl, err := analysis.Connect(ctx, cfg, kafka.ReaderOpts()...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	a := &auditor{
		cfg: cfg, o: o, cl: cl, adm: kadm.NewClient(cl),
		topics: map[string]*topic{}, streams: map[Source]*stream{},
	}
	defer a.close()
	began := time.Now()
	r, err := a.run(ctx)
	if err != nil {
		return nil, kafka.Explain(cfg.Kafka, err)
	}
	r.TimeMs = began.UnixMilli()
	return r, nil
}

// auditor is one audit that runs.
type auditor struct {
	cfg     config.Config
	o       Options
	cl      *kgo.Client
	adm     *kadm.Client
	topics  map[string]*topic
	from    int64
	notes   []string
	faults  []Difference
	streams map[Source]*stream

	read, all int64     // offsets
	told      time.Time // when Progress was called last
}

// topic is what the audit reads of a topic.
type topic struct {
	id     string
	ranges map[int32]kafka.Range
}

func (a *auditor) run(ctx context.Context) (*Report, error) {
	if err := a.begin(ctx); err != nil {
		return nil, err
	}
	merges, err := a.spans(ctx, schemas.TopicPartials, schemas.TopicMergeProgress)
	if err != nil {
		return nil, err
	}
	counters, err := a.spans(ctx, schemas.TopicCounters, schemas.TopicProgress)
	if err != nil {
		return nil, err
	}
	files, err := a.listArchive(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{schemas.TopicPartials, schemas.TopicJobSummary} {
		ends, err := kafka.TopicBounds(ctx, a.adm, a.cfg.Prefix+name)
		if err != nil {
			return nil, err
		}
		for p, r := range a.topics[name].ranges {
			a.topics[name].ranges[p] = kafka.Range{From: r.From, To: ends[p].To}
		}
	}
	for p, s := range counters {
		a.topics[schemas.TopicCounters].ranges[p] = kafka.Range{From: s.From, To: s.Position}
	}
	books := NewBooks(Terms{
		Cluster: a.cfg.Cluster, Prefix: a.cfg.Prefix, Sketch: a.cfg.Collect.Sketch,
		Collectors: int32(len(counters)), Partials: int32(len(merges)),
		Summaries: int32(len(a.topics[schemas.TopicJobSummary].ranges)),
		From:      a.from, Only: a.o.Partition, Counters: counters, Merges: merges,
	})
	books.report.Notes = append(books.report.Notes, a.notes...)
	for _, d := range a.faults {
		books.report.differ(d)
	}
	for _, t := range a.topics {
		for _, r := range t.ranges {
			a.all += max(0, r.To-r.From)
		}
	}
	for p, of := range files { // their topic is read twice
		r := a.topics[schemas.TopicJobSummary].ranges[p]
		a.all += max(0, of[len(of)-1].Next-r.From)
	}
	if err := a.fold(ctx, books); err != nil {
		return nil, err
	}
	r := books.Close()
	return r, a.compareArchive(ctx, files, r)
}

// begin finds where the topics begin, and the first interval that all of them hold.
func (a *auditor) begin(ctx context.Context) error {
	a.from = Beginning
	if !a.o.Since.IsZero() {
		a.from = max(0, a.o.Since.UnixMilli())
	}
	for _, name := range []string{schemas.TopicCounters, schemas.TopicPartials, schemas.TopicJobSummary} {
		if err := a.beginOf(ctx, name); err != nil {
			return err
		}
	}
	if n := len(a.topics[schemas.TopicCounters].ranges); a.o.Partition >= int32(n) {
		return fmt.Errorf("%w: %d, only 0 to %d", ErrNoPartition, a.o.Partition, n-1)
	}
	return nil
}

func (a *auditor) beginOf(ctx context.Context, name string) error {
	full := a.cfg.Prefix + name
	listed, err := a.adm.ListTopics(ctx, full)
	if err != nil {
		return fmt.Errorf("asking for topic %s: %w", full, err)
	}
	if d := listed[full]; d.Err != nil || len(d.Partitions) == 0 {
		return fmt.Errorf("topic %s: %w", full, kafka.ErrNoPartition)
	}
	bounds, err := kafka.TopicBounds(ctx, a.adm, full)
	if err != nil {
		return err
	}
	a.topics[name] = &topic{kafka.TopicID(listed[full]), bounds}
	slack := 2 * config.Slack(a.cfg.Interval)
	var later kadm.ListedOffsets
	if !a.o.Since.IsZero() {
		// No record of an interval is older than the interval, but for the slack of clocks.
		if later, err = a.adm.ListOffsetsAfterMilli(ctx, max(0, a.from-slack.Milliseconds()), full); err != nil {
			return fmt.Errorf("looking for %v in %s: %w", a.o.Since, full, err)
		}
	}
	for p, r := range bounds {
		if l, ok := later.Lookup(full, p); ok && l.Err == nil && l.Offset > r.From {
			bounds[p] = kafka.Range{From: min(l.Offset, r.To), To: r.To}
			continue
		}
		if r.From == 0 {
			continue
		}
		// Retention deleted the records before the first one, or all: the next intervals may be incomplete.
		retention := a.cfg.Topics.CountersRetention
		if name == schemas.TopicJobSummary {
			retention = a.cfg.Topics.SummaryRetention
		}
		since := time.Now().Add(-retention).UnixMilli()
		first, ok, err := a.first(ctx, full, p, r)
		if err != nil {
			return err
		}
		if ok {
			since = first.AppendedMs
		}
		a.from = max(a.from, since+slack.Milliseconds())
	}
	return nil
}

// first returns the first record of a partition.
func (a *auditor) first(ctx context.Context, topic string, p int32, r kafka.Range) (Entry, bool, error) {
	s := openStream(ctx, a.cfg, topic, p, r)
	defer s.close()
	return s.next()
}

// spans reads the positions of collect or merge, and the fates that were counted. Compaction may move the begin of the
// positions' topic while it is read.
func (a *auditor) spans(ctx context.Context, input, positions string) (spans map[int32]Span, err error) {
	for tries := 1; ; tries++ {
		spans, err = a.readSpans(ctx, input, positions)
		if !errors.Is(err, kerr.OffsetOutOfRange) || tries == 5 || !kafka.Pause(ctx, time.Second) {
			return spans, err
		}
	}
}

func (a *auditor) readSpans(ctx context.Context, input, positions string) (map[int32]Span, error) {
	t := a.topics[input]
	spans := make(map[int32]Span, len(t.ranges))
	for p, r := range t.ranges {
		spans[p] = Span{From: r.From, Position: r.From}
		if a.from == Beginning {
			spans[p] = Span{From: r.From, Position: r.From, Opening: &schemas.ProgressCounts{}}
		}
	}
	bounds, err := kafka.TopicBounds(ctx, a.adm, a.cfg.Prefix+positions)
	if err != nil {
		return nil, err
	}
	last := map[int32]*schemas.Progress{}
	err = kafka.ReadRanges(ctx, a.cl, a.cfg.Prefix+positions, bounds, func(r *kgo.Record) error {
		v, err := schemas.Unmarshal(r.Value)
		p, ok := v.(*schemas.Progress)
		s, there := spans[r.Partition]
		if err != nil || !ok || !there || !r.Attrs.IsTransactional() { // what no service wrote, collect logs
			return nil //nolint:nilerr // see above
		}
		last[r.Partition] = p
		if s.Opening == nil && p.Closed != nil && *p.Closed >= a.from && p.Position >= s.From {
			s.Opening, s.OpenedAt = &p.Counts, p.Position
		}
		s.Position, s.Closing = max(p.Position, s.From), p.Counts
		spans[r.Partition] = s
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(last)) {
		a.checkPosition(input, p, last[p], spans)
	}
	return spans, nil
}

// checkPosition reports a position that is not one of this topic, and what a service had to count as lost.
func (a *auditor) checkPosition(input string, p int32, last *schemas.Progress, spans map[int32]Span) {
	s, t := spans[p], a.topics[input]
	at := last.Position
	d := Difference{Kind: KindFates, Topic: a.cfg.Prefix + input, Partition: p, Offset: &at}
	switch {
	case !kafka.SameTopic(last.TopicID, t.id):
		d.Text = "the position is of a topic that was deleted and made again"
		a.faults = append(a.faults, d)
		s.Position, s.Opening = s.From, nil
	case s.Opening != nil && last.Counts.Lost > s.Opening.Lost:
		a.notes = append(a.notes, fmt.Sprintf(
			"%s%s-%d: retention deleted %d records before they were folded", a.cfg.Prefix, input, p,
			last.Counts.Lost-s.Opening.Lost))
	}
	spans[p] = s
}

// progress notes that further offsets were read.
func (a *auditor) progress(offsets, interval int64) {
	a.read += offsets
	if a.o.Progress == nil || time.Since(a.told) < progressEvery {
		return
	}
	if !a.told.IsZero() {
		a.o.Progress(a.read, a.all, interval)
	}
	a.told = time.Now()
}

// progressEvery is how often the progress of a long audit is reported.
const progressEvery = 5 * time.Second

// fold hands the records of all partitions to the books, in the order that they ask for.
func (a *auditor) fold(ctx context.Context, books *Books) error {
	at := map[Source]int64{}
	for {
		s, ok := books.Next()
		if !ok {
			return nil
		}
		if a.streams[s] == nil {
			r := a.topics[s.Topic].ranges[s.Partition]
			a.streams[s], at[s] = openStream(ctx, a.cfg, a.cfg.Prefix+s.Topic, s.Partition, r), r.From
		}
		e, ok, err := a.streams[s].next()
		if err != nil {
			return err
		}
		if !ok {
			books.End(s)
			continue
		}
		books.Add(s, e)
		a.progress(e.Offset+1-at[s], books.joined)
		at[s] = e.Offset + 1
	}
}

func (a *auditor) close() {
	for _, s := range a.streams {
		s.close()
	}
}

// stream reads one partition, as fast as its records are taken.
type stream struct {
	entries chan Entry
	err     error // set before entries is closed
	cancel  context.CancelFunc
}

// Bounds on what the client of a stream holds. There is one client for each partition.
const (
	fetchBytes          = 1 << 20
	fetchPartitionBytes = 512 << 10
)

func openStream(ctx context.Context, cfg config.Config, topic string, partition int32, r kafka.Range) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{entries: make(chan Entry, 16), cancel: cancel}
	go func() {
		defer close(s.entries)
		s.err = s.run(ctx, cfg, topic, partition, r)
	}()
	return s
}

func (s *stream) run(ctx context.Context, cfg config.Config, topic string, partition int32, r kafka.Range) error {
	if r.From >= r.To {
		return nil
	}
	opts, err := kafka.ClientOpts(ctx, cfg)
	if err != nil {
		return err
	}
	opts = append(append(opts, kafka.ReaderOpts()...),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchPartitionBytes))
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("making a Kafka client: %w", err)
	}
	defer cl.Close()
	err = kafka.ReadRanges(ctx, cl, topic, map[int32]kafka.Range{partition: r}, func(r *kgo.Record) error {
		select {
		case s.entries <- Entry{r.Offset, r.Timestamp.UnixMilli(), r.Value}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return fmt.Errorf("%w: retention deleted it meanwhile: begin later, with --since", err)
	}
	return err
}

// next returns the next record. It is not ok at the end.
func (s *stream) next() (e Entry, ok bool, err error) {
	if e, ok = <-s.entries; ok {
		return e, true, nil
	}
	return Entry{}, false, s.err
}

// close ends the stream, and waits until it has ended.
func (s *stream) close() {
	s.cancel()
	for range s.entries { // it is closed at the end
	}
}
