package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/services"
)

// TestTopicsWithRegistry walks an administrator's way: create, check, a registry that is down, one that was made anew.
func TestTopicsWithRegistry(t *testing.T) {
	broker, err := services.StartBroker(t.TempDir(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	registry := srfake.New()
	defer registry.Close()
	t.Setenv("WEIR_KAFKA_BROKERS", broker.Addr())
	t.Setenv("WEIR_COLLECTORS", "4")
	t.Setenv("WEIR_TOPICS_REPLICATION", "1")
	t.Setenv("WEIR_TOPICS_WIRE", "confluent")
	expect := func(what string, wanted int, texts []string, args ...string) {
		t.Helper()
		status, stdout, stderr := clitest.Weir(t.Context(), args...)
		for _, text := range texts {
			if !strings.Contains(stdout+stderr, text) {
				t.Errorf("%s: %q lacks %q", what, stdout+stderr, text)
			}
		}
		if status != wanted {
			t.Errorf("%s: status %d, want %d: %q", what, status, wanted, stdout+stderr)
		}
	}
	create, check := []string{"topics", "create"}, []string{"topics", "check"}
	expect("create without a registry", cli.ExitUsage, []string{"`weir topics create` with registry.url"}, create...)
	t.Setenv("WEIR_REGISTRY_URL", registry.URL())
	expect("create", cli.ExitDone, []string{
		"registry " + registry.URL() + ": subject weir.job-summary-value has ids 1, 2, 3",
		"subject weir.findings-value has ids 4, 5", "subject weir.jobs-value has ids 6, 7, 8",
	}, create...)
	expect("check", cli.ExitDone, nil, check...)

	value, err := schemas.MarshalChecked(&schemas.Job{JobID: "4711", State: schemas.StateRunning})
	if err != nil {
		t.Fatal(err)
	}
	confluent, _ := schemas.ToConfluent(value, 8)
	header := []kgo.RecordHeader{{Key: schemas.FingerprintHeader, Value: schemas.Fingerprint(value)}}
	cl := kafkatest.Client(t, []string{broker.Addr()})
	for _, r := range []kgo.Record{{Value: value}, {Value: confluent, Headers: header}, {Value: confluent}} {
		r.Topic = "weir.jobs"
		if err := cl.ProduceSync(t.Context(), &r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	_, stdout, _ := clitest.Weir(t.Context(), "tail", "jobs", "--from", "start", "-n", "3")
	if strings.Count(stdout, "Job  RUNNING of") != 2 || strings.Count(stdout, "not an Avro single-object value") != 1 {
		t.Errorf("tail shows of both forms, and of one without its header: %s", stdout)
	}

	// An administrator whose configuration names no registry takes no ids away. A service asks for none.
	t.Setenv("WEIR_REGISTRY_URL", "")
	expect("create without the registry", cli.ExitDone, nil, create...)
	expect("check without the registry", cli.ExitDone, []string{"registry.url is empty"}, check...)
	findings := schemas.OfTopic(schemas.TopicFindings)
	newest := &kgo.Record{Topic: "weir.schemas", Key: []byte(findings[len(findings)-1].Key())}
	if err := cl.ProduceSync(t.Context(), newest).FirstErr(); err != nil { // as before an upgrade with a new schema
		t.Fatal(err)
	}
	expect("create without an id", cli.ExitUsage, []string{"weir.v1.Finding", "with registry.url"}, create...)
	t.Setenv("WEIR_REGISTRY_URL", registry.URL())
	expect("create that adds an id", cli.ExitDone, []string{"subject weir.findings-value has ids 4, 5"}, create...)
	t.Setenv("WEIR_REGISTRY_URL", "http://127.0.0.1:1")
	expect("create while the registry is down", cli.ExitFailed, []string{"that the registry runs"}, create...)
	expect("check while the registry is down", cli.ExitFailed, []string{"services go on without it"}, check...)
	runs(t, "while the registry is down", "collect")

	registry.Reset()
	registry.SeedSchema("another", 1, 1, sr.Schema{Schema: `"string"`})
	t.Setenv("WEIR_REGISTRY_URL", registry.URL())
	expect("check of a new registry", cli.ExitFailed, []string{
		"subject weir.jobs-value lacks schema weir.v1.Job", "restore the registry from its backup",
	}, check...)
	expect("create with a new registry", cli.ExitDone, []string{
		"had id 3 and has 4 now: restart collect, merge, find and balance", "subject weir.jobs-value has ids 7, 8, 9",
	}, create...)
	expect("check after that", cli.ExitDone, nil, check...)

	t.Setenv("WEIR_PREFIX", "bare.")
	t.Setenv("WEIR_TOPICS_WIRE", "single-object")
	t.Setenv("WEIR_REGISTRY_URL", "")
	expect("create of another installation", cli.ExitDone, nil, create...)
	t.Setenv("WEIR_TOPICS_WIRE", "confluent")
	for _, service := range [][]string{{"collect"}, {"merge"}, {"find", "--live"}, {"balance"}} {
		t.Setenv("WEIR_BALANCE_NODES", "n1")
		expect("a service without ids", cli.ExitFailed, []string{"no registry's id", "`weir topics create`"}, service...)
	}
	expect("check without ids", cli.ExitFailed, []string{"no registry's id", "`weir topics create`"}, check...)
}

// runs starts a service, and fails the test where it ends by itself within a second.
func runs(t *testing.T, when, service string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if status, _, stderr := clitest.Weir(ctx, service); status != cli.ExitDone || strings.Contains(stderr, "level=ERROR") {
		t.Errorf("%s %s: status %d: %q", service, when, status, stderr)
	}
}

// TestTopicsOfAnOlderRelease: topic counters takes larger records than before. check names the topic and its setting,
// and create mends it.
func TestTopicsOfAnOlderRelease(t *testing.T) {
	broker, err := services.StartBroker(t.TempDir(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	t.Setenv("WEIR_KAFKA_BROKERS", broker.Addr())
	t.Setenv("WEIR_COLLECTORS", "4")
	t.Setenv("WEIR_TOPICS_REPLICATION", "1")
	weir := func(command string, want int) string {
		t.Helper()
		status, stdout, stderr := clitest.Weir(t.Context(), "topics", command)
		if status != want {
			t.Errorf("%s: status %d, want %d: %s%s", command, status, want, stdout, stderr)
		}
		return stderr
	}
	weir("create", cli.ExitDone)
	older := "4194304"
	adm := kadm.NewClient(kafkatest.Client(t, []string{broker.Addr()}))
	setting := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &older}}
	if _, err := adm.AlterTopicConfigs(t.Context(), setting, "weir.counters"); err != nil {
		t.Fatal(err)
	}
	const want = "topic weir.counters: max.message.bytes is 4194304, and should be 8388608: " +
		"`weir topics create` sets it"
	if stderr := weir("check", cli.ExitFailed); !strings.Contains(stderr, want) ||
		strings.Count(stderr, "max.message.bytes") != 1 {
		t.Errorf("check: %s", stderr)
	}
	weir("create", cli.ExitDone)
	weir("check", cli.ExitDone)
}
