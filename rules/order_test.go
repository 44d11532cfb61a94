package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

// shuffled permutes intervals between two marks, but not across them. The first beyond a mark stays where it is.
func shuffled(r *rand.Rand, all []*Interval) []*Interval {
	all = slices.Clone(all)
	for from := 0; from < len(all); {
		to := from
		for to < len(all) && all[to].StartMs/markMs == all[from].StartMs/markMs {
			to++
		}
		part := all[from+1 : max(from+1, to-1)]
		r.Shuffle(len(part), func(i, k int) { part[i], part[k] = part[k], part[i] })
		from = to
	}
	return all
}

// randomLife is a job with all metrics of the shipped rules, of which some are missing at times.
func randomLife(r *rand.Rand, n int) (all []*Interval) {
	base := map[string]float64{}
	for _, k := range catalogue {
		base[k.Name] = r.Float64()
	}
	scale := map[string]float64{
		"clock": 3e9, "mem_bw": 1.2e11, "disk_bytes": 1e6, "flops_any": 1e9, "mem_used": 1e11,
		"job_mem_peak": 5e10, "swap_pages": 30, "cpu_load": 30, "lustre_read_bw": 1e6,
	}
	for i := range n {
		iv := &Interval{StartMs: life4711().StartMs + int64(i)*minute, LengthMs: minute, Expected: 4, Reported: 4}
		if r.IntN(30) == 0 {
			iv.Reported = 3
		}
		for _, k := range catalogue {
			if r.IntN(40) == 0 {
				continue
			}
			by := max(scale[k.Name], 1)
			d := make([]float64, decils)
			for x := range d {
				d[x] = by * math.Abs(base[k.Name]+0.4*r.Float64()-0.2+0.002*float64(i)*r.Float64())
			}
			slices.Sort(d)
			lo, hi := slices.Clone(d), slices.Clone(d)
			if r.IntN(3) == 0 {
				for x := 1; x < 10; x++ {
					lo[x], hi[x] = d[x-1], d[x+1]
				}
			}
			n := Named{Name: k.Name, Scope: k.Scope, Low: fmt.Sprint("n", r.IntN(4)), High: fmt.Sprint("n",
				r.IntN(4))}
			n.moments(d[5], 64, 4, &d[1], &d[9])
			n.ranks(d, lo, hi, true)
			iv.Metrics = append(iv.Metrics, n)
		}
		iv.order()
		all = append(all, iv)
	}
	return all
}

// records is what a Watch writes of a life, with the end.
func records(w *Watch, all []*Interval) (out []schemas.Finding) {
	for _, iv := range all {
		w.Add(iv)
		out = w.Due(out)
	}
	j := life4711()
	j.State, j.EndMs = schemas.StateCompleted, all[len(all)-1].StartMs+minute
	w.Know(j)
	return w.End(out)
}

// TestOrderDoesNotMatter: intervals that come in another order between two marks give the same records at the marks,
// byte for byte. The guards first hold with an interval that stays in its place: a rule is judged at that moment too.
func TestOrderDoesNotMatter(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	set, err := Compile(catalogue, nil, Source{
		"site.yaml",
		[]byte("guards: {intervals: 5, duration: 31m, seen: 0.1}"),
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for n := range 40 {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		all := randomLife(r, 60+r.IntN(200))
		inOrder := func(f []schemas.Finding) (text []string) {
			for i := range f {
				b, err := schemas.Marshal(&f[i])
				if err != nil {
					t.Fatal(err)
				}
				text = append(text, fmt.Sprintf("%s %x", shortly(&f[i]), b))
			}
			return text
		}
		want := inOrder(records(set.NewWatch(life4711(), true), all))
		got := inOrder(records(set.NewWatch(life4711(), true), shuffled(r, all)))
		found += len(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, life %d: %s", seed, n, diff)
		}
	}
	if found < 100 {
		t.Errorf("only %d records were compared", found)
	}
}

// TestBoundsAreOnTheCautiousSide: what a shipped rule finds by bounds, it would find by the values themselves.
func TestBoundsAreOnTheCautiousSide(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	set := shippedSet(t)
	j := life4711()
	gpus := 4
	j.Gpus, j.Node.GPUs = 4, &gpus
	held, lost := map[string]int{}, 0
	for n := range 1000 {
		truth := randomLife(r, 1)[0]
		bounded := *truth
		bounded.Metrics = slices.Clone(truth.Metrics)
		for i := range truth.Metrics {
			m := &truth.Metrics[i]
			if r.IntN(3) == 0 { // values as far apart as those of idle and busy cores
				d := make([]float64, decils)
				for k := range d {
					d[k] = []float64{0, 0.1, 0.3, 0.97, 0.99, 1}[r.IntN(6)]
				}
				slices.Sort(d)
				m.moments(d[0]+r.Float64()*(d[10]-d[0]), 64, 4, &d[1], &d[9])
				m.setDeciles(d)
			}
			v := m.values()
			d := v[atD0:atLo0]
			m.ranks(d, nil, nil, false)
			b := &bounded.Metrics[i]
			*b = *m
			lo, hi, guess := slices.Clone(d), slices.Clone(d), slices.Clone(d)
			for k := 1; k < 10; k++ {
				lo[k], hi[k] = d[max(0, k-r.IntN(2))], d[min(10, k+r.IntN(2))]
				guess[k] = lo[k] + r.Float64()*(hi[k]-lo[k])
			}
			b.ranks(guess, lo, hi, n%2 == 0)
		}
		for _, gpus := range []int{0, 4} {
			j.Gpus = gpus
			w := set.NewWatch(j, false)
			exact, proven := w.frame(), w.frame()
			for f, iv := range map[*frame]*Interval{exact: truth, proven: &bounded} {
				w.facts(f, iv.StartMs+iv.LengthMs)
				f.judgeAll(set, iv, false)
			}
			for i := range set.Rules {
				rule := &set.Rules[i]
				of, by := exact.verdict.slots[0][rule.slot], proven.verdict.slots[0][rule.slot]
				switch {
				case rule.Job:
				case by == 1 && of != 1:
					t.Fatalf("seed %d, case %d: %s holds by bounds alone", seed, n, rule.ID)
				case by == 1:
					held[rule.ID]++
				case of == 1:
					lost++
				}
			}
		}
	}
	if len(held) < 12 || lost == 0 {
		t.Errorf("the cases prove too little: %v, %d", held, lost)
	}
	t.Log(held, lost)
}
