package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// ErrTopics is returned if the topics lack settings that weir needs to be correct.
var ErrTopics = errors.New("topics are not as weir needs them")

// Topics is the table of topics of a configuration, with its prefix. Commands create and check these, and no others.
func Topics(cfg config.Config) []schemas.Topic {
	return schemas.Topics(cfg.Prefix, schemas.Sizes{
		Collectors: cfg.Collectors,
		Routes:     cfg.Partitions.Routes, Partials: cfg.Partitions.Partials, JobSummary: cfg.Partitions.JobSummary,
		Replication: cfg.Topics.Replication, CountersRetention: cfg.Topics.CountersRetention,
		SummaryRetention: cfg.Topics.SummaryRetention, SegmentBytes: cfg.Topics.SegmentBytes,
	})
}

// CreateTopics makes the missing topics, and gives the others the settings of the table. It writes every schema to the
// topic of schemas, with the registry's id if ids contains one under the record's key. It cannot change a number of
// partitions: CheckTopics reports such a difference.
func CreateTopics(ctx context.Context, cl *kgo.Client, topics []schemas.Topic, ids map[string]uint32) error {
	adm := kadm.NewClient(cl)
	for _, t := range topics {
		config := make(map[string]*string, len(t.Config))
		for k, v := range t.Config {
			config[k] = &v
		}
		_, err := adm.CreateTopic(ctx, int32(t.Partitions), int16(t.Replicas), config, t.Name)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			err = alterTopic(ctx, adm, t)
		}
		if errors.Is(err, kerr.InvalidReplicationFactor) {
			return fmt.Errorf("creating topic %s: topics.replication is %d, which is more than there are brokers: %w",
				t.Name, t.Replicas, err)
		}
		if err != nil {
			return fmt.Errorf("creating topic %s: %w", t.Name, err)
		}
	}
	return publishSchemas(ctx, cl, topics, ids)
}

