package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveMetrics shows this process's metrics to Prometheus until stop is called; with an empty address it listens on
// nothing.
func serveMetrics(ctx context.Context, listen string, log *slog.Logger) (stop func(), err error) {
	if listen == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listening on metrics.listen %s: %w: give every service an address of its own", listen, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("metrics are not shown any more", "err", err)
		}
	}()
	log.Info("metrics are shown", "address", listener.Addr().String())
	return func() { _ = server.Close() }, nil
}
