package term

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"github.com/weirhpc/weir/report/machine"
)

// TopOptions are the initial settings of `weir top`.
type TopOptions struct {
	Style
	User, Queue string        // show jobs of these alone; empty: all
	Metric      string        // metric of the bands
	Sort        string        // one of TopSorts
	Rows        int           // lines of a frame that is printed; 0: all
	Late        time.Duration // a frame shows its age if its interval ended longer ago; 0: never
}

// NewScreen returns the screen of the process's terminal.
func NewScreen() (tcell.Screen, error) {
	screen, err := tcell.NewScreen()
	if err != nil {
		return nil, fmt.Errorf("this terminal cannot show a screen: %w: `weir top --once` prints a frame", err)
	}
	return screen, nil
}

// Top shows frames on a screen until the person quits, ctx ends, or the channel closes. It redraws for each frame, for
// a key or a new size, and when the displayed age of the last frame changes.
func Top(ctx context.Context, screen tcell.Screen, frames <-chan *machine.Frame, o TopOptions) error {
	if err := screen.Init(); err != nil {
		return fmt.Errorf("opening the terminal: %w: `weir top --once` prints a frame", err)
	}
	defer screen.Fini()
	events, quit := make(chan tcell.Event), make(chan struct{})
	defer close(quit)
	go screen.ChannelEvents(events, quit)
	v := newTopView(o)
	v.draw(screen)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var changed bool
		select {
		case <-tick.C:
			before := v.clock()
			v.now = time.Now()
			changed = v.clock() != before
		case <-ctx.Done():
			return nil
		case f, more := <-frames:
			if !more {
				return nil
			}
			v.now = time.Now()
			v.show(f)
			changed = true
		case e, more := <-events:
			if !more {
				return nil
			}
			if changed = v.event(e); v.quit {
				return nil
			}
		}
		if changed {
			v.draw(screen)
		}
	}
}

// TopOnce writes one frame.
func TopOnce(w io.Writer, f *machine.Frame, o TopOptions) error {
	v := newTopView(o)
	v.now = time.Now()
	v.show(f)
	rows := len(v.jobs)
	if o.Rows > 0 {
		rows = min(rows, o.Rows)
	}
	t := text{Style: o.Style}
	lines := v.table(rows)
	for _, l := range lines[:len(lines)-1] { // without the keys
		var parts []string
		for _, r := range l {
			parts = append(parts, t.paint(r.color, r.text))
		}
		t.line(parts...)
	}
	return t.print(w)
}

// run is a clean text of one colour.
type run struct {
	text, color string
	reverse     bool
}

// line is a line of a screen.
type line []run

// draw shows the view. Lines are cut at the edge of the screen.
func (v *topView) draw(screen tcell.Screen) {
	v.Width, v.height = screen.Size()
	screen.Clear()
	for y, l := range v.lines() {
		if y >= v.height {
			break
		}
		x := 0
		for _, r := range l {
			for g := uniseg.NewGraphemes(r.text); g.Next(); {
				runes := g.Runes()
				if x+g.Width() <= v.Width {
					screen.SetContent(x, y, runes[0], runes[1:], v.look(r))
				}
				x += g.Width()
			}
		}
	}
	screen.Show()
}

// look returns the style of a run. The terminal's palette applies.
func (v *topView) look(r run) tcell.Style {
	s := tcell.StyleDefault.Reverse(r.reverse)
	if !v.Color {
		return s
	}
	switch r.color {
	case red:
		s = s.Foreground(tcell.PaletteColor(1))
	case yellow:
		s = s.Foreground(tcell.PaletteColor(3))
	case cyan:
		s = s.Foreground(tcell.PaletteColor(6))
	case bold:
		s = s.Bold(true)
	}
	return s
}
