package producers

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/retry"
)

// link remembers whether the brokers serve a topic. It logs an outage once for each reason, and its end once, over any
// number of tries. Several goroutines may use it.
type link struct {
	log   *slog.Logger
	topic string

	mu      sync.Mutex
	trouble retry.Trouble
	dial    error // of the last connection that was tried; nil when it succeeded
}

// OnBrokerConnect implements kgo.HookBrokerConnect. A wrong password or certificate shows only here: the client treats
// it as a broker that is away.
func (l *link) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dial = err
}

// lost notes that the brokers do not serve the topic, and why.
func (l *link) lost(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The client dials again and again: err may have the same cause from another try.
	if l.dial != nil && !strings.Contains(err.Error(), l.dial.Error()) {
		err = fmt.Errorf("%w: %w", err, l.dial)
	}
	if !l.trouble.Worth(err, time.Now()) {
		return
	}
	l.log.Warn("brokers do not serve the topic: waiting for them", "topic", l.topic, "err", err)
}

// found notes that the brokers serve the topic.
func (l *link) found() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trouble.Over() {
		l.log.Info("brokers serve the topic again", "topic", l.topic)
	}
}
