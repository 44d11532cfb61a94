package cli

import "github.com/spf13/cobra"

// Values that the shell offers.
var (
	LogLevels = []string{"debug", "info", "warn", "error"}
	YamlFiles = []string{"yaml", "yml"}
)

// Offer makes the shell offer the values of a flag. The flag must be one of the command.
func Offer(c *cobra.Command, flag string, values ...string) {
	must(c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// OfferFiles makes the shell offer files whose names end in one of these ways.
func OfferFiles(c *cobra.Command, flag string, ends ...string) {
	must(c.MarkFlagFilename(flag, ends...))
}

// OfferDirectories makes the shell offer directories.
func OfferDirectories(c *cobra.Command, flag string) { must(c.MarkFlagDirname(flag)) }

// must panics on an error that only a mistake in this program can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
