package cli

import (
	"fmt"
	"io"
	"log/slog"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
)

// NewLogger makes the log of a process. Its handler adds the reason when a broker refuses the client.
func NewLogger(w io.Writer, cfg config.Config) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, is := a.Value.Any().(error); is {
			a.Value = slog.StringValue(kafka.Explain(cfg.Kafka, err).Error())
		}
		return a
	}}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err == nil { // Validate has accepted the level
		opts.Level = level
	}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(Escaped{w}, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// Escaped escapes unprintable characters in lines of JSON, so that a terminal shows all of them and executes none.
type Escaped struct{ W io.Writer }

// Write writes p, which is whole lines of JSON. In JSON only strings hold characters beyond ASCII.
func (e Escaped) Write(p []byte) (int, error) {
	line := make([]byte, 0, len(p))
	for rest := p; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			line = append(line, `\ufffd`...)
		case r == '\n', unicode.IsPrint(r):
			line = append(line, rest[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			line = fmt.Appendf(line, `\u%04x\u%04x`, high, low)
		default:
			line = fmt.Appendf(line, `\u%04x`, r)
		}
		rest = rest[n:]
	}
	if _, err := e.W.Write(line); err != nil {
		return 0, err
	}
	return len(p), nil
}
