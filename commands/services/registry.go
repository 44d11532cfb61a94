package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirhpc/weir/commands/cli"
)

// newRegistry returns the metrics of every process: build, Go runtime and process. Each part adds its own.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	showBuild(registry)
	return registry
}

// showBuild gives every process the metric by which a dashboard finds hosts with another build.
func showBuild(registry prometheus.Registerer) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	b := cli.BuildOf(info)
	promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1; its labels describe the build.",
	}, []string{"version", "revision", "goversion"}).WithLabelValues(b.Version, b.Revision, b.GoVersion).Set(1)
}

// serveMetrics shows a registry to Prometheus until stop is called. With an empty address it listens on nothing.
func serveMetrics(
	ctx context.Context, listen string, registry *prometheus.Registry, log *slog.Logger,
) (stop func(), err error) {
	if listen == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listening on metrics.listen %s: %w: give every service an address of its own "+
			"(WEIR_METRICS_LISTEN), or none for no metrics", listen, err)
	}
	mux := http.NewServeMux()
	page := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(registry, page))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("metrics are not shown any more", "err", err)
		}
	}()
	log.Info("metrics are shown", "address", listener.Addr().String())
	return func() { _ = server.Close() }, nil
}
