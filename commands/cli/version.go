package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build is the version information that the Go command recorded in this program.
type Build struct {
	Version, Revision, GoVersion string
	modified                     bool // the tree had changes that the revision lacks
}

// BuildOf reads the version information that `go build` leaves in the program. A build without git, such as from a
// release archive, lacks a revision.
func BuildOf(info *debug.BuildInfo) Build {
	b := Build{Version: info.Main.Version, GoVersion: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.modified = s.Value == "true"
		}
	}
	return b
}

// Text returns the text that `weir --version` prints after the name.
func (b Build) Text() string {
	version, commit := b.Version, "commit "+b.Revision
	if version == "" {
		version = "(devel)"
	}
	if b.Revision == "" {
		commit = "commit unknown"
	}
	if b.modified {
		commit += " with changes"
	}
	return fmt.Sprintf("%s, %s, %s %s/%s", version, commit, b.GoVersion, runtime.GOOS, runtime.GOARCH)
}

// VersionText returns the text of --version.
func VersionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return BuildOf(info).Text()
}
