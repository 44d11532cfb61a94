package term

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gdamore/tcell/v2"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/machine"
)

// TopSorts are the orders of `weir top`. The first one is the default.
var TopSorts = []string{"finding", "busy", "spread", "nodes", "user", "job"}

// topView is the state of `weir top`: the last frame, and the choices that the person made by keys.
type topView struct {
	TopOptions
	height   int
	frame    *machine.Frame
	now      time.Time
	jobs     []*machine.FrameJob // the jobs shown, in order
	reversed bool
	found    bool           // only jobs with findings
	at       schemas.JobKey // the selected job
	top      int            // the first job on the screen
	page     page
	typed    *string // a user's name that is being typed
	quit     bool
}

// page selects the contents of the screen.
type page int

const (
	pageJobs page = iota
	pageJob
	pageHelp
)

func newTopView(o TopOptions) *topView {
	if o.Sort == "" {
		o.Sort = TopSorts[0]
	}
	if o.Metric == "" {
		o.Metric = "cpu_user"
	}
	return &topView{TopOptions: o, height: 24}
}

// show takes a frame.
func (v *topView) show(f *machine.Frame) {
	v.frame = f
	v.arrange()
}

// arrange selects and orders the jobs. The selected job stays selected while it is in the list.
func (v *topView) arrange() {
	v.jobs = nil
	if v.frame == nil {
		return
	}
	for i := range v.frame.Jobs {
		j := &v.frame.Jobs[i]
		if (v.User == "" || j.User == v.User) && (v.Queue == "" || j.Queue == v.Queue) &&
			(!v.found || len(j.Findings) > 0) {
			v.jobs = append(v.jobs, j)
		}
	}
	slices.SortStableFunc(v.jobs, func(a, b *machine.FrameJob) int {
		order := v.compare(a, b)
		if v.reversed {
			order = -order
		}
		return order
	})
	if v.selected() < 0 && len(v.jobs) > 0 && v.page != pageJob { // a page keeps its job
		v.at = v.jobs[0].JobKey
	}
}

// compare orders jobs as a person looks for them: the worst or the largest first. Unknown values come last.
func (v *topView) compare(a, b *machine.FrameJob) int {
	switch v.Sort {
	case "finding":
		return cmp.Or(worst(b).compare(worst(a)), unknownLast(a.Busy, b.Busy))
	case "busy":
		return unknownLast(a.Busy, b.Busy)
	case "spread":
		return unknownLast(v.spread(b), v.spread(a))
	case "nodes":
		return cmp.Compare(b.Nodes, a.Nodes)
	case "user":
		return cmp.Compare(a.User, b.User)
	}
	return 0 // frames are in the order of jobs
}

// unknownLast orders ascending numbers.
func unknownLast(a, b *float64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*a, *b)
}

func (v *topView) spread(j *machine.FrameJob) *float64 {
	if d, ok := j.Metric("cpu_user").Spread(); ok {
		return &d
	}
	return nil
}

// ranked is a finding with the rank of its class; 0: no finding.
type ranked struct {
	*schemas.Finding
	class int
}

// classes are the classes of findings, the mildest first.
var classes = []string{schemas.ClassLow, schemas.ClassMed, schemas.ClassHigh}

// worst returns the worst finding of a job.
func worst(j *machine.FrameJob) (w ranked) {
	for i := range j.Findings {
		f := &j.Findings[i]
		if r := (ranked{f, 1 + slices.Index(classes, f.Class)}); r.compare(w) > 0 || w.Finding == nil {
			w = r
		}
	}
	return w
}

func (r ranked) compare(other ranked) int {
	if r.Finding == nil || other.Finding == nil {
		return cmp.Compare(r.class, other.class)
	}
	return cmp.Or(cmp.Compare(r.class, other.class), cmp.Compare(r.Severity, other.Severity))
}

// selected returns the index of the selected job, or -1.
func (v *topView) selected() int {
	return slices.IndexFunc(v.jobs, func(j *machine.FrameJob) bool { return j.JobKey == v.at })
}

// event handles an input event, and reports whether the screen has changed.
func (v *topView) event(e tcell.Event) bool {
	switch e := e.(type) {
	case *tcell.EventResize:
		return true
	case *tcell.EventKey:
		if v.typed != nil {
			v.typing(e)
			return true
		}
		return v.key(e)
	}
	return false
}

// longestName bounds the name that a person types.
const longestName = 64

// typing takes a key while a user's name is typed.
func (v *topView) typing(e *tcell.EventKey) {
	switch e.Key() {
	case tcell.KeyEnter:
		v.User, v.typed = strings.TrimSpace(*v.typed), nil
		v.arrange()
	case tcell.KeyEscape, tcell.KeyCtrlC:
		v.typed = nil
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		if letters := []rune(*v.typed); len(letters) > 0 {
			*v.typed = string(letters[:len(letters)-1])
		}
	case tcell.KeyRune:
		if len([]rune(*v.typed)) < longestName && unicode.IsPrint(e.Rune()) {
			*v.typed += string(e.Rune())
		}
	}
}

func (v *topView) key(e *tcell.EventKey) bool {
	switch key, letter := e.Key(), e.Rune(); {
	case key == tcell.KeyCtrlC, key == tcell.KeyRune && letter == 'q':
		v.quit = true
	case key == tcell.KeyEscape, key == tcell.KeyEnter && v.page != pageJobs:
		v.page = pageJobs
		v.arrange()
	case key == tcell.KeyEnter && v.selected() >= 0:
		v.page = pageJob
	case key == tcell.KeyUp, letter == 'k':
		v.move(-1)
	case key == tcell.KeyDown, letter == 'j':
		v.move(1)
	case key == tcell.KeyPgUp:
		v.move(-v.room())
	case key == tcell.KeyPgDn:
		v.move(v.room())
	case key == tcell.KeyHome:
		v.move(-len(v.jobs))
	case key == tcell.KeyEnd:
		v.move(len(v.jobs))
	case key == tcell.KeyRune:
		return v.letter(letter)
	default:
		return false
	}
	return true
}

func (v *topView) letter(letter rune) bool {
	if v.page != pageJobs && letter != '?' { // the letters have no effect on other pages
		return false
	}
	switch letter {
	case '?':
		v.page = pageHelp
	case 's':
		v.Sort = TopSorts[(slices.Index(TopSorts, v.Sort)+1)%len(TopSorts)]
	case 'r':
		v.reversed = !v.reversed
	case 'm':
		if v.frame != nil && len(v.frame.Metrics) > 0 {
			v.Metric = v.frame.Metrics[(slices.Index(v.frame.Metrics, v.Metric)+1)%len(v.frame.Metrics)]
		}
	case 'u':
		v.typed = new(string)
	case 'f':
		v.found = !v.found
	default:
		return false
	}
	v.arrange()
	return true
}

// move selects another job.
func (v *topView) move(by int) {
	if len(v.jobs) > 0 {
		v.at = v.jobs[min(max(v.selected()+by, 0), len(v.jobs)-1)].JobKey
	}
}

// Lines of the screen that are no jobs.
const (
	headLines = 3
	footLines = 1
)

// room returns the number of jobs that fit.
func (v *topView) room() int {
	lines := headLines + footLines
	if v.hasGPUs() {
		lines++
	}
	return max(1, v.height-lines)
}
