package integration

import (
	"bytes"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// throttles counts the answers by which a broker holds a client back.
type throttles struct{ n atomic.Int64 }

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (h *throttles) OnBrokerThrottle(kgo.BrokerMetadata, time.Duration, bool) { h.n.Add(1) }

// TestAgentQuota: the quota of docs/security.md holds back one agent that sends too much, and no other of its user.
func TestAgentQuota(t *testing.T) {
	if os.Getenv("KAFKA_SASL_SEEDS") == "" {
		t.Skip("SKIPPED: NO QUOTA WAS TRIED, for KAFKA_SASL_SEEDS is not set: make test-kafka does")
	}
	s := systemOn(t, findBrokers(t))
	k := newKeys(s)
	rights, err := kafka.Rights(s.cfg, "agent")
	if err != nil {
		t.Fatal(err)
	}
	s.grant("agent", rights)
	k.setPassword("agent", "first")
	user := s.user("agent")
	altered, err := kadm.NewClient(s.cl).AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}, {Type: "client-id"}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 20_000}},
	}})
	if err != nil || altered[0].Err != nil {
		t.Fatal(err, altered)
	}
	send := func(id string, records int) int64 {
		t.Helper()
		as := s.cfg
		as.Kafka = k.byPassword("agent")
		as.Kafka.ClientID = id
		opts, err := kafka.ClientOpts(t.Context(), as)
		if err != nil {
			t.Fatal(err)
		}
		var seen throttles
		cl, err := kgo.NewClient(append(opts, kgo.WithHooks(&seen), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		for range records { // a request each, as agents send
			r := &kgo.Record{Topic: s.cfg.Prefix + schemas.TopicCounters, Value: bytes.Repeat([]byte("x"), 5000)}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if seen.n.Load() > 0 {
				break // it would wait for long
			}
		}
		return seen.n.Load()
	}
	if n := send("mad", 1000); n == 0 {
		t.Error("5 MB at once were not throttled at 20,000 B/s")
	}
	if n := send("good", 32); n != 0 {
		t.Errorf("an agent that sends 32 intervals after an outage was throttled %d times", n)
	}
}
