package main

import (
	"context"
	"errors"
	"io"

	"github.com/weirhpc/weir/config"
)

var errNoHistory = errors.New("this build evaluates no history")

// findHistory evaluates a rule over the archive.
func findHistory(_ context.Context, _ config.Config, _ *findFlags, _ io.Writer) error { return errNoHistory }

// findLike lists the jobs that are most like another one.
func findLike(_ context.Context, _ config.Config, _ *findFlags, _ io.Writer) error { return errNoHistory }
