package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhpc/weir/config"
)

// CheckAddress returns nil if a server can listen on the address of a flag.
func CheckAddress(flag, address string) error {
	if config.IsAddress(address) {
		return nil
	}
	return UsageError{fmt.Errorf("--%s %q: must be host:port, for example 127.0.0.1:9092", flag, address)}
}

// UnknownCommand returns the error for the name of a sub-command that c does not have.
func UnknownCommand(c *cobra.Command, name string) error {
	remedy := fmt.Sprintf("`%s --help` lists its commands", c.CommandPath())
	c.SuggestionsMinimumDistance = 2
	if like := c.SuggestionsFor(name); len(like) > 0 {
		remedy = "did you mean " + strings.Join(like, " or ") + "? " + remedy
	}
	return UsageError{fmt.Errorf("%s: there is no command %q: %s", c.CommandPath(), name, remedy)}
}

// FlagError returns the error for a flag that cannot be parsed. It lists the values that the flag takes.
func FlagError(c *cobra.Command, err error) error {
	remedy := fmt.Sprintf("`%s --help` lists the flags", c.CommandPath())
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return UsageError{fmt.Errorf("%s: %w: %s", c.CommandPath(), err, remedy)}
	}
	wanted, below := invalid.GetFlag().Value.Type(), " below 2^63"
	switch wanted {
	case "int":
		wanted = "a whole number"
	case "int32":
		wanted, below = "a whole number", " below 2^31"
	case "uint64":
		wanted = "a whole number from 0"
	case "float64":
		wanted = "a number"
	case "bool":
		wanted = "true or false"
	case "duration":
		wanted = "a duration such as 500ms, 10s or 24h"
	}
	if errors.Is(err, strconv.ErrRange) {
		wanted += below
	}
	return UsageError{fmt.Errorf("--%s %q: %s is wanted: %s",
		invalid.GetFlag().Name, invalid.GetValue(), wanted, remedy)}
}

// EmptyFlags returns an error if the value of a flag is empty, because an unset shell variable is the usual cause.
func EmptyFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" {
			err = UsageError{fmt.Errorf("--%s is empty: give it a value or leave it out", f.Name)}
		}
	})
	return err
}

// NoArgs is for commands without arguments.
func NoArgs(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasAvailableSubCommands():
		return UnknownCommand(c, args[0])
	case c.Flags().Lookup("config") != nil && !c.Flags().Changed("config") && len(args) == 1:
		return UsageError{fmt.Errorf("%[1]s takes no argument, but was given %[2]q; "+
			"a configuration is named so: %[1]s --config %[2]s", c.CommandPath(), args[0])}
	}
	return UsageError{fmt.Errorf("%[1]s takes no argument, but was given %[2]q: `%[1]s --help` shows its flags",
		c.CommandPath(), args[0])}
}

// OneArg is for commands with a single argument, described by a name and an example.
func OneArg(name, example string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch len(args) {
		case 1:
			return nil
		case 0:
			return UsageError{fmt.Errorf("%[1]s: its argument %[2]s is missing: for example `%[1]s %[3]s`",
				c.CommandPath(), name, example)}
		}
		return UsageError{fmt.Errorf("%[1]s takes one argument, %[2]s, but was given %[4]q: for example `%[1]s %[3]s`",
			c.CommandPath(), name, example, args)}
	}
}

// NewHelp replaces cobra's help, which ends with status 0 for a command that does not exist.
func NewHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		Long:  "Shows the help of a command.",
		Example: `  weir help balance
  weir help sink accept-gap`,
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return UnknownCommand(about, append(rest, args...)[0])
			}
			return about.Help()
		},
	}
}

// NeedsSubcommand is run by a command that only groups others.
func NeedsSubcommand(c *cobra.Command, args []string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	line := strings.Join(append([]string{c.CommandPath()}, args...), " ")
	return UsageError{fmt.Errorf("%s: name one of its commands: %s", line, strings.Join(names, ", "))}
}

// UsageError is a mistake of the caller, on the command line or in the configuration.
type UsageError struct{ error }

// Usage marks an error as a mistake of the caller.
func Usage(err error) error { return UsageError{err} }

// Unwrap returns the mistake.
func (e UsageError) Unwrap() error { return e.error }

// StatusError is the exit status of a program that has reported its error itself.
type StatusError int

// Error is for logs: run prints nothing.
func (e StatusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// Exit statuses.
const (
	ExitDone   = 0
	ExitFailed = 1 // something went wrong
	ExitUsage  = 2 // wrong usage or configuration: nothing began
)
