// Package page writes reports as HTML. A page is one file without script, which asks for nothing else. So it opens from
// a mail as from a disk. Its figures are SVG that takes its colours from the page's style.
package page

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/analysis/view"
)

// Options are what a page has beside its job.
type Options struct {
	Now     time.Time
	Version string
	Peers   *view.Peers // nil: none were looked for
}

//go:embed page.css
var style string

//go:embed *.html
var texts embed.FS

var templates = template.Must(template.ParseFS(texts, "*.html"))

// jobDocument is what the template of a job shows.
type jobDocument struct {
	Style                   template.CSS
	Now, Version            string
	Cluster, ID, Name, Lead string
	Restart                 int32
	Jobs                    int
	Facts                   []fact
	Uses                    []use
	Notes                   []note
	Map                     severityMap
	Fans                    []fan
	Key                     template.HTML
	Hourly                  bool
	Times                   string // of the figures
	Nodes                   nodeTable
	Roof                    roofline
	Peers                   peers
	Silent                  []gapRow
	NotEvaluated            []rules.Reason
}

type gapRow struct {
	From, To, Nodes string
	Missing         string
}

// Job writes the page of a job.
func Job(w io.Writer, j *view.Job, o Options) error {
	d := jobDocument{
		Style: template.CSS(style), Now: o.Now.UTC().Format("2006-01-02 15:04"), Version: o.Version,
		Cluster: j.Cluster, ID: j.JobID, Name: j.Name, Restart: j.Restart, Lead: lead(j),
		Facts: facts(j), Uses: uses(j), Notes: notes(j), NotEvaluated: j.NotEvaluated,
		Map: newSeverityMap(j), Nodes: newNodeTable(j), Roof: newRoofline(j), Peers: newPeers(j, o.Peers),
		Key: fanKey(), Times: times(j), Jobs: j.Jobs,
	}
	for i := range j.Metrics {
		f := newFan(j, &j.Metrics[i], fmt.Sprintf("fan%d", i))
		d.Fans, d.Hourly = append(d.Fans, f), d.Hourly || f.Hourly
	}
	for i := range j.Gaps {
		if i == fanTableRows {
			break
		}
		g := &j.Gaps[i]
		d.Silent = append(d.Silent, gapRow{moment(g.FromMs), moment(g.UntilMs), list(g.Nodes, 8), thousands(g.Missing)})
	}
	return write(w, "job.html", &d)
}

// write executes a template. Names from anywhere may have characters that turn the text around them: a question mark
// stands for each.
func write(w io.Writer, name string, document any) error {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, document); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	_, err := w.Write(bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\u00a0' || unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return '?'
	}, b.Bytes()))
	return err
}

// lead is what the page says, in two sentences.
func lead(j *view.Job) string {
	what := coresOnNodes(j)
	text := cmp.Or(what, "It") + " ran for " + roughly(elapsed(j)) + "."
	if b := busy(j); !math.IsNaN(b) && what != "" {
		text = percent(b) + " of the " + what + " were busy, over " + roughly(elapsed(j)) + "."
	}
	switch len(j.Findings) {
	case 0:
		return text + " No rule finds a problem."
	case 1:
		return text + " One finding: " + j.Findings[0].Title + "."
	}
	return text + fmt.Sprintf(" %d findings, the worst: %s.", len(j.Findings), j.Findings[0].Title)
}
