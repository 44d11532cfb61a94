package kafka

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/retry"
)

// Brokers is a hook of Kafka clients that logs once when a broker becomes unreachable, and once when it is back. The
// client itself tries again without end or log: a wrong password or certificate shows only here. Clients may share one
// hook.
type Brokers struct {
	log  *slog.Logger
	mu   sync.Mutex
	away map[string]*absent // by address
}

// absent is a broker that could not be reached.
type absent struct {
	retry.Trouble
	tried time.Time // last failed attempt; zero after the broker was reached again
}

var _ kgo.HookBrokerConnect = (*Brokers)(nil)

// NewBrokers returns a hook that writes to log.
func NewBrokers(log *slog.Logger) *Brokers { return &Brokers{log: log, away: map[string]*absent{}} }

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (b *Brokers) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	address := net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port)))
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.away[address]
	if err == nil {
		if a != nil && a.Over() {
			b.log.Info("connection to broker is back", "broker", address)
		}
		if a != nil {
			a.tried = time.Time{}
		}
		return
	}
	if a == nil {
		a = &absent{}
		b.away[address] = a
	}
	a.tried = time.Now()
	if a.Worth(err, a.tried) {
		b.log.Warn("no connection to broker, trying again", "broker", address, "err", err)
	}
}

// Away reports whether a try to reach a broker failed in the last half minute, and none succeeded since.
func (b *Brokers) Away() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.away {
		if time.Since(a.tried) < 30*time.Second {
			return true
		}
	}
	return false
}
