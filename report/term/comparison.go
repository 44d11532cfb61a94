package term

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirhpc/weir/selection"
)

// Comparison writes the results of several methods of metric selection, one comparison for each model.
func Comparison(w io.Writer, all []*selection.Comparison, s Style) error {
	t := &text{Style: s}
	for i, c := range all {
		if i > 0 {
			t.line()
		}
		t.compared(c)
		t.swept(c)
		t.verified(c)
		if i == len(all)-1 || !slices.Equal(c.Warnings, all[i+1].Warnings) {
			t.remarks("Warnings, and rows and columns", c.Warnings)
		}
	}
	return t.print(w)
}

// compared writes the answer: each method in a line.
func (t *text) compared(c *selection.Comparison) {
	head := fmt.Sprintf("Selections for %s, %s model", c.Response, c.Model)
	t.line(t.paint(bold, t.clean(head, t.cells())))
	t.paragraph(fmt.Sprintf("%s and %s in %d chunks: the first %d choose, the others verify.",
		plural(int64(c.Rows), "row", "rows"), plural(int64(c.Metrics), "metric", "metrics"), c.Chunks, c.Train))
	rows := [][]string{{"METHOD", "METRICS", "IN-SAMPLE", "ADJUSTED", "HELD-OUT", "REFIT", "ALL HELD OUT"}}
	var refused []string
	for _, k := range c.Contenders {
		if k.Refused != "" {
			refused = append(refused, k.Method+": "+k.Refused)
			continue
		}
		m := &k.Mean
		rows = append(rows, []string{
			k.Method, fmt.Sprint(k.Metrics), r2(m.InSample), r2(m.Adjusted), r2(m.HeldOut), r2(m.Refit), r2(k.HeldOut),
		})
	}
	t.table(rows, "lrrrrrr")
	for _, why := range refused {
		t.paragraph(why)
	}
	t.paragraph("Each R² is the mean over the chunks that verify. IN-SAMPLE is fitted on the chunk itself, as in the " +
		"paper. REFIT too, but its R² is of parts of the chunk that are not fitted. ALL HELD OUT is of these chunks " +
		"together.")
}

// swept writes the literal method by threshold: figure 2, or 4 with the quadratic model.
func (t *text) swept(c *selection.Comparison) {
	figure := 2
	if c.Model == "quadratic" {
		figure = 4
	}
	t.section(fmt.Sprintf("Figure %d: the literal method by threshold", figure))
	rows := [][]string{{"THRESHOLD", "CLUSTERS", "METRICS", "REDUCTION", "IN-SAMPLE", "ADJUSTED", "HELD-OUT"}}
	var reasons []string
	at := map[string][]string{}
	for _, s := range c.Sweep {
		threshold := fmt.Sprintf("%.2f", s.Threshold)
		if s.Refused != "" {
			if len(at[s.Refused]) == 0 {
				reasons = append(reasons, s.Refused)
			}
			at[s.Refused] = append(at[s.Refused], threshold)
			continue
		}
		rows = append(rows, []string{
			threshold, fmt.Sprint(s.Clusters), fmt.Sprint(s.Metrics), fmt.Sprintf("%.2f", s.Reduction), r2(s.InSample),
			r2(s.Adjusted), r2(s.HeldOut),
		})
	}
	if len(rows) > 1 {
		t.table(rows, "rrrrrrr")
	}
	for _, why := range reasons {
		t.paragraph(fmt.Sprintf("Refused at %s: %s", strings.Join(at[why], ", "), why))
	}
	t.paragraph("IN-SAMPLE and ADJUSTED are of the chunks that choose, HELD-OUT of the others together.")
}

// verified writes each method on each chunk: figure 3, and 5 or 6 with the quadratic model.
func (t *text) verified(c *selection.Comparison) {
	var shown []*selection.Contender
	for i := range c.Contenders {
		if k := &c.Contenders[i]; len(k.Chunks) > 0 && k.Refused == "" {
			shown = append(shown, k)
		}
	}
	if len(shown) == 0 {
		return
	}
	figure := "Figure 3"
	if c.Model == "quadratic" {
		figure = "Figures 5 and 6"
	}
	for _, kind := range []struct {
		name string
		of   func(v *selection.Verified) float64
	}{
		{"in-sample", func(v *selection.Verified) float64 { return v.InSample }},
		{"adjusted", func(v *selection.Verified) float64 { return v.Adjusted }},
		{"held-out", func(v *selection.Verified) float64 { return v.HeldOut }},
	} {
		t.section(fmt.Sprintf("%s: %s R² of each chunk that verifies", figure, kind.name))
		head := []string{"CHUNK", "ROWS"}
		for _, k := range shown {
			head = append(head, fmt.Sprintf("%s [%d]", k.Method, k.Metrics))
		}
		rows := [][]string{head}
		row := func(name, count string, of func(k *selection.Contender) *selection.Verified) {
			cells := []string{name, count}
			for _, k := range shown {
				cells = append(cells, r2(kind.of(of(k))))
			}
			rows = append(rows, cells)
		}
		for i, v := range shown[0].Chunks {
			row(v.Chunk, fmt.Sprint(v.Rows), func(k *selection.Contender) *selection.Verified { return &k.Chunks[i] })
		}
		row("mean", "", func(k *selection.Contender) *selection.Verified { return &k.Mean })
		row("least", "", func(k *selection.Contender) *selection.Verified { return &k.Low })
		row("most", "", func(k *selection.Contender) *selection.Verified { return &k.High })
		t.table(rows, "l"+strings.Repeat("r", len(head)-1))
	}
	t.paragraph("[N] is the number of metrics.")
}
