package term

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/report/view"
)

// deciles run from one value to another.
func deciles(from, to float64) *[11]float64 {
	var d [11]float64
	for k := range d {
		d[k] = from + (to-from)*float64(k)/10
	}
	return &d
}

// topJob is a job of a frame.
func topJob(
	id, user string, nodes int64, busy float64, cpu *[11]float64, findings ...schemas.Finding,
) machine.FrameJob {
	return machine.FrameJob{
		JobKey: schemas.JobKey{JobID: id}, User: user, Account: "phys", Queue: "normal", Name: "relax",
		Nodes: nodes, Expected: nodes, Reported: nodes, Method: schemas.MethodExact, Busy: &busy, Findings: findings,
		Metrics: []machine.FrameMetric{
			{Name: "cpu_user", Unit: "1", Deciles: cpu, Past: []float64{0.1, 0.5, 0.9}, LowNode: "n1", HighNode: "n2"},
			{Name: "mem_used", Unit: "B", Deciles: deciles(9e10, 9.4e10), Past: []float64{9e10, 9.2e10}},
		},
	}
}

// topFrame is an interval of a machine with three jobs.
func topFrame() *machine.Frame {
	notSeen := 5.0
	idle := schemas.Finding{Rule: "idle-cores", Title: "Cores without work", Class: schemas.ClassMed, Severity: 0.5}
	serial := schemas.Finding{Rule: "serial", Title: "One core works", Class: schemas.ClassHigh, Severity: 0.9}
	return &machine.Frame{
		Cluster: "alpha", StartMs: time.Date(2026, 10, 2, 14, 20, 30, 0, time.UTC).UnixMilli(), IntervalMs: 10_000,
		Seen: 1954, Expected: 1960, Metrics: []string{"cpu_user", "mem_used"},
		Cores: machine.Cores{Seen: 95, Busy: 74, Wasted: 17, Free: 4, NotSeen: &notSeen},
		Jobs: []machine.FrameJob{
			topJob("184223", "alice", 64, 0.78, deciles(0, 1), idle),
			topJob("184310", "bob", 1, 0.01, deciles(0, 0.01), serial),
			topJob("184400", "carol", 8, 0.97, deciles(0.97, 0.99)),
		},
	}
}

