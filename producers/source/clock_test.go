package source

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
)

// The sample was taken 400 ms after its boundary by the host's clock, which is 1 s ahead. By the broker's clock that is
// 600 ms before the boundary: just within the window. Where nothing is known of the clock, nothing is said.
func TestSynchrony(t *testing.T) {
	p, err := openSynchrony(config.Agent{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	missing := math.NaN()
	for name, c := range map[string]struct {
		clock Clock
		want  [3]float64
	}{
		"ahead, in the window": {
			Clock{400 * time.Millisecond, true, time.Second, 1500 * time.Microsecond}, [3]float64{1_000_000, 1500, 1},
		},
		"ahead, a microsecond before the window": {
			Clock{400*time.Millisecond - time.Microsecond, true, time.Second, 0}, [3]float64{1_000_000, 0, 0},
		},
		"behind, in the window by its lateness alone": {
			Clock{0, true, -600 * time.Millisecond, 0}, [3]float64{-600_000, 0, 1},
		},
		"behind by 3 s":           {Clock{0, true, -3 * time.Second, 0}, [3]float64{-3_000_000, 0, 0}},
		"right, but sampled late": {Clock{700 * time.Millisecond, true, 0, 0}, [3]float64{0, 0, 0}},
		"not known":               {Clock{}, [3]float64{missing, missing, missing}},
	} {
		now, err := p.read(nil, Vitals{Clock: c.clock})
		if err != nil {
			t.Fatal(err)
		}
		got := [3]float64{missing, missing, missing}
		p.form(now.row(0), now.row(0), time.Second, got[:])
		for i := range got {
			if got[i] != c.want[i] && !(math.IsNaN(got[i]) && math.IsNaN(c.want[i])) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
		columns := 0
		if c.clock.Known {
			columns = 3
		}
		if got := c.clock.Columns(); len(got) != columns {
			t.Errorf("%s: columns %v", name, got)
		}
	}
}

// A reading keeps its storage: the steady loop allocates nothing.
func TestSynchronyAllocatesNothing(t *testing.T) {
	p, err := openSynchrony(config.Agent{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var now reading
	v := Vitals{Clock: Clock{Known: true, Offset: time.Second}}
	out := make([]float64, 3)
	read := func() {
		if now, err = p.read(now, v); err != nil {
			t.Fatal(err)
		}
		p.form(now[0], now[0], time.Second, out)
	}
	read()
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
