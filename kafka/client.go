// Package kafka is everything between weir and a Kafka client. It connects every part, explains a broker's refusal,
// makes and checks topics, and runs the embedded broker. It holds the only code that knows Kafka's transactions and
// groups.
//
// It does not wrap the client: stages use kgo itself, with the options that this package makes. Package config defines
// the settings as plain data, package schemas the records. The stages decide on the contents of a transaction.
package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// ErrNoBrokers is returned if a client is needed and kafka.brokers is empty.
var ErrNoBrokers = errors.New("kafka.brokers is empty: name at least one broker, as host:port")

// leaderAge is the largest age of a client's knowledge of the leaders. A leader that is cut off from its peers, but not
// from us, returns no error, and no new records. The client leaves it when another broker names the new leader. The
// client asks any broker, so it may ask the isolated one several times in a row.
const leaderAge = 3 * time.Second

// ClientOpts returns the options that all Kafka clients of weir share: the addresses of the brokers, the login, and the
// time limits. Callers add their own. The client does nothing after ctx has ended; otherwise its close would wait ten
// seconds for a broker that hangs. So ctx must stay alive as long as answers are needed, and no longer.
func ClientOpts(ctx context.Context, c config.Config) ([]kgo.Opt, error) {
	if len(c.Kafka.Brokers) == 0 {
		return nil, ErrNoBrokers
	}
	limit := c.BackoffCap
	opts := []kgo.Opt{
		kgo.WithContext(ctx),
		kgo.SeedBrokers(c.Kafka.Brokers...),
		kgo.ClientID(cmp.Or(c.Kafka.ClientID, "weir")),
		kgo.RetryBackoffFn(func(tries int) time.Duration { return retry.Backoff(tries, limit) }),
		// Idle connections close after 20 s by default: with an interval longer than that, each send would dial.
		kgo.ConnIdleTimeout(max(30*time.Second, 3*c.Interval)),
		// An error shows a partition's new leader sooner.
		kgo.MetadataMinAge(250 * time.Millisecond), kgo.MetadataMaxAge(leaderAge),
		// The client waits this long for a broker that hangs, in place of 10 s, before it asks another.
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 {
			return int32(schemas.MessageBytes(strings.TrimPrefix(topic, c.Prefix)))
		}),
		kgo.DisableClientMetrics(),
		// A fetch session avoids naming many partitions in each fetch, and we read few. It would occupy, for each
		// agent, one of the 1,000 slots of a broker. At its end the client waits for a last answer, for ten seconds if
		// the broker hangs.
		kgo.DisableFetchSessions(),
		kgo.WithHooks(fromConfluent{publicTopics(c.Prefix)}),
	}
	if c.Kafka.TLS.Enabled {
		if _, err := tlsConfig(c.Kafka.TLS); err != nil { // now, not at the first dial
			return nil, err
		}
		opts = append(opts, kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialTLS(ctx, c.Kafka, network, address)
		}))
	} else {
		opts = append(opts, kgo.DialTimeout(c.Kafka.DialTimeout))
	}
	m, err := mechanism(c.Kafka.SASL)
	if err != nil {
		return nil, err
	}
	if m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts, nil
}

// newClient returns a client with ClientOpts and further options.
func newClient(ctx context.Context, c config.Config, further ...kgo.Opt) (*kgo.Client, error) {
	opts, err := ClientOpts(ctx, c)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts, further...)...)
	if err != nil {
		return nil, fmt.Errorf("making a Kafka client: %w", err)
	}
	return cl, nil
}
