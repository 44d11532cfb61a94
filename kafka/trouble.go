package kafka

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
	// sayAgain is the time after which a trouble that lasts is logged again: a log of today should have it.
	sayAgain = 10 * time.Minute
	// maxLines bounds the lines about one trouble within sayAgain, whatever its errors are.
	maxLines = 12
	// maxReturns bounds the lines after which a kind of error that the log has is logged again because it came back.
	// The rest of maxLines is kept for kinds that the log does not have.
	maxReturns = maxLines / 2
)

// Trouble decides which errors of a trouble that lasts are worth a line in the log. These are the first error, the
// first of every other kind, one that comes back after another kind or after the end, and one of each kind every ten
// minutes. It stays within maxLines in ten minutes, so an error in a loop cannot flood the log. The zero value is no
// trouble. One goroutine at a time may use it.
type Trouble struct {
	kind  string // of the last error since the last end
	told  bool   // the log has this trouble
	lines []line // of the last ten minutes, oldest first, those of earlier troubles among them
}

// line is an error that was worth a line.
type line struct {
	kind string
	at   time.Time
}

// Worth reports whether an error of this moment is worth a line. The caller logs it then.
func (t *Trouble) Worth(err error, now time.Time) bool {
	kind := kindOf(err)
	lasts := t.told && kind == t.kind
	t.kind = kind
	t.lines = slices.DeleteFunc(t.lines, func(l line) bool { return now.Sub(l.at) >= sayAgain })
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

// Over ends the trouble, and reports whether the log has it. The caller logs the end then.
func (t *Trouble) Over() bool {
	told := t.told
	t.kind, t.told = "", false
	return told
}

// maxKind bounds the text of a kind, in bytes.
const maxKind = 300

// kindOf returns what stays the same while one cause yields error after error: the brokers' code, that of the system, a
// timeout. Of any other error it is the text without words that hold a digit: offsets, addresses and times vary.
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
