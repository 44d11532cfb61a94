package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// build is the version information that the Go command recorded in this program.
type build struct {
	version, revision, goVersion string
	modified                     bool // the tree had changes that the revision lacks
}

// BuildOf reads the version information that `go build` leaves in the program. A build without git, such as from a
// release archive, lacks a revision.
func BuildOf(info *debug.BuildInfo) build {
	b := build{version: info.Main.Version, goVersion: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.revision = s.Value
		case "vcs.modified":
			b.modified = s.Value == "true"
		}
	}
	return b
}

// Text returns the text that `weir --version` prints after the name.
func (b build) Text() string {
	version, commit := b.version, "commit "+b.revision
	if version == "" {
		version = "(devel)"
	}
	if b.revision == "" {
		commit = "commit unknown"
	}
	if b.modified {
		commit += " with changes"
	}
	return fmt.Sprintf("%s, %s, %s %s/%s", version, commit, b.goVersion, runtime.GOOS, runtime.GOARCH)
}

// VersionText returns the text of --version.
func VersionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return BuildOf(info).Text()
}

// ShowBuild gives every process the metric by which a dashboard finds hosts with another build.
func ShowBuild(registry prometheus.Registerer) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	b := BuildOf(info)
	promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1; its labels describe the build.",
	}, []string{"version", "revision", "goversion"}).WithLabelValues(b.version, b.revision, b.goVersion).Set(1)
}
