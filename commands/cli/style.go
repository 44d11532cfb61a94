package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/report/term"
)

// StyleFlags set the width, the characters and the colours of a report. The terminal decides about flags that are not
// given.
type StyleFlags struct {
	width int
	ascii bool
	color string
}

// whenColored are the values of --color.
var whenColored = []string{"auto", "always", "never"}

// Add adds the flags to a command.
func (f *StyleFlags) Add(c *cobra.Command) {
	c.Flags().IntVar(&f.width, "width", 0, "write lines of `N` characters (default: those of the terminal, else 80)")
	c.Flags().BoolVar(&f.ascii, "ascii", false, "draw with ASCII alone (default: if the locale is not UTF-8)")
	c.Flags().StringVar(&f.color, "color", "auto", "colour words: `WHEN` is auto (on a terminal), always or never")
	Offer(c, "color", whenColored...)
}

// Style returns the style that suits the reader, and the writer for it.
func (f *StyleFlags) Style(c *cobra.Command) (term.Style, io.Writer, error) {
	switch {
	case !slices.Contains(whenColored, f.color):
		return term.Style{}, nil, UsageError{fmt.Errorf("--color %q must be one of %s", f.color,
			strings.Join(whenColored, ", "))}
	case f.width < 0:
		return term.Style{}, nil, UsageError{fmt.Errorf("--width %d must be at least 1", f.width)}
	}
	out := c.OutOrStdout()
	s := term.Style{
		Width: cmp.Or(f.width, columns(OutputFile(out))), ASCII: f.ascii || !IsUTF8(os.Getenv),
		Color: f.color == "always" || f.color == "auto" && IsColored(os.Getenv) && IsTerminal(OutputFile(out)),
		Where: where(c),
	}
	if s.Color {
		out = Styled(out)
	}
	return s, out, nil
}

// columns returns the width of a terminal, or 0 if the file is not a terminal.
func columns(f *os.File) int {
	if !IsTerminal(f) {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// IsUTF8 reports whether the locale is one of UTF-8. The first variable that is set counts.
func IsUTF8(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// IsColored reports whether the environment lets a terminal show colours.
func IsColored(env func(string) string) bool { return env("NO_COLOR") == "" && env("TERM") != "dumb" }

// where returns the flags --config, --dir and --restart as given, quoted for a shell. A report prints them in the
// commands that it suggests.
func where(c *cobra.Command) string {
	var b strings.Builder
	for _, name := range []string{"config", "dir", "restart"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			b.WriteString(" --" + name + " " + Quoted(f.Value.String()))
		}
	}
	return b.String()
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._/:@%+=,-]+$`)

// Quoted returns a word quoted for a shell.
func Quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// IsTerminal reports whether a file is a terminal. It may be nil.
func IsTerminal(f *os.File) bool {
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
