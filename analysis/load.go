// Package analysis loads jobs: one with its totals, its course over time and its findings, and lists of them. It merges
// the archive with the topics.
//
// Sources (sources.go) are these two places, and choose the life that a name means. A loader (load.go) reads it: the
// rows of the archive (fromarchive.go), then later ones of the topic (fromtopic.go). Both go into one picture
// (picture.go) and under the same rules (watcher.go). Totals and findings (judge.go) and a table by node (nodes.go)
// follow. LoadLines (list.go), Like (nearest.go), LoadPeers (peers.go) and History (history.go) read many jobs.
package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/analysis/topics"
)

// Ask selects the part of a job that is loaded.
type Ask struct {
	Dir      string   // the archive; empty: sink.dir
	Topic    bool     // brokers are asked for intervals behind the archive's end
	Metrics  []string // nil: the default ones; AllMetrics: all
	From, To time.Time
	MaxBins  int   // 0: view.MaxBins
	Restart  int32 // -1: the last
}

// span names the time that was asked for, or is empty.
func (a Ask) span() string {
	var words []string
	if !a.From.IsZero() {
		words = append(words, "from "+a.From.UTC().Format(time.RFC3339)+" on")
	}
	if !a.To.IsZero() {
		words = append(words, "before "+a.To.UTC().Format(time.RFC3339))
	}
	return strings.Join(words, ", ")
}

// timesOf names the time of a job as the scheduler has it.
func timesOf(j *view.Job) string {
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	switch {
	case j.Start == nil:
		return j.JobID + " has no known start"
	case j.End == nil:
		return fmt.Sprintf("%s runs since %s", j.JobID, at(*j.Start))
	}
	return fmt.Sprintf("%s ran from %s to %s", j.JobID, at(*j.Start), at(*j.End))
}

// AllMetrics asks for every metric that there is.
const AllMetrics = "all"

var (
	// ErrNoJob is returned for a job that is neither in the archive nor in the topics, or that the viewer may not see.
	ErrNoJob = errors.New("no such job")
	// ErrNoInterval is returned, together with the job, if no interval of the job is known yet.
	ErrNoInterval = errors.New("the job has no interval")
)

// Where returns the archive to read, and whether brokers are asked too. They are not asked if the user names a
// directory, or if no broker is configured.
func Where(cfg config.Config, dir string) (archive string, topic bool) {
	if dir != "" {
		return dir, false
	}
	return cfg.Sink.Dir, len(cfg.Kafka.Brokers) > 0
}

const (
	// hourlyFrom is the number of intervals from which a job's compacted dates are read by the hour.
	hourlyFrom = 20_000
	// watchedAtMost bounds the intervals that rules look at: 11 days at 10 s. They take a few seconds.
	watchedAtMost = 100_000
)

// loader loads one life of a job, in this order: the sources choose the life, the archive gives its rows up to where it
// ends, and the topic gives the later ones. Both hand their rows to the same picture (picture.go), which does not know
// where a row is from. Totals and findings come last (judge.go).
type loader struct {
	*Sources
	chosen

	topic *topics.Reader // of this job; nil: no broker is asked
	ask   Ask
	set   *rules.Set
	types *nodetypes.Types
	name  string // in the form of SplitID

	job       *view.Job
	start     time.Time // zero: unknown
	end       time.Time // now, if it runs
	long      bool      // too many intervals to read each of them
	hourly    bool      // too many of them even in the requested part
	placed    string    // the date that gives the number of nodes of values; empty: intervals for the rules do
	totals    []totals.Total
	final     bool // the totals are there, and nothing is to come
	shown     map[string]bool
	reads     map[string]bool // metrics that rules name
	width     int             // the number of these metrics among the job's
	build     *view.Builder
	nodes     *view.NodeSums  // of a job whose rows have the numbers of each node; nil: of another job
	inTable   map[string]bool // metrics of the table by node, if its rows have them
	shares    map[string][]quantile.Summary
	watcher   *watcher // nil: there are no rules, or no interval
	unwatched bool     // there are too many intervals even for the rules
	mostRules int64    // watchedAtMost; a test lowers it
	archived  int      // rows of the archive
	recent    int      // summaries of the topic
	partial   string   // describes the unread part of the topic; empty if there is none
	pair      *pair    // for a correlation, which loads only these two metrics
	looked    func()   // is called once the end of the archive is known: a test writes more then
}

