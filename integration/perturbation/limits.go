package main

import (
	"context"
	"errors"
	"io"
)

type limitsReport struct{}

func (*limitsReport) print(io.Writer) {}

func limits(context.Context, *lab, options) (*limitsReport, error) { return nil, errors.New("later") }
