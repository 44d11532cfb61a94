package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	pages "github.com/weirhpc/weir/report/page"
	"github.com/weirhpc/weir/report/term"
	"github.com/weirhpc/weir/report/usage"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"

	"github.com/weirhpc/weir/analysis/overview"
)

// usageFlags are the flags of weir report user and weir report account.
type usageFlags struct {
	reading.ReadFlags
	reading.StyleFlags
	month, html string
}

// newReportUsage returns the command weir report user, or weir report account.
func newReportUsage(kind string) *cobra.Command {
	var f usageFlags
	c := &cobra.Command{
		Use:   kind + " NAME",
		Short: "Report a month of " + map[string]string{usage.User: "a user", usage.Account: "an account"}[kind],
		Long: `Reports a month of ` + map[string]string{usage.User: "a user", usage.Account: "an account"}[kind] + `.

It counts the jobs that ended in the month, in UTC: core-hours and GPU-hours, the wasted part of each, and the energy of
the jobs whose power was measured. The three months before stand below. The wasted part is of the measured hours. A job
wastes its idle GPUs, and its idle cores by the share of its GPUs that idle.

Findings are those that held to the end of a job, with the core-hours that these jobs held. The worst jobs are those
with a finding that wasted most. A wasted GPU-hour counts as the cores that the job held beside the GPU.

It reads jobs, totals and findings of the archive, and no interval. --json and --csv contain all numbers.`,
		Example: fmt.Sprintf(`  weir report %s alice
  weir report %[1]s alice --month 2026-11 --html alice.html`, kind),
		Args: cli.OneArg("NAME", "alice"),
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, kind, args[0]) },
	}
	f.ReadFlags.Add(c)
	f.StyleFlags.Add(c)
	c.Flags().StringVar(&f.month, "month", "", "report `MONTH`, such as 2026-11 (default: the current one)")
	c.Flags().StringVar(&f.html, "html", "", "write a page to `FILE`, which any browser shows")
	cli.OfferFiles(c, "html", "html")
	return c
}

func (f *usageFlags) run(c *cobra.Command, kind, name string) error {
	now := time.Now().UTC()
	month, err := usage.ParseMonth(cmp.Or(f.month, now.Format("2006-01")))
	switch {
	case err != nil:
		return cli.Usage(fmt.Errorf("--month %q must be a month such as 2026-11", f.month))
	case f.Exclusive() != nil:
		return cli.Usage(f.Exclusive())
	case f.html != "" && (f.AsJSON || f.AsCSV):
		return cli.Usage(errors.New("--html, --json and --csv: name one of them"))
	}
	style, out, err := f.Style(c)
	if err != nil {
		return err
	}
	cfg, dir, err := archiveAlone(&f.ReadFlags)
	if err != nil {
		return err
	}
	r, err := overview.Usage(c.Context(), cfg, overview.UsageAsk{
		Dir: dir, Kind: kind, Name: name, Month: month, Now: now, May: everybody().May,
	})
	switch {
	case err != nil:
		return err
	case f.html != "":
		return writePage(f.html, func(w io.Writer) error {
			return pages.Usage(w, r, pages.Options{Now: time.Now(), Version: cli.VersionText()})
		})
	case f.AsJSON || f.AsCSV:
		return cli.PrintRows(out, f.CSVFlags, r.Rows())
	}
	return term.Usage(out, r, style)
}