// Load returns a life of a job: the archive first, then the topic past its end. It loads the metrics of a, or by
// default the metrics that a report shows. A job that the viewer may not see is ErrNoJob.
func Load(ctx context.Context, cfg config.Config, v Viewer, set *rules.Set, jobID string, a Ask) (*view.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*topics.ReadTimeout)
	defer cancel()
	l, err := newLoader(ctx, cfg, v, set, jobID, a)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.load(ctx)
}

// newLoader returns a loader of one job alone. The caller closes it.
func newLoader(ctx context.Context, cfg config.Config, v Viewer, set *rules.Set, jobID string, a Ask) (*loader, error) {
	s, err := openOne(ctx, cfg, v, a, jobID)
	if err != nil {
		return nil, err
	}
	l, err := s.loader(ctx, set, jobID, a)
	if err != nil {
		s.Close()
	}
	return l, err
}

// loader returns a loader of a job. It is used once.
func (s *Sources) loader(ctx context.Context, set *rules.Set, jobID string, a Ask) (*loader, error) {
	if err := s.knowNodes(ctx); err != nil {
		return nil, err
	}
	if set == nil {
		set = &rules.Set{}
	}
	return &loader{
		Sources: s, topic: s.reader(), ask: a, set: set, types: s.types, name: jobID, job: &view.Job{},
		chosen: chosen{span: always}, shares: map[string][]quantile.Summary{}, reads: set.Reads(),
		mostRules: watchedAtMost, looked: func() {},
	}, nil
}

func (l *loader) load(ctx context.Context) (*view.Job, error) {
	if err := l.choose(ctx); err != nil {
		return nil, err
	}
	from, err := l.positions()
	if err != nil {
		return nil, err
	}
	l.looked()
	err = sink.Reading(ctx, l.cfg.Sink.Dir, func() error { return l.fromArchive(sink.UnderLock(ctx)) })
	if err != nil {
		return nil, err
	}
	if l.topic != nil && !l.final { // a final life is archived
		if err := l.fromTopic(ctx, from); err != nil {
			return nil, err
		}
	}
	if l.build == nil && l.record == nil {
		return nil, fmt.Errorf("%w: %s is not in %s; `weir jobs` lists those that are known", ErrNoJob, l.key.JobID,
			l.places())
	}
	j := l.job
	j.Type = l.types.Of(j.Nodes)
	if l.build == nil || !l.build.Into(j) {
		if span := l.ask.span(); span != "" {
			return j, fmt.Errorf("%w %s: %s", ErrNoInterval, span, timesOf(j))
		}
		return j, fmt.Errorf("%w yet that was measured: %s is %s", ErrNoInterval, j.JobID,
			cmp.Or(strings.ToLower(j.State), "not known to the scheduler"))
	}
	if j.Start == nil || *j.Start <= 0 {
		j.Start = &j.FirstMs
	}
	j.From = l.source() + l.partial
	l.whole()
	l.merge()
	if err := l.byNode(ctx); err != nil {
		return nil, err
	}
	return j, l.judge(ctx)
}

// choose finds the requested life of the job, by default the last, and takes the facts of its record.
func (l *loader) choose(ctx context.Context) (err error) {
	if l.chosen, err = l.life(ctx, l.name, l.ask.Restart); err != nil {
		return err
	}
	l.job.JobID, l.job.Restart = l.key.JobID, l.key.Restart
	l.end, l.job.Running = time.Now(), true
	for _, of := range l.known { // by restart
		l.job.Cluster = cmp.Or(of.cluster, l.job.Cluster)
		if of.Restart < l.key.Restart {
			l.job.Earlier = append(l.job.Earlier, view.Life{
				Restart: of.Restart, State: of.State, Start: of.Start, End: of.End,
			})
		}
	}
	if l.record == nil {
		return nil
	}
	l.job.Job, l.job.Running = *l.record.Job, !schemas.Over(l.record.State)
	l.beginNodes()
	if l.record.started() {
		l.start = time.UnixMilli(*l.record.Start)
	}
	if l.record.End != nil && !l.job.Running {
		l.end = time.UnixMilli(*l.record.End)
	}
	return nil
}

// places names the places in which a job was looked for.
func (l *loader) places() string {
	if l.topic == nil {
		return "the archive " + l.cfg.Sink.Dir
	}
	topics := fmt.Sprintf("topic %s%s or topic %[1]s%[3]s", l.cfg.Prefix, schemas.TopicJobs, schemas.TopicJobSummary)
	if l.cfg.Sink.Dir == NoArchive {
		return topics
	}
	return "the archive " + l.cfg.Sink.Dir + ", " + topics
}

func (l *loader) source() string {
	switch {
	case l.recent == 0:
		return "archive"
	case l.archived == 0:
		return "topic"
	}
	return "archive and topic"
}
