package audit

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics"
)

// Options bound an audit.
type Options struct {
	Since     time.Time // audit intervals that begin then or later; zero: all that the topics hold
	Partition int32     // audit this partition of counters alone; -1: all
	NoArchive bool      // leave the archive out
	Full      bool      // decode every record twice, not one in DecodedOneIn
	// Progress is called every five seconds: how many offsets of all were read, and the interval. It may be nil.
	Progress func(read, all, interval int64)
}

func (o Options) decodedOneIn() int64 {
	if o.Full {
		return 1
	}
	return DecodedOneIn
}

// ErrNoPartition is returned when the partition to audit does not exist.
var ErrNoPartition = errors.New("topic counters has no such partition")

// Run audits an installation.
//
// The order of the reads makes it right while the services run. The positions of merge are read first, then the
// positions of collect, and then the ends of the topics, open transactions included. So all output that a position
// promises lies before these ends. After that the positions are read again. Only the output of records between both
// readings may be in flight.
func Run(ctx context.Context, cfg config.Config, o Options) (*Report, error) {
	cl, err := topics.Connect(ctx, cfg, kafka.ReaderOpts()...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	a := &auditor{
		cfg: cfg, o: o, cl: cl, adm: kadm.NewClient(cl),
		topics: map[string]recount.Topic{}, streams: map[Source]*recount.Stream{},
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

// settleWait is the time that open transactions may take to end. A successor ends the transaction of a dead owner.
const settleWait = time.Minute

// auditor is the state of a running audit.
type auditor struct {
	cfg     config.Config
	o       Options
	cl      *kgo.Client
	adm     *kadm.Client
	topics  map[string]recount.Topic
	from    int64
	notes   []string
	faults  []Difference
	streams map[Source]*recount.Stream

	read, all int64     // offsets
	told      time.Time // when Progress was called last
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
	for _, name := range []string{schemas.TopicPartials, schemas.TopicJobSummary, schemas.TopicRejects} {
		if len(a.topics[name].Ranges) == 0 {
			continue
		}
		ends, err := kafka.SettledBounds(ctx, a.adm, a.cfg.Prefix+name, settleWait)
		if err != nil {
			return nil, err
		}
		for p, r := range a.topics[name].Ranges {
			a.topics[name].Ranges[p] = kafka.Range{From: r.From, To: ends[p].To}
		}
	}
	if err := a.later(ctx, schemas.TopicPartials, schemas.TopicMergeProgress, merges); err != nil {
		return nil, err
	}
	if err := a.later(ctx, schemas.TopicCounters, schemas.TopicProgress, counters); err != nil {
		return nil, err
	}
	for p, s := range counters {
		a.topics[schemas.TopicCounters].Ranges[p] = kafka.Range{From: s.From, To: max(s.Position, s.Later)}
	}
	books := NewBooks(Terms{
		Cluster: a.cfg.Cluster, Prefix: a.cfg.Prefix, Sketch: a.cfg.Collect.Sketch,
		Collectors: int32(len(counters)), Partials: int32(len(merges)),
		Summaries: int32(len(a.topics[schemas.TopicJobSummary].Ranges)),
		Rejects:   int32(len(a.topics[schemas.TopicRejects].Ranges)), RejectsSince: a.topics[schemas.TopicRejects].From,
		From: a.from, Only: a.o.Partition, Counters: counters, Merges: merges, DecodedOneIn: a.o.decodedOneIn(),
	})
	books.report.Notes = append(books.report.Notes, a.notes...)
	for _, d := range a.faults {
		books.report.differ(d)
	}
	for _, t := range a.topics {
		for _, r := range t.Ranges {
			a.all += max(0, r.To-r.From)
		}
	}
	for p, of := range files { // their topic is read twice
		r := a.topics[schemas.TopicJobSummary].Ranges[p]
		a.all += max(0, of[len(of)-1].Next-r.From)
	}
	if err := a.fold(ctx, books); err != nil {
		return nil, err
	}
	r := books.Close()
	return r, a.compareArchive(ctx, files, r)
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
			r := a.topics[s.Topic].Ranges[s.Partition]
			a.streams[s], at[s] = recount.OpenStream(ctx, a.cfg, a.cfg.Prefix+s.Topic, s.Partition, r), r.From
		}
		e, ok, err := a.streams[s].Next()
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
		s.Close()
	}
}