// alterTopic sets our settings, and leaves the administrator's values of all others.
func alterTopic(ctx context.Context, adm *kadm.Client, t schemas.Topic) error {
	var alter []kadm.AlterConfig
	for _, k := range slices.Sorted(maps.Keys(t.Config)) {
		v := t.Config[k]
		alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: &v})
	}
	responses, err := adm.AlterTopicConfigs(ctx, alter, t.Name)
	if err != nil {
		return err
	}
	for _, r := range responses {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// newTopicTries is the number of attempts to reach a topic that was just made, a second apart.
const newTopicTries = 15

// publishSchemas writes every schema under its fingerprint, for readers outside weir. The topic is compacted, so
// repeated runs do not make it grow for good.
func publishSchemas(ctx context.Context, cl *kgo.Client, topics []schemas.Topic, ids map[string]uint32) error {
	i := slices.IndexFunc(topics, func(t schemas.Topic) bool { return strings.HasSuffix(t.Name, schemas.TopicSchemas) })
	if i < 0 {
		return nil
	}
	topic := topics[i].Name
	write := func() error {
		var records []*kgo.Record
		for _, s := range schemas.All() {
			r := &kgo.Record{Topic: topic, Key: []byte(s.Key()), Value: []byte(s.Text)}
			if id := ids[s.Key()]; id != 0 {
				r.Headers = []kgo.RecordHeader{{Key: idHeader, Value: strconv.AppendUint(nil, uint64(id), 10)}}
			}
			records = append(records, r)
		}
		return cl.ProduceSync(ctx, records...).FirstErr()
	}
	err := write()
	// A busy broker may not know the topic yet that another broker has just made.
	for range newTopicTries {
		if !errors.Is(err, kerr.UnknownTopicOrPartition) || ctx.Err() != nil {
			break
		}
		retry.Pause(ctx, time.Second)
		err = write()
	}
	if err != nil {
		return fmt.Errorf("writing the schemas to %s: %w", topic, err)
	}
	return nil
}

// CheckPartitions returns nil if a topic has as many partitions as the configuration has under setting, otherwise
// ErrTopics with the remedy. Jobs and nodes are placed by these numbers: with another number, windows are split up or
// left without a reader.
func CheckPartitions(topic string, is, want int, setting string) error {
	if is == want {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrTopics, otherCount(topic, is, want, setting))
}

// otherCount names both numbers and both ways out, since weir never changes a number of partitions itself.
func otherCount(topic string, is, want int, setting string) error {
	const text = "topic %s has %d partitions, the configuration says %d: " +
		"set %s to the existing number in every part's configuration, or use another prefix and `weir topics create`"
	return fmt.Errorf(text, topic, is, want, setting)
}

// CheckTopics returns nil if the topics agree with the table in every setting that correctness depends on. Otherwise it
// returns ErrTopics, joined with a line and a remedy for each difference. hidden lists topics with settings that we may
// not read: they count as right.
func CheckTopics(ctx context.Context, adm *kadm.Client, topics []schemas.Topic) (hidden []string, err error) {
	var faults []error
	var there []schemas.Topic
	for _, t := range topics { // one by one: if one is forbidden, kadm returns nothing about all
		details, err := adm.ListTopics(ctx, t.Name)
		d := details[t.Name]
		switch err := errors.Join(err, d.Err); {
		case err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition):
			return nil, fmt.Errorf("describing topic %s: %w", t.Name, err)
		case len(d.Partitions) == 0:
			faults = append(faults, fmt.Errorf("topic %s is not there: `weir topics create` makes it", t.Name))
		case len(d.Partitions) != t.Partitions:
			faults = append(faults, otherCount(t.Name, len(d.Partitions), t.Partitions, "collectors and partitions.*"))
		default:
			there = append(there, t)
		}
	}
	wrong, hidden, err := checkSettings(ctx, adm, there)
	if err != nil {
		return hidden, err
	}
	if faults = append(faults, wrong...); len(faults) > 0 {
		return hidden, errors.Join(append([]error{ErrTopics}, faults...)...)
	}
	return hidden, nil
}

// checkSettings compares the settings that correctness depends on. A topic with settings that we may not read is no
// fault: the permission is an administrator's choice.
func checkSettings(
	ctx context.Context, adm *kadm.Client, topics []schemas.Topic,
) (faults []error, hidden []string, err error) {
	if len(topics) == 0 {
		return nil, nil, nil
	}
	for _, t := range topics { // one by one: if one is forbidden, kadm returns nothing about all
		described, err := adm.DescribeTopicConfigs(ctx, t.Name)
		if errors.Is(err, kerr.TopicAuthorizationFailed) {
			hidden = append(hidden, t.Name)
			continue
		}
		d, missing := described.On(t.Name, nil)
		if err := errors.Join(err, missing, d.Err); err != nil {
			return nil, nil, fmt.Errorf("describing topic %s: %w", t.Name, err)
		}
		for _, c := range d.Configs {
			want, ours := t.Config[c.Key]
			if ours && !suffices(c.Key, c.MaybeValue(), want) {
				const text = "topic %s: %s is %s, and should be %s: `weir topics create` sets it"
				faults = append(faults, fmt.Errorf(text, t.Name, c.Key, c.MaybeValue(), want))
			}
		}
	}
	return faults, hidden, nil
}

// suffices reports whether a topic's setting is good enough. Numbers of bytes, brokers or milliseconds may be larger
// than wanted. Segments never matter: they may make a reader slow, not wrong.
func suffices(key, is, want string) bool {
	switch key {
	case "segment.bytes", "segment.ms":
		return true
	case "max.message.bytes", "min.insync.replicas", "retention.ms":
		a, errA := strconv.ParseInt(is, 10, 64)
		b, errB := strconv.ParseInt(want, 10, 64)
		return errA == nil && errB == nil && (a >= b || key == "retention.ms" && a == -1)
	}
	return is == want
}
