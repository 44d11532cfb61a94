package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/weirhpc/weir/schemas"
)

// relay writes standard output or standard error in a goroutine of its own, so that a paused reader, such as less,
// never keeps the process from ending. It replaces characters that could drive a terminal.
type relay struct {
	queue  chan piece
	file   *os.File        // destination; nil if it is not a file
	ended  <-chan struct{} // closed with the process's context
	quit   chan struct{}
	lossy  atomic.Bool
	lost   atomic.Int64
	failed atomic.Pointer[error]
}

// piece is the text of one Write. Its writer may wait for done.
type piece struct {
	text string
	done chan error
}

// lastWait is how long the process waits at its end for the reader of its output.
const lastWait = time.Second

// errUnread ends a write that nobody read until the process was asked to end.
var errUnread = fmt.Errorf("nobody reads the output: %w", context.Canceled)

// NewRelay returns a relay to w. It drops nothing until ctx ends.
func NewRelay(ctx context.Context, w io.Writer) *relay {
	r := &relay{queue: make(chan piece, 1024), ended: ctx.Done(), quit: make(chan struct{})}
	r.file, _ = w.(*os.File)
	go r.write(w)
	return r
}

func (r *relay) write(w io.Writer) {
	for {
		select {
		case <-r.quit:
			return
		case p := <-r.queue:
			var err error
			if n := r.lost.Swap(0); n > 0 {
				_, err = fmt.Fprintf(w, "weir: %d lines dropped, since nobody read them\n", n)
			}
			if err == nil && p.text != "" {
				_, err = io.WriteString(w, p.text)
			}
			if err != nil {
				r.failed.CompareAndSwap(nil, &err)
			}
			p.done <- err
		}
	}
}

// Write waits until p is written. After NeverWait it does not wait: it drops lines, and returns the error of an earlier
// Write.
func (r *relay) Write(p []byte) (int, error) {
	if err := r.put(terminal(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (r *relay) put(text string) error {
	if err := r.failed.Load(); err != nil {
		return *err
	}
	one := piece{text, make(chan error, 1)}
	if r.lossy.Load() {
		select {
		case r.queue <- one:
		default:
			r.lost.Add(1)
		}
		return nil
	}
	return r.wait(one, r.ended)
}

// raw writes to a relay without replacing the characters that drive a terminal.
type raw struct{ r *relay }

func (w raw) Write(p []byte) (int, error) {
	if err := w.r.put(string(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Styled returns an output that passes control sequences on. Only report/term may write to it: it cleans every datum
// itself.
func Styled(w io.Writer) io.Writer {
	if r, is := w.(*relay); is {
		return raw{r}
	}
	return w
}

// wait returns once the piece is written, or lastWait after ended.
func (r *relay) wait(one piece, ended <-chan struct{}) error {
	queue := r.queue
	var late <-chan time.Time
	for {
		select {
		case err := <-one.done:
			return err
		case queue <- one:
			queue = nil
		case <-ended:
			ended, late = nil, time.After(lastWait)
		case <-late:
			r.failed.CompareAndSwap(nil, &errUnread)
			return errUnread
		}
	}
}

// Flush waits until everything is written, for lastWait at most.
func (r *relay) Flush() {
	now := make(chan struct{})
	close(now)
	if r.failed.Load() == nil {
		_ = r.wait(piece{done: make(chan error, 1)}, now) // an earlier Write returned the error
	}
}

// OutputFile returns the file of an output, to hand it to another program; nil if the output is not a file.
func OutputFile(w io.Writer) *os.File {
	if r, is := w.(*relay); is {
		return r.file
	}
	return nil
}

func (r *relay) Close() {
	r.Flush()
	close(r.quit)
}

// NeverWait makes outputs drop lines while nobody reads them, since the work of a service must not stop.
func NeverWait(outputs ...io.Writer) {
	for _, w := range outputs {
		if r, is := w.(*relay); is {
			r.lossy.Store(true)
		}
	}
}

// terminal replaces each character that may drive a terminal by a question mark. Line ends and tabs stay.
func terminal(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// Table aligns the columns of lines. Text of a record or a broker stays in its column.
type Table struct {
	text    bytes.Buffer
	columns *tabwriter.Writer
}

// NewTable returns an empty table; flags are those of text/tabwriter.
func NewTable(flags uint) *Table {
	t := &Table{}
	t.columns = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', flags)
	return t
}

// Line adds a line. Tabs separate its columns.
func (t *Table) Line(format string, args ...any) {
	for i := range args {
		if text, is := args[i].(string); is {
			args[i] = schemas.Printable(text)
		}
	}
	_, _ = fmt.Fprintf(t.columns, format+"\n", args...) // a buffer takes all
}

// Print writes the table at once.
func (t *Table) Print(w io.Writer) error {
	_ = t.columns.Flush() // a buffer takes all
	_, err := w.Write(t.text.Bytes())
	return err
}

// PrintJSON prints one object a line.
func PrintJSON[T any](w io.Writer, rows []T) error {
	e := json.NewEncoder(Escaped{w})
	e.SetEscapeHTML(false)
	for i := range rows {
		if err := e.Encode(rows[i]); err != nil {
			return fmt.Errorf("printing JSON: %w", err)
		}
	}
	return nil
}

// Number formats a number for a table, or a dash for none.
func Number(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}

// OrDash returns s, or a dash for an empty s.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Say writes a line to an output. An output that fails is noticed when it is closed.
func Say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }

// TableWidth is the width to which tables wrap long texts, in columns.
const TableWidth = 120

// Wrapped breaks text at spaces so that it fits a table. The first line begins at column begun, the others are
// indented.
func Wrapped(text string, indent, begun int) string {
	var b strings.Builder
	at := begun
	for i, word := range strings.Fields(schemas.Printable(text)) {
		switch {
		case i == 0:
		case at+1+len(word) > TableWidth:
			fmt.Fprintf(&b, "\n%*s", indent, "")
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}
