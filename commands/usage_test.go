package commands_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/weirhpc/weir/commands"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestHelpIsForStrangers: the help of every command begins with one sentence, has an example that can be run, and names
// the value of every option. It fits a terminal of 120 columns.
func TestHelpIsForStrangers(t *testing.T) {
	for _, c := range shown(commands.NewRoot(new(bool))) {
		status, help, stderr := clitest.Weir(t.Context(), append(strings.Fields(c.CommandPath())[1:], "--help")...)
		if status != cli.ExitDone || stderr != "" {
			t.Fatalf("%s: status %d, %q", c.CommandPath(), status, stderr)
		}
		first, rest, _ := strings.Cut(help, "\n")
		if !strings.HasSuffix(first, ".") || !strings.HasPrefix(rest, "\n") {
			t.Errorf("%s: its help begins with %q, which is not a line of one sentence", c.CommandPath(), first)
		}
		for line := range strings.Lines(help) {
			if utf8.RuneCountInString(line) > 121 {
				t.Errorf("%s: too wide: %s", c.CommandPath(), line)
			}
		}
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); name != strings.ToUpper(name) {
				t.Errorf("%s --%s takes a value that has no name: %s", c.CommandPath(), f.Name, f.Usage)
			}
		})
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(line, "#")
			args := words(line)
			root := commands.NewRoot(new(bool))
			if len(args) == 0 || args[0] != "weir" {
				t.Errorf("%s: no example of weir: %q", c.CommandPath(), line)
				continue
			}
			if at := strings.IndexAny(line, ">|"); at >= 0 {
				args = words(line[:at])
			}
			shown, flags, err := root.Find(args[1:])
			if err != nil || !strings.HasPrefix(shown.CommandPath(), c.CommandPath()) && c.Name() != "help" {
				t.Errorf("%s: its example is of another command: %q, %v", c.CommandPath(), line, err)
				continue
			}
			if err := shown.ParseFlags(flags); err != nil {
				t.Errorf("%s: %q: %v", c.CommandPath(), line, err)
			} else if err := shown.ValidateArgs(shown.Flags().Args()); err != nil {
				t.Errorf("%s: %q: %v", c.CommandPath(), line, err)
			}
		}
	}
}

// words splits a line as a shell does, as far as examples need it.
func words(line string) (args []string) {
	for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line, -1) {
		args = append(args, strings.Trim(word, `"`))
	}
	return args
}