// once returns a printed frame.
func once(t *testing.T, f *machine.Frame, o TopOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := TopOnce(&b, f, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTopOnce: a frame as text, at the widths that people have.
func TestTopOnce(t *testing.T) {
	for _, c := range []struct {
		style Style
		want  string
	}{
		{Style{Width: 80}, `
weir top  cluster alpha  14:20:30Z  interval 10 s  1,954 of 1,960 nodes seen
cores  |||||||||||||||||||||||||||||||||||||xxxxxxxxx..    busy 74 % wasted 17 %
JOB      USER    NODES    BUSY  d1-d9 cpu_user      SPREAD  FINDING
184310   bob         1     1 %  ┃                     1 pt  HIGH serial
184223   alice      64    78 %  ·────────┃───────·   80 pt  MED  idle-cores
184400   carol       8    97 %                   ┃    2 pt  -
`},
		{Style{Width: 120, ASCII: true}, `
weir top  cluster alpha  14:20:30Z  interval 10 s  1,954 of 1,960 nodes seen
cores  ||||||||||||||||||||||||||||||||||||||||||||||||||xxxxxxxxxxxx...     busy 74 % wasted 17 % free 4 % not seen 5 %
JOB      USER    ACCOUNT  QUEUE    NODES    BUSY  d1-d9 cpu_user      median over time      SPREAD  FINDING
184310   bob     phys     normal       1     1 %  |                   _=#                     1 pt  HIGH serial
184223   alice   phys     normal      64    78 %  .--------|-------.  _=#                    80 pt  MED  idle-cores
184400   carol   phys     normal       8    97 %                   |  _=#                     2 pt  -
`},
		{Style{Width: 40, ASCII: true}, `
weir top  cluster alpha  14:20:30Z  int~
cores  busy 74 % wasted 17 %
JOB      USER       BUSY  FINDING
184310   bob         1 %  HIGH serial
184223   alice      78 %  MED  idle-cor~
184400   carol      97 %  -
`},
	} {
		if got := once(t, topFrame(), TopOptions{Style: c.style}); got != c.want[1:] {
			t.Errorf("%+v:\n%s\nwant\n%s", c.style, got, c.want[1:])
		}
	}
}

// TestTopShowsGPUs where there are any: a bar of the machine, and a column of the jobs.
func TestTopShowsGPUs(t *testing.T) {
	f := topFrame()
	f.GPUs = machine.Cores{Seen: 8, Busy: 4, Wasted: 2, Free: 2}
	f.Jobs[2].GPUBusy = new(0.25)
	want := `
weir top  cluster alpha  14:20:30Z  interval 10 s  1,954 of 1,960 nodes seen
cores  |||||||||||||||||||||||||||||||||||||xxxxxxxxx..    busy 74 % wasted 17 %
gpus   |||||||||||||||||||||||||xxxxxxxxxxxxx............  busy 50 % wasted 25 %
JOB      USER    NODES    BUSY    GPU  d1-d9 cpu_~  SPREAD  FINDING
184310   bob         1     1 %      -  |              1 pt  HIGH serial
184223   alice      64    78 %      -  .----|----.   80 pt  MED  idle-cores
184400   carol       8    97 %   25 %            |    2 pt  -
`
	if got := once(t, f, TopOptions{Style: Style{Width: 80, ASCII: true}}); got != want[1:] {
		t.Errorf("%s\nwant\n%s", got, want[1:])
	}
	v := newTopView(TopOptions{})
	before := v.room()
	if v.show(f); v.room() != before-1 || len(v.lines()) != v.height {
		t.Errorf("%d lines on a screen of %d", len(v.lines()), v.height)
	}
}

func lineText(l line) (text string) {
	for _, r := range l {
		text += r.text
	}
	return text
}

// hostileNames are wide, have very many accents, or drive a terminal.
var hostileNames = []string{
	strings.Repeat("\u4e2d", 64), "e" + strings.Repeat("\u0301", 99), "\x1b[31mred\u202e\n\r\x07",
}

// TestTopFitsItsTerminal: no line is wider than the terminal, whatever names the jobs, users and nodes have.
func TestTopFitsItsTerminal(t *testing.T) {
	f := topFrame()
	f.Cluster = strings.Repeat("\u4e2d", 64)
	for i, name := range hostileNames {
		j := &f.Jobs[i]
		j.User, j.Account, j.Queue, j.Name = name, name, name, name
		j.Metrics[0].LowNode, j.Metrics[0].HighNode = name, name
		j.Findings = append(j.Findings, schemas.Finding{Rule: name, Title: name, Class: name})
	}
	for _, cells := range []int{1, 20, 39, 59, 60, 79, 80, 100, 119, 120, 200} {
		for _, ascii := range []bool{false, true} {
			v := newTopView(TopOptions{Style: Style{Width: cells, ASCII: ascii}, Sort: "job"})
			v.show(f)
			if row := lineText(v.cutLine(v.row(v.jobs[0], 0, 1))); cells >= narrow && !strings.Contains(row, "78 %") {
				t.Errorf("a name hides the numbers: %q", row)
			}
			for p := range pageHelp + 1 {
				v.page = p
				for _, l := range v.lines() {
					text := lineText(l)
					if width(text) > max(20, cells) || strings.ContainsAny(text, "\x1b\n\r\x07\u202e") {
						t.Errorf("%d cells, page %d: %d cells: %q", cells, p, width(text), text)
					}
					for _, letter := range text {
						if ascii && letter > 0x7e {
							t.Errorf("%q is not ASCII", text)
						}
					}
				}
			}
		}
	}
}

// shownScreen counts how often the screen is drawn.
type shownScreen struct {
	tcell.SimulationScreen
	shown chan int // how often it was drawn before
	n     int
	given chan []string // the lines of it: the next drawing may come by itself
}

func (s *shownScreen) Show() {
	s.SimulationScreen.Show()
	lines := s.text()
	s.shown <- s.n
	s.given <- lines
	s.n++
}

// text returns the lines of the screen without spaces at their ends.
func (s *shownScreen) text() []string {
	cells, w, h := s.GetContents()
	var lines []string
	for y := range h {
		var b strings.Builder
		for _, c := range cells[y*w : (y+1)*w] {
			b.WriteString(string(c.Runes))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// session is a `weir top` on a simulated terminal.
type session struct {
	t      *testing.T
	screen *shownScreen
	times  int // it was drawn
	frames chan *machine.Frame
	done   chan error
	cancel context.CancelFunc
}

func startTop(t *testing.T, o TopOptions) *session {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &session{
		t: t, screen: &shownScreen{tcell.NewSimulationScreen("UTF-8"), make(chan int), 0, make(chan []string)},
		frames: make(chan *machine.Frame), done: make(chan error, 1), cancel: cancel,
	}
	go func() { s.done <- Top(ctx, sized{s.screen, 80, 12}, s.frames, o) }()
	s.drawn() // before any frame
	t.Cleanup(cancel)
	return s
}

// sized sets the size at the start, which a simulated screen forgets.
type sized struct {
	*shownScreen
	w, h int
}

func (s sized) Init() error {
	err := s.shownScreen.Init()
	s.SetSize(s.w, s.h)
	return err
}

// drawn waits until the screen is drawn, and returns its lines.
func (s *session) drawn() []string {
	s.t.Helper()
	select {
	case n := <-s.screen.shown:
		s.times = n + 1
		return <-s.screen.given
	case err := <-s.done:
		s.t.Fatalf("it has ended: %v", err)
	case <-time.After(time.Minute):
		s.t.Fatal("nothing was drawn in a minute")
	}
	return nil
}

func (s *session) press(letters string) (lines []string) {
	s.t.Helper()
	for _, letter := range letters {
		switch letter {
		case '\n':
			s.screen.InjectKey(tcell.KeyEnter, 0, tcell.ModNone)
		case '\t':
			s.screen.InjectKey(tcell.KeyEscape, 0, tcell.ModNone)
		default:
			s.screen.InjectKey(tcell.KeyRune, letter, tcell.ModNone)
		}
		lines = s.drawn()
	}
	return lines
}

// quiet checks that nothing before has drawn the screen once more: the next drawing has what the next key makes of it.
func (s *session) quiet() {
	s.t.Helper()
	for range 2 { // and back
		want := order(s.screen.text())
		slices.Reverse(want)
		if got := order(s.press("r")); !slices.Equal(got, want) {
			s.t.Fatalf("drawn once more, after %d times: %v, want %v", s.times, got, want)
		}
	}
}

// give sends a frame to the screen.
func (s *session) give(f *machine.Frame) {
	s.t.Helper()
	select {
	case s.frames <- f:
	case <-time.After(time.Minute):
		s.t.Fatal("no frame was taken in a minute")
	}
}

// order returns the jobs on the screen.
func order(lines []string) (ids []string) {
	for _, l := range lines {
		if id, _, _ := strings.Cut(l, " "); strings.HasPrefix(id, "184") {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestTopDrawsOnceAFrame: a frame is one drawing, a key that changes something is one, and others are none.
func TestTopDrawsOnceAFrame(t *testing.T) {
	s := startTop(t, TopOptions{})
	if got := strings.Join(s.screen.text(), "\n"); !strings.Contains(got, "weir status") {
		t.Errorf("before a frame:\n%s", got)
	}
	for n := range 20 {
		f := topFrame()
		f.StartMs += int64(n) * 10_000
		s.give(f)
		lines := s.drawn()
		if want := f.StartMs; !strings.Contains(lines[0], view.Clock(want)) {
			t.Errorf("frame %d: %s", n, lines[0])
		}
		s.screen.InjectKey(tcell.KeyRune, 'x', tcell.ModNone) // no key of ours
		s.screen.InjectKey(tcell.KeyF5, 0, tcell.ModNone)
		s.quiet()
	}
	s.press("r")
	s.quiet()
	if s.times != 1+20*3+3 {
		t.Errorf("drawn %d times, want 64: at the start, for 20 frames, two keys after each, and three keys", s.times)
	}
}

// TestTopKeys: each key does what the help says.
func TestTopKeys(t *testing.T) {
	s := startTop(t, TopOptions{})
	s.frames <- topFrame()
	expect := func(what string, lines []string, ids ...string) {
		t.Helper()
		if got := order(lines); !slices.Equal(got, ids) {
			t.Errorf("%s: jobs %v, want %v\n%s", what, got, ids, strings.Join(lines, "\n"))
		}
	}
	const alice, bob, carol = "184223", "184310", "184400"
	lines := s.drawn()
	expect("worst finding first", lines, bob, alice, carol)
	if !strings.HasPrefix(lines[11], "q quit") {
		t.Errorf("the keys are not at the bottom: %q", lines)
	}
	expect("reversed", s.press("r"), carol, alice, bob)
	expect("by busy", s.press("rs"), bob, alice, carol)
	expect("by spread", s.press("s"), alice, carol, bob)
	expect("by nodes", s.press("s"), alice, carol, bob)
	expect("by user", s.press("s"), alice, bob, carol)
	expect("by job", s.press("s"), alice, bob, carol)
	expect("by finding again", s.press("s"), bob, alice, carol)
	expect("with findings", s.press("f"), bob, alice)
	expect("all", s.press("f"), bob, alice, carol)
	expect("of carol", s.press("ucarol\n"), carol)
	if lines := s.press("uzoe\n"); !strings.Contains(strings.Join(lines, "\n"), "No job of this user") {
		t.Errorf("of nobody: %q", lines)
	}
	expect("typed, and not taken", s.press("ubo\t"))
	expect("of all again", s.press("u\n"), bob, alice, carol)
	if lines := s.press("m"); !strings.Contains(lines[2], "mem_used") {
		t.Errorf("the next metric: %q", lines[2])
	}
	s.press("jj") // the last one
	if lines := s.press("\n"); !strings.HasPrefix(lines[0], "Job 184400  relax  carol  phys  normal") ||
		!strings.Contains(strings.Join(lines, "\n"), "90.4 GB") {
		t.Errorf("the job that is selected: %q", lines)
	}
	expect("back", s.press("\t"), bob, alice, carol)
	if lines := s.press("?"); !strings.Contains(strings.Join(lines, "\n"), "reverse the order") {
		t.Errorf("help: %q", lines)
	}
	expect("back", s.press("\t"), bob, alice, carol)
	s.screen.InjectKey(tcell.KeyRune, 'q', tcell.ModNone)
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}

// TestTopJobShowsTheMainMetricsFirst, since a screen has no room for all.
func TestTopJobShowsTheMainMetricsFirst(t *testing.T) {
	var j machine.FrameJob
	for _, name := range []string{"acc_power", "context_switches", "cpu_user", "ipc", "mem_used"} {
		j.Metrics = append(j.Metrics, machine.FrameMetric{Name: name})
	}
	want := []string{"cpu_user", "ipc", "mem_used", "acc_power", "context_switches"}
	if got := firstShown(&j); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestTopSaysHowOldItIs: a frame does not pass for the newest one when nothing comes any more.
func TestTopSaysHowOldItIs(t *testing.T) {
	f := topFrame()
	f.StartMs = time.Now().Add(-5*time.Minute - 20*time.Second).UnixMilli()
	old := TopOptions{Style: Style{Width: 80}, Late: 30 * time.Second}
	if got := once(t, f, old); !strings.Contains(got, "NOTHING CAME SINCE") || !strings.Contains(got, ", 5 min ago") {
		t.Errorf("an old frame:\n%s", got)
	}
	if old.Late = time.Hour; strings.Contains(once(t, f, old), "NOTHING") {
		t.Error("a frame of now is called old")
	}
	s := startTop(t, TopOptions{Late: time.Second})
	f.StartMs = time.Now().UnixMilli() - f.IntervalMs
	s.give(f)
	for !strings.Contains(s.drawn()[0], "NOTHING CAME SINCE") { // it waits for a drawing, and no frame follows
	}
}

// TestTopPageStaysOfItsJob: the page of a job that has no summary any more is no other job's.
func TestTopPageStaysOfItsJob(t *testing.T) {
	s := startTop(t, TopOptions{Sort: "job"})
	s.give(topFrame())
	s.drawn()
	if lines := s.press("\n"); !strings.HasPrefix(lines[0], "Job 184223  relax") {
		t.Fatalf("%q", lines)
	}
	without := topFrame()
	without.Jobs = without.Jobs[1:]
	s.give(without)
	lines := s.drawn()
	if lines[0] != "Job 184223" || !strings.Contains(lines[3], "No summary of this interval came") {
		t.Errorf("its job is gone: %q", lines)
	}
	s.give(topFrame())
	if lines := s.drawn(); !strings.HasPrefix(lines[0], "Job 184223  relax") {
		t.Errorf("its job is back: %q", lines)
	}
	s.give(without)
	s.drawn()
	if got := order(s.press("\t")); !slices.Equal(got, []string{"184310", "184400"}) {
		t.Errorf("back: %v", got)
	}
	if lines := s.press("\n"); !strings.HasPrefix(lines[0], "Job 184310") {
		t.Errorf("no job was selected: %q", lines)
	}
	s.screen.InjectKey(tcell.KeyRune, 'u', tcell.ModNone)
	s.screen.InjectKey(tcell.KeyRune, 'q', tcell.ModNone)
	select {
	case err := <-s.done:
		if err != nil {
			t.Error(err)
		}
	case <-s.screen.shown:
		t.Error("key u begins typing where there is no prompt")
	}
}

// TestTopEnds where the reader of topics ends, and where the process is asked to end.
func TestTopEnds(t *testing.T) {
	s := startTop(t, TopOptions{})
	close(s.frames)
	if err := <-s.done; err != nil {
		t.Error(err)
	}
	s = startTop(t, TopOptions{})
	s.cancel()
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}

// TestTopScrolls: the selected job is always on the screen, and stays selected while other jobs come and go.
func TestTopScrolls(t *testing.T) {
	f := topFrame()
	f.Jobs = nil
	for i := range 100 {
		f.Jobs = append(f.Jobs, topJob(fmt.Sprint(184_000+i), "u", 1, 0.5, deciles(0, 1)))
	}
	v := newTopView(TopOptions{Style: Style{Width: 80}, Sort: "job"})
	v.height = 12
	v.show(f)
	seen := func() []string {
		var lines []string
		for _, l := range v.lines() {
			if len(l) > 0 {
				lines = append(lines, l[0].text)
			}
		}
		return order(lines)
	}
	for step, by := range []int{0, 7, 1, 50, 100, -20, -1, -200, 30} {
		v.move(by)
		if ids := seen(); len(ids) != 8 || !slices.Contains(ids, v.at.JobID) {
			t.Fatalf("step %d: %v, selected %v", step, ids, v.at)
		}
	}
	at := v.at
	f = &machine.Frame{StartMs: f.StartMs, IntervalMs: f.IntervalMs, Jobs: f.Jobs[20:40]}
	v.show(f)
	if v.at != at || !slices.Contains(seen(), at.JobID) {
		t.Errorf("selected %v, was %v", v.at, at)
	}
	v.show(&machine.Frame{StartMs: f.StartMs, IntervalMs: f.IntervalMs, Jobs: f.Jobs[:1]})
	if ids := seen(); !slices.Equal(ids, []string{"184020"}) || v.at.JobID != "184020" {
		t.Errorf("%v, selected %v", ids, v.at)
	}
}

// TestTopColors: colour repeats words, and is left out where it is not wanted.
func TestTopColors(t *testing.T) {
	with := once(t, topFrame(), TopOptions{Style: Style{Width: 80, Color: true}})
	without := once(t, topFrame(), TopOptions{Style: Style{Width: 80}})
	if !strings.Contains(with, "\x1b[31mHIGH") || strings.Contains(without, "\x1b") {
		t.Errorf("%q", with)
	}
	bare := with
	for _, escape := range []string{"\x1b[31m", "\x1b[33m", "\x1b[36m", "\x1b[1m", "\x1b[0m"} {
		bare = strings.ReplaceAll(bare, escape, "")
	}
	if bare != without {
		t.Errorf("%q\n%q", bare, without)
	}
}

// TestTopNamesACommandThatFindsTheJob: it has the configuration that the person named.
func TestTopNamesACommandThatFindsTheJob(t *testing.T) {
	v := newTopView(TopOptions{Style: Style{Width: 120, Where: " --config 'my weir.yaml'"}})
	v.show(topFrame())
	v.page = pageJob
	lines := v.lines()
	if got := lineText(lines[len(lines)-1]); !strings.HasSuffix(got, "weir job 184310 --config 'my weir.yaml'") {
		t.Error(got)
	}
}
