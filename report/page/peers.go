package page

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/view"
)

// peers is the figure of the job's rank among the jobs of its user and of its queue.
type peers struct {
	Result string
	Figure template.HTML // empty: no peers
	Rows   []peerRow
	Scope  string // the jobs that are compared
}

type peerRow struct{ Number, Value, User, Queue string }

// rankedNumber is one number of the job with its ranks among the jobs of its user and queue. Either rank may be nil.
type rankedNumber struct {
	metric, of  string
	user, queue *view.Rank
}

func newPeers(j *view.Job, p *view.Peers) peers {
	switch {
	case j.Several():
		return peers{Result: "Several jobs together have no rank."}
	case p == nil:
		return peers{Result: "The job is not compared: an archive has the other jobs."}
	case len(p.User)+len(p.Queue) == 0:
		return peers{Result: "There are no other jobs to compare with."}
	}
	numbers := rankedNumbers(p)
	out := peers{Scope: fmt.Sprintf("How many of 100 jobs are below this one; the middle half is shaded. "+
		"Jobs of up to %s, of the last %s.", count(p.SizeClass, "core"), count(int64(p.Days), "day"))}
	extreme, far := &numbers[0], -1.0
	for i := range numbers {
		n := &numbers[i]
		if r := n.queue; r != nil && r.All > 0 && (r.Value != 0 || r.Below > 0) { // many may be equal to 0
			if d := max(rank(r), 1-rank(r)); d > far {
				extreme, far = n, d
			}
		}
		out.Rows = append(out.Rows, peerRow{n.name(), n.value(j), ranked(n.user), ranked(n.queue)})
	}
	out.Result = "No job of the queue has numbers to compare with."
	if r := extreme.queue; far >= 0 {
		out.Result = fmt.Sprintf("The job stands out by %s: it is above %s of %s in the queue.",
			extreme.name(), percent(rank(r)), count(r.All, "job"))
		if rank(r) < 0.5 {
			out.Result = fmt.Sprintf("The job stands out by %s: only %s of %s in the queue are below it.",
				extreme.name(), percent(rank(r)), count(r.All, "job"))
		}
	}
	out.Figure = drawPeers(numbers, out.Result)
	return out
}

// rankedNumbers joins the ranks among both groups, in the order of the queue's ranks.
func rankedNumbers(p *view.Peers) []rankedNumber {
	var numbers []rankedNumber
	at := map[[2]string]int{}
	put := func(r *view.Rank) *rankedNumber {
		key := [2]string{r.Metric, r.Of}
		i, has := at[key]
		if !has {
			i = len(numbers)
			at[key] = i
			numbers = append(numbers, rankedNumber{metric: r.Metric, of: r.Of})
		}
		return &numbers[i]
	}
	for i := range p.Queue {
		put(&p.Queue[i]).queue = &p.Queue[i]
	}
	for i := range p.User {
		put(&p.User[i]).user = &p.User[i]
	}
	return numbers
}

func (n *rankedNumber) name() string {
	switch n.of {
	case "busy":
		return "busy cores"
	case "spread":
		return "spread of " + n.metric
	}
	return "median of " + n.metric
}

func (n *rankedNumber) value(j *view.Job) string {
	r := n.queue
	if r == nil {
		r = n.user
	}
	if n.of == "busy" {
		return percent(r.Value)
	}
	if m := j.Find(n.metric); m != nil {
		return value(m, r.Value)
	}
	return unitText(n.metric, "", r.Value)
}

func rank(r *view.Rank) float64 { return float64(r.Below) / float64(max(r.All, 1)) }

func ranked(r *view.Rank) string {
	if r == nil || r.All == 0 {
		return "–"
	}
	return fmt.Sprintf("above %s of %s", thousands(r.Below), thousands(r.All))
}

// drawPeers draws a row for each metric, with a panel for its median and one for its spread. A dot is the rank in the
// queue, a ring the rank among the user's jobs.
func drawPeers(numbers []rankedNumber, result string) template.HTML {
	const top, rowH, left, wide, apart = 52.0, 18.0, 128.0, 112.0, 28.0
	var rows []string
	for i := range numbers {
		if name := numbers[i].row(); !slices.Contains(rows, name) && len(rows) < maxPeerRows {
			rows = append(rows, name)
		}
	}
	bottom := top + rowH*float64(len(rows))
	f := chart.Figure{ID: "peers", W: 400, H: bottom + 24, Title: "Rank among other jobs", Desc: result}
	panels := [2]chart.Scale{}
	for i, name := range []string{"median d5", "spread d9-d1"} {
		from := left + float64(i)*(wide+apart)
		x := chart.Linear(0, 1, from, from+wide).As(func(v float64) string { return digits(100 * v) })
		f.Cells([]float64{x.At(0.25), x.At(0.75)}, []float64{top, bottom}, func(int, int) (class, title string) {
			return "half", ""
		})
		f.Across(x, bottom, "")
		f.Text(from+wide/2, top-8, "strong mid", name)
		panels[i] = x
	}
	for i, name := range rows {
		f.Text(left-8, top+rowH*(float64(i)+0.5)+4, "tick end", shorten(name, 17))
	}
	var dots []chart.Point
	for i := range numbers {
		n := &numbers[i]
		row := slices.Index(rows, n.row())
		if row < 0 {
			continue
		}
		x := panels[0]
		if n.of == "spread" {
			x = panels[1]
		}
		put := func(r *view.Rank, radius float64, class string) {
			if r != nil && r.All > 0 {
				dots = append(dots, chart.Point{
					X: x.At(rank(r)), Y: top + rowH*(float64(row)+0.5), R: radius, Class: class,
					Title: n.name() + ": " + ranked(r),
				})
			}
		}
		put(n.user, 4.5, "ring")
		put(n.queue, 3.5, "dot")
	}
	dots = append(dots, chart.Point{X: left, Y: 12, R: 3.5, Class: "dot"})
	f.Text(left+9, 16, "tick", "in the queue")
	if slices.ContainsFunc(numbers, func(n rankedNumber) bool { return n.user != nil && n.user.All > 0 }) {
		dots = append(dots, chart.Point{X: left + 110, Y: 12, R: 4.5, Class: "ring"})
		f.Text(left+120, 16, "tick", "among the user's")
	}
	f.Points(dots)
	return f.SVG()
}

const maxPeerRows = 24

// row returns the label of the number's row: its metric, or the name of a number without a metric.
func (n *rankedNumber) row() string {
	if n.of == "busy" {
		return n.name()
	}
	return n.metric
}
