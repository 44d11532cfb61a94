package producers

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/topology/discovery/measure"
)

// surveyBench is a surveyor of node n1. Its child writes its task to a file, and then does what the script says.
type surveyBench struct {
	*surveyor

	t      *testing.T
	task   string // the file
	logged *kafkatest.Log
	now    time.Time
}

func newSurveyBench(t *testing.T, script string) *surveyBench {
	t.Helper()
	cfg := config.Default()
	cfg.Agent.Node, cfg.Agent.Topology.Listen = "n1", "127.0.0.1:7118"
	b := &surveyBench{
		t: t, task: filepath.Join(t.TempDir(), "task"), logged: &kafkatest.Log{},
		now: time.UnixMilli(1_700_000_000_000),
	}
	// It appears whole.
	script = `read -r task; echo "$task" >"$0.part"; mv "$0.part" "$0"; ` + script
	b.surveyor = &surveyor{
		cfg: cfg, log: b.logged.Logger(), began: b.now.Add(-10 * time.Minute),
		program: []string{"sh", "-c", script, b.task},
	}
	return b
}

func (b *surveyBench) order() schemas.TopologyOrder {
	return schemas.TopologyOrder{
		Cluster: b.cfg.Cluster, OrderedAt: b.now.UnixMilli(), Coordinator: "admin1:7117", Seconds: 60,
		Secret: []byte("0123456789abcdef"), Nodes: []string{"n1", "n2"},
	}
}

// give takes an order that was appended some time ago.
func (b *surveyBench) give(ctx context.Context, o schemas.TopologyOrder, ago time.Duration) {
	b.t.Helper()
	value, err := schemas.MarshalChecked(&o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.take(ctx, &kgo.Record{Topic: "weir.topology-orders", Value: value, Timestamp: b.now.Add(-ago)}, b.now)
}

func (b *surveyBench) begun() bool {
	_, err := os.Stat(b.task)
	return err == nil
}

func (b *surveyBench) logs(want string) {
	b.t.Helper()
	if b.logged.Count(want) != 1 {
		b.t.Errorf("the log does not have %q once:\n%s", want, b.logged.String())
	}
}

// TestOrderIsObeyed: the child gets its task, with the limits of this node. The newest order counts. The end of the
// agent is the child's end.
func TestOrderIsObeyed(t *testing.T) {
	b := newSurveyBench(t, "exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	b.give(ctx, b.order(), 0)
	kafkatest.Eventually(t, "the child has its task", b.begun)
	text, err := os.ReadFile(b.task)
	if err != nil {
		t.Fatal(err)
	}
	var got measure.Member
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	want := measure.Member{
		Coordinator: "admin1:7117", Secret: []byte("0123456789abcdef"), Name: "n1", Listen: "127.0.0.1:7118",
		Limits: measure.Limits{PacketsPerSecond: 10_000, Share: .1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the task is %+v, want %+v", got, want)
	}
	newer := b.order()
	newer.Coordinator = "admin2:7117"
	b.give(ctx, newer, 0)
	b.logs("is left: the agent ends, or has a newer order")
	kafkatest.Eventually(t, "the child of the newer order has its task", func() bool {
		text, _ := os.ReadFile(b.task)
		return strings.Contains(string(text), "admin2")
	})
	cancel()
	b.running.Wait()
	b.program = []string{"true"}
	b.give(t.Context(), b.order(), 0)
	b.running.Wait()
	b.logs("measurement of latencies has ended")
}

// TestChildKnowsNothingOfTheAgent: the process that listens to other nodes has no variable of the agent.
func TestChildKnowsNothingOfTheAgent(t *testing.T) {
	t.Setenv("WEIR_KAFKA_SASL_PASSWORD_FILE", "/etc/weir/secrets/agent")
	b := newSurveyBench(t, `/usr/bin/env >&2; exit 1`)
	b.give(t.Context(), b.order(), 0)
	b.running.Wait()
	b.logs("GOMAXPROCS=2")
	if strings.Contains(b.logged.String(), "WEIR_") {
		t.Errorf("the child's environment: %s", b.logged.String())
	}
}

// TestOrderHasAnEnd: a child that does not end is killed after the seconds of its order.
func TestOrderHasAnEnd(t *testing.T) {
	b := newSurveyBench(t, "exec sleep 1000")
	o := b.order()
	b.give(t.Context(), o, time.Duration(o.Seconds-1)*time.Second)
	b.running.Wait()
	b.logs("it took longer than was ordered")
}

// TestChildFails: the log has what the child reported.
func TestChildFails(t *testing.T) {
	for script, want := range map[string]string{
		"echo no coordinator >&2; exit 1": "exit status 1: no coordinator",
		"exit 0":                          "measurement of latencies has ended",
	} {
		b := newSurveyBench(t, script)
		b.give(t.Context(), b.order(), 0)
		b.running.Wait()
		b.logs(want)
	}
}

// TestOrdersOfOthers start nothing.
func TestOrdersOfOthers(t *testing.T) {
	long := func(o *schemas.TopologyOrder) { o.Seconds = 3600 }
	for name, c := range map[string]struct {
		change func(o *schemas.TopologyOrder)
		ago    time.Duration
		logs   string
	}{
		"of other nodes":     {func(o *schemas.TopologyOrder) { o.Nodes = []string{"n2", "n3"} }, 0, ""},
		"of another cluster": {func(o *schemas.TopologyOrder) { o.Cluster = "other" }, 0, "not a topology order"},
		"that is over":       {func(*schemas.TopologyOrder) {}, time.Minute, "it is over"},
		"that is read late":  {long, schemas.OrderWait + 1, "it is over"},
		"of before":          {long, time.Hour, ""},
	} {
		b := newSurveyBench(t, "")
		o := b.order()
		c.change(&o)
		b.give(t.Context(), o, c.ago)
		b.running.Wait()
		if b.begun() || (c.logs == "") != (b.logged.String() == "") || !strings.Contains(b.logged.String(), c.logs) {
			t.Errorf("an order %s: a child: %t, log: %s", name, b.begun(), b.logged.String())
		}
	}
	b := newSurveyBench(t, "")
	b.take(t.Context(), &kgo.Record{Value: []byte("rubbish"), Timestamp: b.now}, b.now)
	b.running.Wait()
	if b.begun() {
		t.Error("rubbish starts a child")
	}
	b.logs("topology order is skipped")
	o := b.order()
	o.Nodes = nil
	b.give(t.Context(), o, -time.Hour) // by the broker's clock, which is ahead
	b.running.Wait()
	if !b.begun() {
		t.Error("an order for all starts no child")
	}
}
