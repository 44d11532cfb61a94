package source

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Sources that hang, fail, come late and panic by chance, over ten thousand intervals. Each value is right or missing.
// Columns that were given out never change, and there are no more goroutines than at the start.
func TestChaos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := rand.New(rand.NewPCG(1, 2))
		var all []source
		for i := range 6 {
			own := rand.New(rand.NewPCG(uint64(i), 3))
			scope := []string{schemas.ScopeNode, schemas.ScopeCore, schemas.ScopeGPU}[i%3]
			s := source{
				name: fmt.Sprintf("s%d", i), scope: scope,
				metrics: []metric{{fmt.Sprintf("m%d", i), "1/s", Rate, ""}},
			}
			s.open = func(config.Agent, *slog.Logger) (probe, error) {
				switch own.IntN(6) {
				case 0:
					return probe{}, errors.New("no")
				case 1:
					time.Sleep(time.Duration(own.IntN(60)) * time.Second)
				}
				p := probe{tells: i == 1, close: func() {
					if own.IntN(3) == 0 {
						time.Sleep(20 * time.Second)
					}
				}}
				if i == 4 {
					p.follow = func(on []int) {}
				}
				p.read = func(into reading, _ Vitals) (reading, error) {
					for k := range into {
						for n := range into[k] {
							into[k][n] = 1 << 60 // garbage, while it may be late
						}
					}
					now := uint64(time.Now().UnixMilli())
					switch own.IntN(12) {
					case 0:
						return nil, errors.New("broken")
					case 1:
						panic("x")
					case 2, 3:
						time.Sleep(time.Duration(own.IntN(45_000)) * time.Millisecond)
					case 4:
						time.Sleep(time.Duration(own.IntN(700)) * time.Millisecond)
					}
					for k := range into {
						into[k] = into[k][:0]
					}
					rows := 1
					if scope != schemas.ScopeNode {
						rows = 2 + own.IntN(4)
					}
					for len(into) < rows {
						into = append(into, nil)
					}
					for k := range rows {
						if rows == 1 || own.IntN(4) > 0 || k == 0 {
							into[k] = append(into[k], now)
						}
					}
					return into[:rows], nil
				}
				p.form = func(from, to []uint64, elapsed time.Duration, out []float64) {
					out[0] = float64(to[0]-from[0]) / float64(elapsed.Milliseconds())
				}
				return p, nil
			}
			all = append(all, s)
		}
		m := newMachine(t, all...)
		defer func() { m.Close(); time.Sleep(time.Hour) }()
		type kept struct {
			columns []Column
			copies  [][]float64
		}
		var ring []kept
		began := 0
		formed := 0
		for n := range 10_000 {
			time.Sleep(time.Until(time.Now().Truncate(T).Add(T)))
			now := time.Now()
			m.Read(Vitals{BoundaryMs: now.UnixMilli(), Interval: T})
			if took := time.Since(now); took > 600*time.Millisecond {
				t.Fatalf("took %s", took)
			}
			if d.IntN(3) == 0 {
				synctest.Wait()
			}
			cpus, columns := m.Interval(now.Sub(m.last))
			m.Jobs(T)
			m.Absent(columns)
			m.last = now
			var k kept
			for _, c := range columns {
				if c.Scope == schemas.ScopeCore && len(c.Values) != len(cpus) {
					t.Fatalf("%d values of %d CPUs", len(c.Values), len(cpus))
				}
				if c.Scope == schemas.ScopeGPU && len(c.Values) != len(c.Rows) {
					t.Fatalf("%d values of %d rows", len(c.Values), len(c.Rows))
				}
				k.copies = append(k.copies, append([]float64(nil), c.Values...))
				if c.Name[0] != 'm' {
					continue
				}
				formed++
				for _, v := range c.Values {
					if v == v && (v < 0.999 || v > 1.001) && n > 0 {
						t.Fatalf("interval %d: %s = %v", n, c.Name, c.Values)
					}
				}
			}
			k.columns = columns
			if ring = append(ring, k); len(ring) > 32 {
				for i, c := range ring[0].columns {
					for j, v := range c.Values {
						if w := ring[0].copies[i][j]; v != w && v == v {
							t.Fatalf("changed")
						}
					}
				}
				ring = ring[1:]
			}
			if n == 100 {
				began = runtime.NumGoroutine()
			}
		}
		if g := runtime.NumGoroutine(); g > began+3 {
			t.Errorf("%d goroutines, %d at the start", g, began)
		}
		t.Logf("%d columns formed, goroutines %d -> %d", formed, began, runtime.NumGoroutine())
	})
}
