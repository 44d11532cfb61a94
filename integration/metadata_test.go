package integration

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

var metadataFor = flag.Duration("metadata.for", 0, "how long to ask Kafka who leads counters and routes; 0: not at all")

// TestMetadataLoad measures the brokers' cost of requests for the leaders of counters and routes.
func TestMetadataLoad(t *testing.T) {
	if *metadataFor == 0 || os.Getenv("KAFKA_SEEDS") == "" {
		t.Skip("no metadata was asked for: it needs -metadata.for and KAFKA_SEEDS")
	}
	at := findBrokers(t)
	adm := kadm.NewClient(kafkatest.Client(t, at.seeds))
	var topics []string
	for name, partitions := range map[string]int32{at.prefix + "counters": 64, at.prefix + "routes": 16} {
		if _, err := adm.CreateTopic(t.Context(), partitions, int16(at.replication), nil, name); err != nil {
			t.Fatal(err)
		}
		topics = append(topics, name)
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	asked, bytes := 0, 0
	ask := func(cl *kgo.Client) {
		req := kmsg.NewPtrMetadataRequest()
		for _, name := range topics {
			of := kmsg.NewMetadataRequestTopic()
			of.Topic = &name
			req.Topics = append(req.Topics, of)
		}
		r, err := req.RequestWith(t.Context(), cl)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
			return
		}
		asked, bytes = asked+1, len(r.AppendTo(nil))
	}
	used := func() (d time.Duration) {
		for _, pid := range brokersPids() {
			d += brokerCPU(t, pid)
		}
		return d
	}
	run := func(d time.Duration) {
		for range 16 {
			cl := kafkatest.Client(t, at.seeds)
			wait.Go(func() {
				for began := time.Now(); time.Since(began) < d && !t.Failed(); {
					ask(cl)
				}
			})
		}
		wait.Wait()
	}
	run(*metadataFor) // the brokers become warm
	asked = 0
	before, began := used(), time.Now()
	run(*metadataFor)
	cpu, took := used()-before, time.Since(began)
	t.Logf("%d answers of %d bytes in %.0f s: %.0f a second, %v of the brokers' CPU for each", asked, bytes,
		took.Seconds(), float64(asked)/took.Seconds(), cpu/time.Duration(max(1, asked)))
}

// brokerCPU returns the CPU time of a process so far.
func brokerCPU(t *testing.T, pid string) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	var user, system int64
	if _, err := fmt.Sscan(f[11]+" "+f[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * (time.Second / 100)
}
