package find

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// knownJobs are the jobs of topic jobs, as far as it was read. All partitions of a process share them.
type knownJobs struct {
	mu      sync.Mutex
	of      *jobTable
	next    *jobTable // takes its place once the topic is read to its end again; nil: it did
	through int64     // of has the records before this offset; before: the topic is being read again
}

func newKnownJobs() *knownJobs {
	return &knownJobs{of: newJobTable(), through: before}
}

// get returns the last record of a job, or nil.
func (k *knownJobs) get(key schemas.JobKey) *schemas.Job {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of.get(key.String())
}

// take keeps a record. A tombstone forgets the job.
func (k *knownJobs) take(r *kgo.Record) error {
	value, err := schemas.Unmarshal(r.Value)
	j, is := value.(*schemas.Job)
	switch {
	case len(r.Value) > 0 && err != nil:
		return err
	case len(r.Value) > 0 && !is:
		return fmt.Errorf("%w: a %T does not belong here", schemas.ErrInvalid, value)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	to := k.of
	if k.next != nil {
		to = k.next
	}
	if len(r.Value) == 0 {
		to.delete(string(r.Key))
	} else {
		to.put(string(r.Key), j)
	}
	return nil
}

// begin reads the topic from its beginning. The jobs known so far serve until its end is reached. A job that is not
// there any more, in a topic that was made anew or compacted, is then forgotten.
func (k *knownJobs) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next, k.through = newJobTable(), before
}

// follow reads the topic until ctx ends, from its beginning at every start.
func (k *knownJobs) follow(ctx context.Context, cfg config.Config, log *slog.Logger, brokers *kafka.Brokers) {
	topic := cfg.Prefix + schemas.TopicJobs
	var trouble, rubbish retry.Trouble
	for tries := 1; ctx.Err() == nil; tries++ {
		began := time.Now()
		err := k.read(ctx, cfg, topic, brokers, func(r *kgo.Record) {
			if err := k.take(r); err != nil && rubbish.Worth(err, time.Now()) {
				log.Warn("record of topic jobs cannot be used, going on behind it",
					"topic", topic, "offset", r.Offset, "err", err)
			}
		})
		if time.Since(began) > time.Minute {
			tries = 1
			trouble.Over()
		}
		if ctx.Err() == nil && !brokers.Away() && trouble.Worth(err, time.Now()) {
			log.Warn("cannot read the jobs, trying again", "topic", topic, "err", err)
		}
		retry.Pause(ctx, max(time.Second, retry.Backoff(tries, cfg.BackoffCap)))
	}
}

// jobsLookEvery is how often the id of topic jobs is compared: a reader never finds the topic that took its place.
const jobsLookEvery = 10 * time.Second

var errJobsReplaced = errors.New("the topic was made anew, reading it from the beginning")

// read passes on every record of the topic until ctx ends or something goes wrong.
func (k *knownJobs) read(
	ctx context.Context, cfg config.Config, topic string, brokers *kafka.Brokers, each func(r *kgo.Record),
) error {
	opts, err := kafka.ClientOpts(ctx, cfg)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(opts, kgo.WithHooks(brokers),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), // markers take offsets
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(processors.FetchWait),
	)...)
	if err != nil {
		return fmt.Errorf("making a Kafka client: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	start, end, err := askBounds(ctx, adm, topic)
	if err != nil {
		return err
	}
	id, err := askID(ctx, adm, topic)
	if err != nil {
		return err
	}
	k.begin()
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(start)}})
	next, looked := start, time.Now()
	for ctx.Err() == nil {
		if next >= end {
			k.isRead(next)
		}
		if time.Since(looked) > jobsLookEvery {
			now, err := askID(ctx, adm, topic)
			if err == nil && !kafka.SameTopic(id, now) {
				err = errJobsReplaced
			}
			if err != nil {
				return err
			}
			looked = time.Now()
		}
		fetches, err := pollJobs(ctx, cl)
		if err != nil {
			return fmt.Errorf("reading %s: %w", topic, err)
		}
		for r := range fetches.RecordsAll() {
			if next = r.Offset + 1; !r.Attrs.IsControl() {
				each(r)
			}
		}
	}
	return nil
}

// pollJobs waits a second for records. Any error makes the caller begin anew: nothing here is worth keeping.
func pollJobs(ctx context.Context, cl *kgo.Client) (kgo.Fetches, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	fetches := cl.PollFetches(ctx)
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return nil, e.Err
		}
	}
	return fetches, nil
}

// wait waits until everything is known that is on the topic now. Whoever had a partition before may have ended jobs by
// it. It waits no longer than a start: the loop logs the reason, and tries again.
func (k *knownJobs) wait(ctx context.Context, adm *kadm.Client, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, processors.StartTimeout)
	defer cancel()
	_, end, err := askBounds(ctx, adm, topic)
	if err != nil {
		return err
	}
	for !k.reaches(end) {
		if !retry.Pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// reaches reports whether the topic was read up to an offset.
func (k *knownJobs) reaches(offset int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.through >= offset
}

// isRead notes that the topic was read to its end as it was at the beginning, and up to next.
func (k *knownJobs) isRead(next int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next != nil {
		k.of, k.next = k.next, nil
	}
	k.through = next
}

// askPatience bounds a question about a topic.
const askPatience = 10 * time.Second

func askBounds(ctx context.Context, adm *kadm.Client, topic string) (start, end int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return kafka.Bounds(ctx, adm, topic, 0)
}
