package agent

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"

	"github.com/weirhpc/weir/commands/cli"
)

// toStdout as the file of --report is the standard output.
const toStdout = "-"

// reportHardware writes the report of --report. It checks first that the file can be written, since the two readings
// take an interval.
func reportHardware(c *cobra.Command, cfg config.Config, file string) error {
	if err := writableReport(file); err != nil {
		return cli.Usage(err)
	}
	progress := c.ErrOrStderr()
	r, err := source.ReportHardware(c.Context(), cfg.Agent, cfg.Interval, func(reading int) {
		cli.Say(progress, "weir agent: reading %d of 2", reading)
		if reading == 1 {
			cli.Say(progress, "weir agent: the next one follows in %s", cfg.Interval)
		}
	})
	if err != nil {
		return err
	}
	if file == toStdout {
		return r.Write(c.OutOrStdout())
	}
	if err := cli.WriteWhole("--report", file, func(w io.Writer) error { return r.Write(w) }); err != nil {
		return err
	}
	states := map[string]int{}
	for _, s := range r.Sources {
		states[s.State]++
	}
	cli.Say(progress, "weir agent: %s has %d sources that were read, %d absent, %d late. Read it before you send it: "+
		"docs/hardware.md has its contents", file, states["read"], states["absent"], states["late"])
	return nil
}

// writableReport returns an error if the directory of the file is missing or read-only.
func writableReport(file string) error {
	if file == toStdout {
		return nil
	}
	if info, err := os.Stat(file); err == nil {
		if info.IsDir() {
			return fmt.Errorf("--report %q is a directory: give a file", file)
		}
		return nil
	}
	probe, err := os.CreateTemp(filepath.Dir(file), ".weir-report-")
	if err != nil {
		return fmt.Errorf("--report %q: the file needs a directory that weir may write to: %w", file, err)
	}
	_ = probe.Close() // nothing was written
	_ = os.Remove(probe.Name())
	return nil
}
