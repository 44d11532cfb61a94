// Package retry is for parts of weir that wait and try again: how long to wait, and which of many equal errors to log.
// It knows nothing of what is tried.
package retry

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// logAgain is the time after which a trouble that lasts is logged again, so that the log of each day has it.
	logAgain = 10 * time.Minute
	// maxLines bounds the lines about one trouble within logAgain, for any number of errors.
	maxLines = 12
	// maxReturns bounds the lines after which a logged kind of error is logged again because it came back. The rest of
	// maxLines is kept for kinds that the log does not have.
	maxReturns = maxLines / 2
)

// Trouble decides which errors of a trouble that lasts are worth a line in the log. The first error is, and the first
// of every other kind. So is an error that comes back after another kind or after the end, and one of each kind every
// ten minutes. Within ten minutes it allows maxLines, so an error in a loop cannot flood the log. The zero value is no
// trouble. One goroutine at a time may use it.
type Trouble struct {
	kind  string // of the last error since the last end
	told  bool   // the log has this trouble
	lines []line // of the last ten minutes, oldest first, also those of earlier troubles
}

// line is an error that was worth a line.
type line struct {
	kind string
	at   time.Time
}

// Worth reports whether the caller should log an error of this moment.
func (t *Trouble) Worth(err error, now time.Time) bool {
	kind := kindOf(err)
	lasts := t.told && kind == t.kind
	t.kind = kind
	t.lines = slices.DeleteFunc(t.lines, func(l line) bool { return now.Sub(l.at) >= logAgain })
	limit := maxLines
	if slices.ContainsFunc(t.lines, func(l line) bool { return l.kind == kind }) {
		if lasts {
			return false
		}
		limit = maxReturns
	}
	if len(t.lines) >= limit {
		return false
	}
	t.told, t.lines = true, append(t.lines, line{kind, now})
	return true
}

// Over ends the trouble. It reports whether the caller should log the end, because the log has the trouble.
func (t *Trouble) Over() bool {
	told := t.told
	t.kind, t.told = "", false
	return told
}

// maxKind bounds the text of a kind, in bytes.
const maxKind = 300

// kindOf returns what stays the same while one cause yields error after error: the brokers' code, that of the system,
// or a timeout. For any other error it is the text without words that hold a digit, because offsets, addresses and
// times vary.
func kindOf(err error) string {
	var broker *kerr.Error
	var operation *net.OpError
	var name *net.DNSError
	var system syscall.Errno
	var slow net.Error
	during := ""
	if errors.As(err, &operation) {
		during = operation.Op + ": "
	}
	switch {
	case errors.As(err, &broker):
		return broker.Message
	case errors.As(err, &name):
		return during + withoutNumbers(name.Err)
	case errors.As(err, &system):
		return during + system.Error()
	case errors.As(err, &slow) && slow.Timeout(): // context.DeadlineExceeded too
		return during + "timeout"
	}
	return withoutNumbers(err.Error())
}

// withoutNumbers makes one kind of errors that differ by port, offset or time. Two ports of one broker that is away are
// one outage, and are logged once.
func withoutNumbers(text string) string {
	const number = "#"
	var kind strings.Builder
	before := ""
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsAny(word, "0123456789") {
			word = number
		}
		if word == number && before == number {
			continue // a list of two is of the same kind as one of three
		}
		if kind.Len()+len(word) >= maxKind {
			break
		}
		kind.WriteString(word + " ")
		before = word
	}
	return kind.String()
}
