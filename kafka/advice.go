package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
)

// ErrOldBroker is returned when a broker is older than weir needs.
var ErrOldBroker = errors.New("weir needs Kafka 4.0 or later")

// transactionVersion is the level of Kafka's feature transaction.version from which a broker itself guards
// transactions. From then on, a producer that was fenced, or that let its transaction time out, cannot add to its
// successor's transaction. Kafka 4.0 introduced it.
const transactionVersion = 2

// CheckBrokers returns ErrOldBroker if a broker that answers is older than Kafka 4.0, or still behaves as an older one.
func CheckBrokers(ctx context.Context, adm *kadm.Client) error {
	versions, err := adm.ApiVersions(ctx)
	if err != nil {
		return fmt.Errorf("asking the brokers for their versions: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(versions)) {
		v := versions[id]
		if v.Err != nil { // it is away: its clients will report it
			continue
		}
		level := int16(0)
		for _, f := range v.Raw().FinalizedFeatures {
			if f.Name == "transaction.version" {
				level = f.MaxVersionLevel
			}
		}
		if level < transactionVersion {
			const text = "broker %d looks like Kafka %s, with transaction.version %d: " +
				"%w, with transaction.version %d: upgrade, then kafka-features upgrade --feature transaction.version=%d"
			return fmt.Errorf(text, id, v.VersionGuess(), level, ErrOldBroker, transactionVersion, transactionVersion)
		}
	}
	return nil
}

// advised are brokers' settings that weir does not need, and why they are worth setting.
var advised = []struct {
	key, why string
	good     func(value int64, replicas int) bool
	want     string
}{
	{
		"add.partitions.to.txn.retry.backoff.ms",
		"a transaction waits that long inside the broker, once for every broker that it touches",
		func(v int64, _ int) bool { return v <= 2 }, "1",
	},
	{
		"group.min.session.timeout.ms",
		"collect, merge and the balancer ask for a session of " + sessionMs + ", and are refused",
		func(v int64, _ int) bool { return v <= session.Milliseconds() }, sessionMs + " at most",
	},
	{
		"transaction.state.log.replication.factor",
		"the fencing and the commits are lost with the brokers that hold them",
		func(v int64, replicas int) bool { return v >= int64(replicas) }, "as many as topics.replication",
	},
	{
		"transaction.state.log.min.isr",
		"an acknowledged commit may be on one broker only",
		func(v int64, replicas int) bool { return replicas < 3 || v >= 2 }, "2",
	},
	{
		"offsets.topic.replication.factor",
		"who owns which partition is lost with the brokers that hold it",
		func(v int64, replicas int) bool { return v >= int64(replicas) }, "as many as topics.replication",
	},
}

// Advise returns a line for each setting of a broker that costs time or safety. replicas is the number of the topics'
// replicas.
func Advise(ctx context.Context, adm *kadm.Client, replicas int) ([]string, error) {
	known, err := adm.ListBrokers(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the brokers: %w", err)
	}
	described, err := adm.DescribeBrokerConfigs(ctx, known.NodeIDs()...)
	if err != nil {
		return nil, fmt.Errorf("describing the brokers: %w", err)
	}
	var lines []string
	for _, d := range described {
		if d.Err != nil {
			return nil, fmt.Errorf("describing broker %s: %w", d.Name, d.Err)
		}
		for _, a := range advised {
			i := slices.IndexFunc(d.Configs, func(c kadm.Config) bool { return c.Key == a.key })
			if i < 0 {
				continue // another kind of broker
			}
			is := d.Configs[i].MaybeValue()
			if v, err := strconv.ParseInt(is, 10, 64); err == nil && !a.good(v, replicas) {
				line := fmt.Sprintf("broker %s: %s is %s, better %s: %s", d.Name, a.key, is, a.want, a.why)
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}
