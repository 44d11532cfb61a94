package services

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"

	"github.com/weirhpc/weir/commands/cli"
)

// errNoReport is returned if the environment names no file to report in.
var errNoReport = errors.New(config.ReportVariable + " is not set: run it inside a job whose site offers it, " +
	"or set it to the file that `weir up` prints")

// NewReportMetric returns the command weir report-metric.
func NewReportMetric() *cobra.Command {
	c := &cobra.Command{
		Use:   "report-metric NAME VALUE [UNIT]",
		Short: "Report a metric of the job that runs here",
		Long: `Reports a metric of the job that runs here, such as its steps per second.

It appends a line to the file in the environment variable WEIR_REPORT_FILE. A program can do so itself
(docs/report.md). The last value of an interval counts. A job may use at most 16 names, different from the agent's own
metrics. The default of UNIT is 1.`,
		Example: `  weir report-metric steps_per_second 12.5 1/s
  weir report-metric residual 3.1e-7`,
		Args: reportArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			unit := ""
			if len(args) == 3 {
				unit = args[2]
			}
			return reportMetric(os.Getenv(config.ReportVariable), args[0], args[1], unit)
		},
	}
	c.Flags().SetInterspersed(false) // a value such as -1.5 is no flag
	return c
}

func reportArgs(_ *cobra.Command, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return cli.Usage(fmt.Errorf("weir report-metric takes NAME VALUE [UNIT], but was given %.200q: "+
			"for example `weir report-metric rate 12.5 1/s`", args))
	}
	return nil
}

// reportMetric appends one line to the file in one write, so that lines of several processes do not mix.
func reportMetric(path, name, value, unit string) error {
	if err := source.CheckReport(name, value, unit); err != nil {
		return cli.Usage(fmt.Errorf("reporting %.80q %.80q %.80q: %w", name, value, unit, err))
	}
	if path == "" {
		return cli.Usage(errNoReport)
	}
	line := name + " " + value
	if unit != "" {
		line += " " + unit
	}
	// The file is never created here. A file that no prolog made belongs to no job, and the agent would not read it.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("opening the file of %s: %w", config.ReportVariable, err)
	}
	_, err = file.WriteString(line + "\n")
	return errors.Join(err, file.Close())
}
