package main

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func showBuild(registry prometheus.Registerer) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	revision := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1; its labels say what was built.",
	}, []string{"version", "revision", "goversion"}).WithLabelValues(info.Main.Version, revision, info.GoVersion).Set(1)
}
