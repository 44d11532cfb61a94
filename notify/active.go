package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

const (
	patience     = 20 * time.Second // with a question to the brokers, or a transaction
	readPatience = 5 * time.Minute  // with the topic of notices
	lookEvery    = 10 * time.Second // between looks at ids of topics, and at lists of users
	sweepEvery   = time.Hour
	mostDecided  = 1000 // findings in one transaction
	mostSends    = 8    // messages that go at once
)

var errReplaced = errors.New("a topic was made anew")

// active is a run of the process that owns the topic of notices.
type active struct {
	*service
	book     *book
	producer *kafka.Producer // nil: nothing is written
	consumer *kgo.Client
	adm      *kadm.Client
	ids      map[string]string // of the topics that are read

	position, committed int64 // offset behind the last finding that was decided
	next                int64 // offset behind the last finding that was read
	pending             []pendingFinding
	jobs                map[schemas.JobKey]*job
	jobsNext            int64 // offset behind the last job that was read
	jobsEnd             int64 // the jobs before it must be known before pending is decided; -1: not asked
	wanted              users
	unclear             error // why nobody can tell who wants messages; nil: it is clear
	looked, swept       time.Time
	written             time.Time // the last commit
}

// pendingFinding is a finding that is not decided.
type pendingFinding struct {
	offset  int64
	finding *schemas.Finding
}

