package reading

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/report/term"

	"github.com/weirhpc/weir/commands/cli"
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

// Add adds the flags to a command, and their values to the completion of a shell.
func (f *StyleFlags) Add(c *cobra.Command) {
	f.Define(c)
	OfferColors(c)
}

// OfferColors offers the values of --color to a shell.
func OfferColors(c *cobra.Command) { cli.Offer(c, "color", whenColored...) }

// Define adds the flags alone. Cobra keeps each completion for the life of the process.
func (f *StyleFlags) Define(c *cobra.Command) {
	c.Flags().IntVar(&f.width, "width", 0, "write lines of `N` characters (default: those of the terminal, else 80)")
	c.Flags().BoolVar(&f.ascii, "ascii", false, "draw with ASCII alone (default: if the locale is not UTF-8)")
	c.Flags().StringVar(&f.color, "color", "auto", "colour words: `WHEN` is auto (on a terminal), always or never")
}

// StyleOf is Style for the flags of any command that has them.
func StyleOf(c *cobra.Command) (term.Style, io.Writer, error) {
	f := StyleFlags{color: c.Flags().Lookup("color").Value.String()}
	var widthErr, asciiErr error
	f.width, widthErr = c.Flags().GetInt("width")
	f.ascii, asciiErr = c.Flags().GetBool("ascii")
	if err := errors.Join(widthErr, asciiErr); err != nil {
		return term.Style{}, nil, err
	}
	return f.Style(c)
}

// Style returns the style that suits the reader, and the writer for it.
func (f *StyleFlags) Style(c *cobra.Command) (term.Style, io.Writer, error) {
	switch {
	case !slices.Contains(whenColored, f.color):
		return term.Style{}, nil, cli.Usage(fmt.Errorf("--color %q must be one of %s", f.color,
			strings.Join(whenColored, ", ")))
	case f.width < 0:
		return term.Style{}, nil, cli.Usage(fmt.Errorf("--width %d must be at least 1", f.width))
	}
	out := c.OutOrStdout()
	file := cli.OutputFile(out)
	s := term.Style{
		Width: cmp.Or(f.width, columns(file)), ASCII: f.ascii || !c.Flags().Changed("ascii") && !cli.IsUTF8(os.Getenv),
		Color: f.color == "always" || f.color == "auto" && cli.IsColored(os.Getenv) && cli.IsTerminal(file),
		Where: where(c),
	}
	if s.Color {
		out = cli.Styled(out)
	}
	return s, out, nil
}

// columns returns the width of a terminal, or 0 if the file is not a terminal.
func columns(f *os.File) int {
	if !cli.IsTerminal(f) {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// where returns the flags --config, --dir and --restart as given, quoted for a shell. A report prints them in the
// commands that it suggests.
func where(c *cobra.Command) string {
	var b strings.Builder
	for _, name := range []string{"config", "dir", "restart"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			b.WriteString(" --" + name + " " + cli.Quoted(f.Value.String()))
		}
	}
	return b.String()
}
