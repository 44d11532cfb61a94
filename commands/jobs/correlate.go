package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/analysis/like"
	"github.com/weirhpc/weir/naming"

	"github.com/weirhpc/weir/commands/cli"
)

var errPair = errors.New("name two metrics, as in --correlate ipc,mem_bw")

var errNoPair = errors.New("no complete interval has both metrics")

var errOneJob = errors.New("--correlate is for one job")

// pairOf returns the two metrics of --correlate.
func pairOf(text string) (a, b string, err error) {
	a, b, two := strings.Cut(text, ",")
	if !two || !naming.Valid(a) || !naming.Valid(b) || a == b {
		return "", "", fmt.Errorf("--correlate %.100q: %w", text, errPair)
	}
	return a, b, nil
}

// correlation is a coefficient of two metrics for programs. It is null if it is not defined.
type correlation struct {
	JobID       string   `json:"job_id"`
	Restart     int32    `json:"restart"`
	A           string   `json:"a"`
	B           string   `json:"b"`
	Kind        string   `json:"kind"`
	Intervals   int      `json:"intervals"`
	Independent *float64 `json:"independent_intervals"`
	Value       *float64 `json:"value"`
	Low         *float64 `json:"low"`
	High        *float64 `json:"high"`
}

// jobCorrelation writes how the two metrics of --correlate move together over the time of a job.
func jobCorrelation(ctx context.Context, sources *analysis.Sources, ids []string, metrics string, ask analysis.Ask,
	form cli.CSVFlags, asJSON bool, w io.Writer,
) error {
	a, b, err := pairOf(metrics)
	if err == nil && len(ids) != 1 {
		err = fmt.Errorf("%w: these are %d, such as %s", errOneJob, len(ids), ids[0])
	}
	if err != nil {
		return cli.Usage(err)
	}
	c, err := sources.Correlate(ctx, ids[0], a, b, ask)
	if err != nil {
		return err
	}
	if c.Pairs == 0 {
		return fmt.Errorf("%w: job %s, metrics %s and %s; `weir job %[2]s --metrics all` shows the measured ones",
			errNoPair, c.JobID, a, b)
	}
	var rows []correlation
	for _, k := range []struct {
		name string
		of   *like.Coefficient
	}{{"pearson", &c.Pearson}, {"spearman", &c.Spearman}} {
		row := correlation{JobID: c.JobID, Restart: c.Restart, A: a, B: b, Kind: k.name, Intervals: c.Pairs}
		if k.of.Known {
			row.Independent, row.Value, row.Low, row.High = &k.of.Independent, &k.of.Value, &k.of.Low, &k.of.High
		}
		rows = append(rows, row)
	}
	if asJSON || form.AsCSV {
		return cli.PrintRows(w, form, rows)
	}
	if _, err := fmt.Fprintf(w, "%s and %s of job %s over time: means of %d complete intervals\n", a, b, c.JobID,
		c.Pairs); err != nil {
		return err
	}
	for _, r := range rows {
		text := "undefined: one of the two never changes, or there are fewer than three intervals"
		if r.Value != nil {
			text = fmt.Sprintf("%5.2f  (95 %% confidence: %.2f to %.2f, as if from %.0f independent intervals)",
				*r.Value, *r.Low, *r.High, *r.Independent)
		}
		if _, err := fmt.Fprintf(w, "%-9s %s\n", r.Kind, text); err != nil {
			return err
		}
	}
	return nil
}
