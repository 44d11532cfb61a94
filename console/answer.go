// Package console lets job owners look at their own jobs from nodes without an archive. The service beside the archive
// answers questions for a viewer, and a relay on each login node vouches for the user who asks.
package console

import (
	"context"
	"errors"
	"io"
	"net/url"

	"github.com/weirhpc/weir/analysis"
)

// Question is a command whose output is wanted.
type Question struct {
	Command   string     // job, jobs, compare or top
	Arguments []string   // job IDs, as the command takes them
	Flags     url.Values // by their long names; a flag without a value is "true"
	JSON      bool       // as with --json
	Width     int        // columns of the reader's terminal; 0: the default of a file
	Color     bool
}

// Answer writes the output of a command, made of the jobs that the viewer may see. It may fail after a part is written.
// Besides the errors below, errors are faults of the service, and their texts are not for the viewer.
type Answer func(ctx context.Context, viewer analysis.Viewer, q Question, out io.Writer) error

var (
	// ErrNotThere is returned for a job that does not exist, and for a job that the viewer may not see. Its text is the
	// same for both.
	ErrNotThere = errors.New("no such job, or it is not yours")
	// ErrBadQuestion is returned for an unknown command, a flag that the console refuses, and a value that the command
	// refuses. The text names it, and is for the viewer.
	ErrBadQuestion = errors.New("the console does not answer this")
	// ErrNoAnswer is returned if the command ends with another error that its viewer understands, such as of a job that
	// has no interval yet. The text is for the viewer.
	ErrNoAnswer = errors.New("there is no answer")
)
