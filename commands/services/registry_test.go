package services_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/console"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/services"
)

// shown starts the endpoint on a free port.
func shown(t *testing.T) (url string, stop func()) {
	t.Helper()
	var said kafkatest.Log
	stop, err := services.ServeMetrics(t.Context(), "127.0.0.1:0", services.NewRegistry(), slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return addressIn(&said), stop
}

// addressIn returns the address of the metrics that a log names; empty before.
func addressIn(log *kafkatest.Log) string {
	named := regexp.MustCompile(`metrics are shown.*(127\.0\.0\.1:\d+)`).FindStringSubmatch(log.String())
	if named == nil {
		return ""
	}
	return "http://" + named[1] + "/metrics"
}

func scrape(url string) (string, error) {
	r, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && (r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain")) {
		err = fmt.Errorf("%s, %s", r.Status, r.Header.Get("Content-Type"))
	}
	return string(text), err
}

func TestMetricsAreShownUntilTheEnd(t *testing.T) {
	url, stop := shown(t)
	text, err := scrape(url)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"weir_build_info{", "go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no %s", line)
		}
	}
	other, err := http.Get(strings.TrimSuffix(url, "metrics"))
	if err != nil {
		t.Fatal(err)
	}
	other.Body.Close()
	if other.StatusCode != http.StatusNotFound {
		t.Errorf("something else is shown too: %s", other.Status)
	}
	stop()
	if _, err := scrape(url); err == nil {
		t.Error("it is shown after the end")
	}
}

func TestMetricsOnATakenPortNameAddressAndRemedy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = services.ServeMetrics(t.Context(), l.Addr().String(), services.NewRegistry(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(),
		"WEIR_METRICS_LISTEN") {
		t.Errorf("got %v", err)
	}
	stop, err := services.ServeMetrics(t.Context(), "", services.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	stop()
}

// TestMetricsAreWhatThePageSays holds the names that a running weir shows against docs/metrics.md.
func TestMetricsAreWhatThePageSays(t *testing.T) {
	t.Parallel()
	want := clitest.ListedMetrics(t)
	up := clitest.Start(t, clitest.Process(t, []string{
		"WEIR_METRICS_LISTEN=127.0.0.1:0", "WEIR_NOTIFY_SENDMAIL=/bin/true", "WEIR_NOTIFY_FROM=hpc@example.org",
		"WEIR_NOTIFY_DOMAIN=example.org",
	}, "up", "--data",
		filepath.Join(t.TempDir(), "data"), "--interval", "1s", "--simulate", "16", "--samples", "--for", "10m"))
	kafkatest.Eventually(t, "the address", func() bool { return addressIn(&up.Errs) != "" })
	url := addressIn(&up.Errs)
	got := map[string]string{}
	owners := prometheus.NewRegistry() // of the only service that is no part of weir up
	console.NewMetrics(owners)
	families, err := owners.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		got[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	look := func() {
		text, err := scrape(url)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range regexp.MustCompile(`(?m)^# TYPE (weir_\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
			got[line[1]] = line[2]
		}
	}
	// The last to come are those of the sink's first file, which is ten seconds long. Nobody waits long for a metric
	// that does not come: cmp.Diff names it.
	start := time.Now()
	kafkatest.Eventually(t, "all metrics", func() bool {
		time.Sleep(200 * time.Millisecond) // a scrape gathers all series: it costs more than it waits
		look()
		return len(got) >= len(want) || time.Since(start) > 80*time.Second
	})
	text, err := scrape(url)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Errorf("what is shown cannot be parsed: %v", err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "weir_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if status := up.Interrupt(t); status != cli.ExitDone {
		t.Fatalf("status %d: %s", status, up.Errs.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/metrics.md (-) and what is shown (+):\n%s", diff)
	}
}

// TestPartsOfOneProcess: each part registers once on the registry of its process, and another process has its own.
func TestPartsOfOneProcess(t *testing.T) {
	for range 2 {
		registry := services.NewRegistry()
		sink.NewMetrics(registry)
		sink.NewSamplesMetrics(registry)
		sink.NewNodesMetrics(registry)
		balancer.NewMetrics(registry)
		processors.NewMetrics(registry)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "weir_") {
				shown = append(shown, f.GetName())
			}
		}
		want := []string{ // a histogram counts from the start
			"weir_balancer_active", "weir_balancer_plan_seconds", "weir_balancer_source_failures_total",
			"weir_build_info", "weir_nodes_file_seconds", "weir_samples_file_seconds", "weir_sink_file_seconds",
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Errorf("before anything is known (-want +got)\n%s", diff)
		}
	}
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "weir_") {
			t.Errorf("%s is on the registry that every library shares", f.GetName())
		}
	}
}
