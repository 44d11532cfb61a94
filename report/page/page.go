// Package page writes reports as HTML. A page is one file without script that loads nothing else, so it opens from a
// mail as well as from a disk. Its figures are SVG with colours from the page's style.
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

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

// Options are the inputs of a page beside its job.
type Options struct {
	Now     time.Time
	Version string
	Peers   *view.Peers // nil: not looked for
}

//go:embed page.css
var style string

//go:embed *.html
var texts embed.FS

var templates = template.Must(template.ParseFS(texts, "*.html"))

// jobDocument is the data of the job template.
type jobDocument struct {
	Style                template.CSS
	Now, Version         string
	Cluster, Title, Name string
	Lead                 string
	Several              bool
	Facts                []fact
	Uses                 []use
	Notes                []note
	NoFinding, Unjudged  string
	Map                  severityMap
	Fans                 []fan
	Key                  template.HTML
	Hourly               bool
	Times                string // of the figures
	ByNode               byNode
	Nodes                nodeTable
	Roof                 roofline
	Peers                peers
	Silent               []gapRow
	NotEvaluated         []rules.Reason
}

type gapRow struct {
	From, To, Nodes string
	Missing         string
}

// Job writes the page of a job.
func Job(w io.Writer, j *view.Job, o Options) error {
	d := jobDocument{
		Style: template.CSS(style), Now: o.Now.UTC().Format("2006-01-02 15:04"), Version: o.Version,
		Cluster: j.Cluster, Name: j.Name, Lead: lead(j),
		Facts: facts(j), Uses: uses(j), Notes: notes(j), NotEvaluated: j.NotEvaluated,
		Map: newSeverityMap(j), ByNode: newByNode(j), Nodes: newNodeTable(j), Roof: newRoofline(j),
		Peers: newPeers(j, o.Peers), Key: fanKey(), Times: times(j), Several: j.Several(),
		NoFinding: noFinding(j), Unjudged: unjudged(j), Title: title(j),
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

// title returns the job's name, or the number of jobs.
func title(j *view.Job) string {
	switch {
	case j.Several():
		return count(int64(len(j.Jobs)), "job") + " together"
	case j.Restart > 0:
		return fmt.Sprintf("Job %s restart %d", j.JobID, j.Restart)
	}
	return "Job " + j.JobID
}

// write executes a template. Each character that can reverse the direction of the text around it is replaced by a
// question mark, since names may come from anywhere.
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

// busyOf returns the cores of a job with the verb: "the 64 cores on 2 nodes were".
func busyOf(j *view.Job) string {
	switch {
	case j.Cores == nil:
		return "the cores on " + coresOnNodes(j) + " were"
	case *j.Cores == 1:
		return coresOnNodes(j) + " was"
	}
	return "the " + coresOnNodes(j) + " were"
}

// lead returns the page's summary in two sentences.
func lead(j *view.Job) string {
	if j.Several() {
		return leadOfSeveral(j)
	}
	what := coresOnNodes(j)
	text := cmp.Or(what, "It") + " ran for " + roughly(elapsed(j)) + "."
	if b := j.BusyCores(); !math.IsNaN(b) && what != "" {
		text = percent(b) + " of " + busyOf(j) + " busy, over " + roughly(elapsed(j)) + "."
	}
	switch len(j.Findings) {
	case 0:
		return text + " " + noFinding(j)
	case 1:
		return text + " One finding: " + j.Findings[0].Title + "."
	}
	return text + fmt.Sprintf(" %d findings, the worst: %s.", len(j.Findings), j.Findings[0].Title)
}

func leadOfSeveral(j *view.Job) string {
	text := "Their time differs, so their curves begin together."
	if b := j.BusyCores(); !math.IsNaN(b) {
		text = "Their cores were busy in " + percent(b) + " of the time that was measured."
	}
	if len(j.Findings) == 0 {
		return text + " " + noFinding(j)
	}
	found := map[schemas.JobKey]bool{}
	for i := range j.Findings {
		found[j.Findings[i].Job()] = true
	}
	return text + fmt.Sprintf(" %d of %s %s. The worst: %s, in job %s.", len(found),
		count(int64(len(j.Jobs)), "job"), plural(len(found), "has a finding", "have findings"), j.Findings[0].Title,
		j.Findings[0].JobID)
}

// noFinding returns the reason for an empty list of findings. It distinguishes jobs without problems from jobs that no
// rule judged.
func noFinding(j *view.Job) string {
	switch {
	case !j.AnyEvaluated():
		return "No rule was evaluated."
	case j.Part:
		return "Rules saw a part of the job alone."
	}
	return "No rule finds a problem."
}

// unjudged counts the rules that were not evaluated.
func unjudged(j *view.Job) string {
	n := len(j.NotEvaluated)
	text := count(int64(n), "rule") + plural(n, " was", " were") + " not evaluated"
	if j.Several() {
		text += " for some or all of the jobs"
	}
	return text
}
