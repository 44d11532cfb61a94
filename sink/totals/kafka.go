package totals

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

const (
	// maxBehind is how many records the archive may be behind, transaction markers included. More would take long to
	// read, and no sink runs then.
	maxBehind = 100_000
	// settleWait is how long open transactions may take to end.
	settleWait = 20 * time.Second
)

// Ask asks the brokers which jobs are final, given how far the archive is. The client has kafka.ReaderOpts.
//
// The order of the reads makes it right while services run. The archive was listed first, the Progress of collect and
// merge is read next, and the end of job-summary last. So all summaries that a Progress promises lie before that end.
// Ask reads the summaries before it that the archive lacks, and their jobs wait.
func Ask(ctx context.Context, cfg config.Config, cl *kgo.Client, a Archived) (f Frontier, err error) {
	defer func() { err = kafka.Explain(cfg.Kafka, err) }()
	k := &asker{cfg: cfg, cl: cl, adm: kadm.NewClient(cl)}
	collect, err := k.stage(ctx, "collect", schemas.TopicCounters, schemas.TopicProgress)
	if err != nil {
		return f, err
	}
	merge, err := k.stage(ctx, "merge", schemas.TopicPartials, schemas.TopicMergeProgress)
	if err != nil {
		return f, err
	}
	f.ThroughMs, f.Reason = through(collect, merge)
	if f.Waiting, err = k.waiting(ctx, a, &f); err != nil {
		return f, err
	}
	return f, nil
}

type asker struct {
	cfg config.Config
	cl  *kgo.Client
	adm *kadm.Client
}

// topic returns the number of a topic's partitions, and its id.
func (k *asker) topic(ctx context.Context, name string) (partitions int, id string, err error) {
	name = k.cfg.Prefix + name
	listed, err := k.adm.ListTopics(ctx, name)
	if err != nil {
		return 0, "", fmt.Errorf("asking for topic %s: %w", name, err)
	}
	d := listed[name]
	if d.Err != nil || len(d.Partitions) == 0 {
		return 0, "", fmt.Errorf("topic %s: %w", name, kafka.ErrNoPartition)
	}
	return len(d.Partitions), kafka.TopicID(d), nil
}

// stage reads the last Progress of all partitions of a stage.
func (k *asker) stage(ctx context.Context, name, input, progress string) (s stage, err error) {
	s = stage{name: name, last: map[int32]*schemas.Progress{}, sameTopic: kafka.SameTopic}
	if s.partitions, s.topicID, err = k.topic(ctx, input); err != nil {
		return s, err
	}
	bounds, err := kafka.TopicBounds(ctx, k.adm, k.cfg.Prefix+progress)
	if err != nil {
		return s, err
	}
	err = kafka.ReadRanges(ctx, k.cl, k.cfg.Prefix+progress, bounds, func(r *kgo.Record) error {
		if v, err := schemas.Unmarshal(r.Value); err == nil {
			if p, is := v.(*schemas.Progress); is {
				s.last[r.Partition] = p
			}
		}
		return nil
	})
	return s, err
}

// waiting returns the jobs with summaries that the archive lacks. If it cannot be known, nothing is final.
func (k *asker) waiting(ctx context.Context, a Archived, f *Frontier) (map[schemas.JobKey]int64, error) {
	topic := k.cfg.Prefix + schemas.TopicJobSummary
	_, id, err := k.topic(ctx, schemas.TopicJobSummary)
	if err != nil {
		return nil, err
	}
	stop := func(reason string) { f.ThroughMs, f.Reason = nothing, reason }
	if !kafka.SameTopic(id, a.TopicID) {
		stop("the archive is of a topic job-summary that was deleted and made again")
		return nil, nil
	}
	bounds, err := kafka.SettledBounds(ctx, k.adm, topic, settleWait)
	if errors.Is(err, kafka.ErrOpenTransaction) {
		stop("somebody left a transaction open in job-summary")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lacks, reason := behind(a.Positions, bounds)
	if reason != "" {
		stop(reason)
		return nil, nil
	}
	records := int64(0)
	for _, l := range lacks {
		records += l.To - l.From
	}
	if records > maxBehind {
		stop(fmt.Sprintf("the archive is %d offsets behind job-summary: does a sink run?", records))
		return nil, nil
	}
	jobs := map[schemas.JobKey]int64{}
	err = kafka.ReadRanges(ctx, k.cl, topic, lacks, func(r *kgo.Record) error {
		if key, is := parseKey(string(r.Key)); is {
			at := int64(math.MinInt64) // for a record that cannot be decoded
			if v, err := schemas.Unmarshal(r.Value); err == nil {
				if s, is := v.(*schemas.JobSummary); is {
					at = s.IntervalStart
				}
			}
			if first, has := jobs[key]; !has || at < first {
				jobs[key] = at
			}
		}
		return nil
	})
	return jobs, err
}

// parseKey is the inverse of JobKey.String.
func parseKey(key string) (k schemas.JobKey, is bool) {
	at := strings.LastIndexByte(key, '/')
	if at < 0 {
		return k, false
	}
	restart, err := strconv.ParseInt(key[at+1:], 10, 32)
	return schemas.JobKey{JobID: key[:at], Restart: int32(restart)}, err == nil
}
