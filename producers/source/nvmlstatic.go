//go:build static || !linux || (!amd64 && !arm64)

package source

import (
	"errors"
	"log/slog"
)

// errStatic is returned by a binary that cannot load a library.
var errStatic = errors.New("this weir is static: use the dynamic one on nodes with GPUs")

func openNVML(string, *slog.Logger) (probe, error) { return probe{}, errStatic }