// active sends until ctx ends, and then returns nil. It returns the first error.
func (s *service) active(ctx context.Context) error {
	client, end := context.WithCancel(context.WithoutCancel(ctx)) // a transaction that has begun outlives ctx
	defer end()
	a := &active{service: s, jobs: map[schemas.JobKey]*job{}, jobsEnd: -1}
	on := channels(s.cfg.Notify)
	if s.dry != nil {
		on = []string{schemas.ChannelMail}
	}
	machine, err := s.facts(ctx)
	if err != nil {
		return err
	}
	a.book = newBook(s.cfg.Cluster, s.cfg.Notify, machine, on, func(user string) bool { return a.wanted.allow(user) })
	if s.dry == nil {
		a.producer, err = kafka.NewProducer(client, s.cfg, s.cfg.Prefix+schemas.TopicNotices, patience,
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.WithHooks(s.brokers))
		if err != nil {
			return err
		}
		defer a.producer.Close()
		defer end()
	}
	opts, err := kafka.ClientOpts(client, s.cfg)
	if err != nil {
		return err
	}
	a.consumer, err = kgo.NewClient(append(opts, kgo.WithHooks(s.brokers),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), // markers take offsets
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	if err != nil {
		return fmt.Errorf("making a Kafka client: %w", err)
	}
	defer a.consumer.Close()
	defer end()
	a.adm = kadm.NewClient(a.consumer)
	if err := a.begin(ctx); err != nil {
		return err
	}
	s.metrics.active.Set(1)
	for ctx.Err() == nil {
		if err := a.round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin fences other processes, reads the notices, and begins to read findings and jobs.
func (a *active) begin(ctx context.Context) error {
	start, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	a.book.nowMs = time.Now().UnixMilli()
	ids, err := a.askIDs(start)
	if err != nil {
		return err
	}
	a.ids = ids
	last := &schemas.Progress{}
	if a.producer != nil {
		if err := a.producer.Fence(start); err != nil {
			return err
		}
		if last, err = a.restore(start); err != nil {
			return err
		}
	}
	from := map[string]map[int32]kgo.Offset{}
	for _, of := range []struct {
		topic string
		next  *int64
	}{{a.cfg.Prefix + schemas.TopicFindings, &a.next}, {a.cfg.Prefix + schemas.TopicJobs, &a.jobsNext}} {
		first, end, err := kafka.Bounds(start, a.adm, of.topic, 0)
		if err != nil {
			return err
		}
		*of.next = first
		if of.next == &a.next && kafka.SameTopic(last.TopicID, ids[of.topic]) && last.Position <= end {
			*of.next = max(first, last.Position)
		}
		from[of.topic] = map[int32]kgo.Offset{0: kgo.NewOffset().At(*of.next)}
	}
	a.position, a.committed = a.next, last.Position
	a.consumer.AddConsumePartitions(from)
	a.log.Info("notify is active", "position", a.position, "waiting", len(a.book.waiting), "channels", a.book.channels)
	if a.producer == nil {
		return nil
	}
	return a.commit(ctx, a.book.recover(a.book.nowMs), nil)
}

// restore reads the topic of notices, and returns the last position.
func (a *active) restore(ctx context.Context) (*schemas.Progress, error) {
	topic := a.cfg.Prefix + schemas.TopicNotices
	first, end, err := kafka.Bounds(ctx, a.producer.Admin(), topic, 0)
	if err != nil {
		return nil, err
	}
	a.producer.Continue(topic, 0, end)
	last, all := &schemas.Progress{}, map[string]*schemas.Notice{}
	err = kafka.ReadPartition(ctx, a.cfg, topic, 0, first, end, func(r *kgo.Record) error {
		if len(r.Value) == 0 {
			delete(all, string(r.Key))
			return nil
		}
		value, err := schemas.Unmarshal(r.Value)
		switch v := value.(type) {
		case *schemas.Notice:
			all[string(v.Key())] = v
		case *schemas.Progress:
			last = v
		default:
			if errors.Is(err, schemas.ErrUnknownSchema) && r.Attrs.IsTransactional() {
				return fmt.Errorf("%w: a newer weir wrote it: upgrade every `weir notify`", err)
			}
			a.warnOf(r, err)
		}
		return nil
	})
	for _, n := range all {
		a.book.put(n)
	}
	return last, err
}

func (a *active) warnOf(r *kgo.Record, err error) {
	if err == nil {
		err = schemas.ErrInvalid
	}
	if a.rubbish.Worth(err, time.Now()) {
		a.log.Warn("record cannot be used, going on behind it", "topic", r.Topic, "offset", r.Offset, "err", err)
	}
}

// askIDs returns the ids of the topics that are read.
func (a *active) askIDs(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	names := []string{a.cfg.Prefix + schemas.TopicFindings, a.cfg.Prefix + schemas.TopicJobs}
	topics, err := a.adm.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("asking for the ids of topics: %w", err)
	}
	ids := map[string]string{}
	for _, name := range names {
		if err := topics[name].Err; err != nil {
			return nil, fmt.Errorf("topic %s: %w", name, err)
		}
		ids[name] = kafka.TopicID(topics[name])
	}
	return ids, nil
}

// round reads, decides, commits, and sends what is due. Whatever is sent was committed before.
func (a *active) round(ctx context.Context) error {
	if err := a.read(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := a.look(ctx); err != nil {
		return err
	}
	var changed []*schemas.Notice
	var ready []message
	var gone [][]byte
	if a.unclear == nil {
		more, err := a.decideAll(ctx)
		if err != nil {
			return err
		}
		out, begun := a.book.due(time.Now().UnixMilli())
		ready, changed = out, append(more, begun...)
	}
	if time.Since(a.swept) > sweepEvery {
		gone, a.swept = a.book.forget(time.Now().UnixMilli()), time.Now()
	}
	if err := a.commit(ctx, changed, gone); err != nil {
		return err
	}
	a.metrics.waiting.Set(float64(len(a.book.waiting)))
	if len(ready) == 0 {
		return nil
	}
	return a.commit(ctx, a.sendAll(ctx, ready), nil)
}

// read takes the records of a poll.
func (a *active) read(ctx context.Context) error {
	poll, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if len(a.pending) > mostDecided { // they wait for jobs, which come by the same client
		a.consumer.PauseFetchTopics(a.cfg.Prefix + schemas.TopicFindings)
	} else {
		a.consumer.ResumeFetchTopics(a.cfg.Prefix + schemas.TopicFindings)
	}
	fetches := a.consumer.PollFetches(poll)
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return fmt.Errorf("reading %s: %w", e.Topic, e.Err)
		}
	}
	for r := range fetches.RecordsAll() {
		isJob := r.Topic == a.cfg.Prefix+schemas.TopicJobs
		if isJob {
			a.jobsNext = r.Offset + 1
		} else {
			a.next = r.Offset + 1
		}
		if r.Attrs.IsControl() {
			continue
		}
		if isJob {
			a.takeJob(r)
		} else if f := a.findingOf(r); f != nil && worth(f) {
			a.pending, a.jobsEnd = append(a.pending, pendingFinding{r.Offset, f}), -1
		}
	}
	if len(a.pending) == 0 {
		a.position = a.next
	}
	return nil
}

func (a *active) findingOf(r *kgo.Record) *schemas.Finding {
	if len(r.Value) == 0 {
		return nil
	}
	value, err := schemas.Unmarshal(r.Value)
	f, is := value.(*schemas.Finding)
	if !is {
		a.warnOf(r, err)
	}
	if !is || f.Cluster != a.cfg.Cluster {
		return nil
	}
	return f
}

// takeJob keeps the record of a job. Jobs that ended more than a day ago have no messages any more.
func (a *active) takeJob(r *kgo.Record) {
	if len(r.Value) == 0 {
		id, restart, _ := strings.Cut(string(r.Key), "/")
		if n, err := strconv.ParseInt(restart, 10, 32); err == nil {
			delete(a.jobs, schemas.JobKey{JobID: id, Restart: int32(n)})
		}
		return
	}
	value, err := schemas.Unmarshal(r.Value)
	j, is := value.(*schemas.Job)
	switch {
	case !is:
		a.warnOf(r, err)
	case j.End != nil && time.Now().UnixMilli()-*j.End > dayMs+hourMs:
		delete(a.jobs, j.Identity())
	default:
		a.jobs[j.Identity()] = a.book.machine.jobOf(j)
	}
}

// look compares the ids of topics, and reads the lists of users and facts about nodes, from time to time.
func (a *active) look(ctx context.Context) error {
	if time.Since(a.looked) < lookEvery {
		return nil
	}
	hourly := a.looked.Truncate(time.Hour) != time.Now().Truncate(time.Hour) && !a.looked.IsZero()
	a.looked = time.Now()
	ids, err := a.askIDs(ctx)
	if err != nil {
		return err
	}
	for name, id := range ids {
		if !kafka.SameTopic(a.ids[name], id) {
			return fmt.Errorf("%s: %w", name, errReplaced)
		}
	}
	a.wanted, a.unclear = readUsers(a.cfg.Notify)
	if a.unclear != nil && a.users.Worth(a.unclear, time.Now()) {
		a.log.Warn("no message goes while a list of users cannot be read", "err", a.unclear)
	}
	if hourly {
		if m, err := a.facts(ctx); err == nil {
			a.book.machine = m
		}
	}
	return nil
}

// decideAll decides about findings whose jobs are known. Find ends a job by its record, so that record is on its topic
// before the finding.
func (a *active) decideAll(ctx context.Context) (changed []*schemas.Notice, err error) {
	if len(a.pending) == 0 {
		return nil, nil
	}
	if a.jobsEnd < 0 {
		ask, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if _, a.jobsEnd, err = kafka.Bounds(ask, a.adm, a.cfg.Prefix+schemas.TopicJobs, 0); err != nil {
			a.jobsEnd = -1
			return nil, err
		}
	}
	if a.jobsNext < a.jobsEnd {
		return nil, nil
	}
	now := time.Now().UnixMilli()
	n := min(len(a.pending), mostDecided)
	for _, p := range a.pending[:n] {
		changed = append(changed, a.book.decide(p.finding, a.jobs[p.finding.Job()], now)...)
		a.position = p.offset + 1
	}
	if a.pending = slices.Delete(a.pending, 0, n); len(a.pending) == 0 {
		a.position, a.pending = a.next, nil
	}
	return changed, nil
}

// commit writes notices, and the position in topic findings, in one transaction.
func (a *active) commit(ctx context.Context, changed []*schemas.Notice, gone [][]byte) error {
	moved := a.position != a.committed && time.Since(a.written) > config.QuietCommit
	if a.producer == nil || len(changed)+len(gone) == 0 && !moved {
		return nil
	}
	topic := a.cfg.Prefix + schemas.TopicNotices
	var records []*kgo.Record
	add := func(key []byte, r schemas.Record) error {
		value, err := schemas.MarshalChecked(r)
		if err != nil {
			return fmt.Errorf("record %s: %w", key, err)
		}
		records = append(records, &kgo.Record{Topic: topic, Key: key, Value: value})
		return nil
	}
	for _, key := range gone {
		records = append(records, &kgo.Record{Topic: topic, Key: key})
	}
	for _, n := range changed {
		if err := add(n.Key(), n); err != nil {
			return err
		}
	}
	at := &schemas.Progress{
		From: a.position, Position: a.position, Hold: a.position, TopicID: a.ids[a.cfg.Prefix+schemas.TopicFindings],
	}
	if err := add(schemas.PartitionKey(0), at); err != nil {
		return err
	}
	if err := a.producer.Commit(ctx, records); err != nil {
		return err
	}
	a.committed, a.written = a.position, time.Now()
	for _, n := range changed {
		a.metrics.notices.WithLabelValues(n.Channel, n.State).Inc()
	}
	return nil
}

// sendAll sends messages, some at once, and returns the notices with the results. A send that has begun outlives ctx.
func (a *active) sendAll(ctx context.Context, ready []message) (changed []*schemas.Notice) {
	outcomes := make([]outcome, len(ready))
	turns := make(chan struct{}, mostSends)
	var all sync.WaitGroup
	for i, m := range ready {
		turns <- struct{}{}
		if ctx.Err() != nil {
			outcomes[i] = outcome{again, "the service ended before"}
			<-turns
			continue
		}
		all.Go(func() {
			defer func() { <-turns }()
			outcomes[i] = a.try(context.WithoutCancel(ctx), m)
		})
	}
	all.Wait()
	now := time.Now().UnixMilli()
	for i, m := range ready {
		changed = append(changed, a.book.settle(m, outcomes[i], now)...)
		o := outcomes[i]
		if o.kind == delivered {
			a.log.Info("message sent", "channel", m.channel, "message", m.id, "job", m.notices[0].JobID)
		} else {
			a.log.Warn("message was not sent", "channel", m.channel, "message", m.id, "job", m.notices[0].JobID,
				"tries", m.notices[0].Tries, "reason", schemas.Printable(o.reason))
		}
	}
	return changed
}

// try sends a message, or prints it.
func (a *active) try(ctx context.Context, m message) outcome {
	digest := a.book.digests(m.channel)
	if a.dry == nil {
		return a.sender.send(ctx, m, digest)
	}
	subject, text, err := a.sender.texts.write(m, digest)
	if err != nil {
		return outcome{never, err.Error()}
	}
	a.printing.Lock()
	defer a.printing.Unlock()
	if _, err := fmt.Fprintf(a.dry, "To: %s\nSubject: %s\n\n%s\n", printable(m.user), subject, text); err != nil {
		return outcome{never, err.Error()}
	}
	return outcome{}
}
