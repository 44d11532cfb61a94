package jobs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhpc/weir/analysis"

	"github.com/weirhpc/weir/console"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

// orConsole makes a command ask the relay of this node where it could not answer itself.
func orConsole(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if socket := consoleSocket(c); socket != "" {
			return askConsole(c, socket, args)
		}
		return run(c, args)
	}
}

// consoleSocket returns the socket of a relay, if one is there and the command itself would not answer: it may not read
// the archive, or it knows neither an archive nor a broker. A configuration that is wrong is the command's to report.
func consoleSocket(c *cobra.Command) string {
	if dir := c.Flags().Lookup("dir"); dir != nil && dir.Changed {
		return ""
	}
	quiet := &cobra.Command{}
	quiet.SetErr(io.Discard) // the command itself reports which file is ignored
	conf := cli.ConfigFlags{Reads: true, Command: quiet, File: c.Flags().Lookup("config").Value.String()}
	cfg, err := conf.Local()
	if err != nil {
		return ""
	}
	if info, err := os.Stat(cfg.Console.Socket); err != nil || info.Mode().Type() != fs.ModeSocket {
		return ""
	}
	dir, topic := analysis.Where(cfg, "")
	if errors.Is(analysis.Readable(dir), fs.ErrPermission) {
		return cfg.Console.Socket
	}
	if _, err := os.Stat(dir); topic || conf.Found != "" && err == nil {
		return ""
	}
	return cfg.Console.Socket
}

// ofReader are the flags that the reader's terminal decides, and the ones that select a configuration.
var ofReader = []string{"ascii", "color", "config", "json", "width"}

// askConsole sends the command to the console as it was given, and writes the answer.
func askConsole(c *cobra.Command, socket string, args []string) error {
	style, out, err := reading.StyleOf(c)
	if err != nil {
		return err
	}
	q := console.Question{
		Command: c.Name(), Arguments: args, Flags: url.Values{}, Width: style.Width, Color: style.Color,
	}
	if style.ASCII {
		q.Flags.Set("ascii", "true")
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "json":
			q.JSON = f.Value.String() == "true"
		case !slices.Contains(ofReader, f.Name):
			q.Flags.Set(f.Name, f.Value.String())
		}
	})
	if c.Name() == "top" && !q.Flags.Has("once") && cli.IsTerminal(cli.OutputFile(c.OutOrStdout())) {
		return cli.Usage(errors.New("the console of this node shows one interval: add --once"))
	}
	err = console.Ask(c.Context(), socket, q, out)
	if errors.Is(err, console.ErrBadQuestion) {
		return cli.Usage(err)
	}
	if errors.Is(err, console.ErrNotThere) && len(args) > 0 {
		return fmt.Errorf("job %s: %w", strings.Join(args, " "), err)
	}
	return err
}
