// Package kafkatest provides helpers for the tests of several packages: a broker in the process and a client of it, a
// log that may be read while it is written, and a wait for a condition. Only tests import it.
package kafkatest

import (
	"bytes"
	"flag"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Broker starts one broker in this process. It ends with the test, and so does its data, unless an option sets a
// directory.
func Broker(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// CreateTopics creates the topics of weir that the broker lacks, with the partitions of the configuration.
func CreateTopics(t testing.TB, cluster *kfake.Cluster, c config.Config) {
	t.Helper()
	for _, topic := range schemas.Topics(c.Prefix, schemas.Sizes{
		Collectors: c.Collectors, Routes: c.Partitions.Routes, Partials: c.Partitions.Partials,
		JobSummary: c.Partitions.JobSummary, Replication: 1, CountersRetention: time.Hour, SummaryRetention: time.Hour,
	}) {
		if cluster.TopicInfo(topic.Name) != nil {
			continue
		}
		if err := cluster.CreateTopic(topic.Name, int32(topic.Partitions), topic.Config); err != nil {
			t.Fatal(err)
		}
	}
}

// Client connects to brokers without TLS and SASL, until the test ends.
func Client(t testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Eventually waits until something holds, for a minute and a half at most: a busy machine is slow.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !holds(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Cases returns the number of cases for a test of code without goroutines: all, or few if the race detector runs or
// -short was given.
func Cases(all, few int) int {
	if Raced || flag.Parsed() && testing.Short() {
		return few
	}
	return all
}

// Log keeps log lines of level debug and above, as text. It may be read while it is written. The zero value is ready.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Logger returns a logger that writes here.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write adds to the log.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// String returns everything that was logged so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Count returns how often a text was logged so far.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
