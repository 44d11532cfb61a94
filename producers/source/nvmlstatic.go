//go:build static || !linux || (!amd64 && !arm64)

package source

import (
	"errors"
	"log/slog"

	"github.com/weirhpc/weir/config"
)

// errStatic is returned by a binary that cannot load a library.
var errStatic = errors.New("this weir is static: use the dynamic one on nodes with GPUs")

func openNVML(string, config.Agent, *slog.Logger) (probe, error) { return probe{}, errStatic }
