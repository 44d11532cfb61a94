package rules

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

// moved returns a Watch with the state of another.
func moved(t testing.TB, set *Set, w *Watch, possible bool) *Watch {
	t.Helper()
	b, err := w.AppendBinary([]byte("before"))
	if err != nil || !bytes.HasPrefix(b, []byte("before")) {
		t.Fatal(err)
	}
	other := set.NewWatch(w.job, possible)
	if err := other.UnmarshalBinary(b[len("before"):]); err != nil {
		t.Fatal(err)
	}
	again, err := other.AppendBinary(nil)
	if err != nil || possible == (w.variants == 2) && !bytes.Equal(again, b[len("before"):]) {
		t.Fatalf("the state of a state is another one: %v", err)
	}
	return other
}

// TestStateMoves: a Watch that is written and read after any interval finds what it would have found.
func TestStateMoves(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	set, found, largest := shippedSet(t), 0, 0
	for n := range 20 {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		all := randomLife(r, 40+r.IntN(300))
		possible := n%2 == 0
		w := set.NewWatch(life4711(), possible)
		var got []schemas.Finding
		for _, iv := range all {
			w.Add(iv)
			got = w.Due(got)
			if r.IntN(10) == 0 {
				w = moved(t, set, w, possible)
			}
		}
		b, err := w.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !possible {
			largest = max(largest, len(b))
		}
		got = append(got, records(w, all[len(all)-1:])...)
		ref := set.NewWatch(life4711(), possible)
		var straight []schemas.Finding
		for _, iv := range all {
			ref.Add(iv)
			straight = ref.Due(straight)
		}
		straight = append(straight, records(ref, all[len(all)-1:])...)
		if diff := cmp.Diff(straight, got); diff != "" {
			t.Fatalf("seed %d, life %d: %s", seed, n, diff)
		}
		found += len(got)
	}
	t.Logf("%d records, the largest state has %d bytes", found, largest)
	if found < 100 || largest > 8<<10 {
		t.Errorf("%d records, the largest state has %d bytes", found, largest)
	}
}

// TestStateIsBounded: nodes with the longest names and a life of a year keep the state below 8 KiB.
func TestStateIsBounded(t *testing.T) {
	set := shippedSet(t)
	w := set.NewWatch(life4711(), false)
	metrics := map[string]float64{}
	for _, k := range catalogue {
		metrics[k.Name] = 0.995
	}
	for i := range 3000 {
		iv := at(170*i, metrics)
		for k := range iv.Metrics {
			iv.Metrics[k].LowNodeMean = 0.1
			iv.Metrics[k].Low = fmt.Sprintf("%064d", i%100)
			iv.Metrics[k].High = fmt.Sprintf("%064d", i%100)
		}
		w.Add(iv)
		w.Due(nil)
	}
	b, err := w.AppendBinary(nil)
	if err != nil || len(b) > 8<<10 {
		t.Errorf("%d bytes: %v", len(b), err)
	}
	t.Logf("%d bytes", len(b))
	moved(t, set, w, false)
}

// TestChangedRulesBeginAnew: a rule with another hash begins anew, and the others go on. Words may change.
func TestChangedRulesBeginAnew(t *testing.T) {
	other := strings.Replace(strings.Replace(idleRule, "id: idle", "id: other", 1), "> 0.5", "> 0.4", 1)
	w := siteSet(t, idleRule+other+wholeRule).NewWatch(life4711(), false)
	history(w, minutes(0, 50, always(0.9))...)
	for name, c := range map[string]struct {
		rules string
		want  []string
	}{
		"as it was":     {idleRule + other + wholeRule, []string{"idle 58", "other 58"}},
		"another order": {wholeRule + other + idleRule, []string{"other 58", "idle 58"}},
		"other words": {
			strings.Replace(idleRule, "title: idle", "title: slow", 1) + other,
			[]string{"idle 58", "other 58"},
		},
		"another threshold": {strings.Replace(idleRule, "> 0.5", "> 0.6", 1) + other, []string{"other 58"}},
		"one is gone":       {other + wholeRule, []string{"other 58"}},
		"one is new":        {idleRule + strings.Replace(other, "id: other", "id: new", 1), []string{"idle 58"}},
		"another evidence":  {strings.Replace(idleRule, "[cpu_idle.mean]", "[cpu_idle.d5]", 1), nil},
	} {
		set := siteSet(t, c.rules)
		b, err := w.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		next := set.NewWatch(life4711(), false)
		if err := next.UnmarshalBinary(b); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		history(next, minutes(50, 60, always(0.9))...)
		var got []string
		for _, f := range next.End(nil) {
			got = append(got, fmt.Sprint(f.Rule, " ", f.Evaluated))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		// A new rule rests on its own intervals, so it is found as soon as these are enough.
		history(next, minutes(60, 100, always(0.9))...)
	}
	next := siteSet(t, strings.Replace(idleRule, "> 0.5", "> 0.6", 1)).NewWatch(life4711(), false)
	b, _ := w.AppendBinary(nil)
	if err := next.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if got := history(next, minutes(50, 100, always(0.9))...); len(got) == 0 ||
		got[0] != "30 idle OPEN HIGH CERTAIN 0.900 30/30/81" {
		t.Errorf("%v", got)
	}
}

// TestStateRemembersFalseMarks: a rule over the whole life closes at the second false mark also where another process
// saw the first.
func TestStateRemembersFalseMarks(t *testing.T) {
	set := siteSet(t, wholeRule)
	w := set.NewWatch(life4711(), false)
	var got []string
	for i := range 62 {
		v := 0.4
		if i >= 35 {
			v = 0.9
		}
		w.Add(at(i, map[string]float64{"cpu_user": v}))
		for _, f := range w.Due(nil) {
			got = append(got, fmt.Sprint(i, " ", f.State))
		}
		w = moved(t, set, w, false)
	}
	if diff := cmp.Diff([]string{"31 OPEN", "41 OPEN", "51 OPEN", "61 CLOSED"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestPossibleIsSwitched: a state with possible findings is read by a Watch without, and the other way round.
func TestPossibleIsSwitched(t *testing.T) {
	set := siteSet(t, idleRule+wholeRule)
	for _, from := range []bool{false, true} {
		w := set.NewWatch(life4711(), from)
		history(w, minutes(0, 50, always(0.9))...)
		next := moved(t, set, w, !from)
		history(next, minutes(50, 60, always(0.9))...)
		if f := next.End(nil); len(f) != 1 || f[0].Evaluated != 58 || f[0].Certainty != schemas.Certain {
			t.Errorf("from %v: %+v", from, f)
		}
	}
}

// TestPossibleIsSwitchedOff: a possible finding that was written is closed at the next mark, with what was known of it.
func TestPossibleIsSwitchedOff(t *testing.T) {
	set := siteSet(t, strings.Replace(idleRule, "cpu_idle.mean > 0.5", "cpu_idle.lo5 > 0.5", 1))
	w := set.NewWatch(life4711(), true)
	for i := range 45 {
		w.Add(bounds(i, 0.4, 0.7, 0.8, true))
		w.Due(nil)
	}
	next := moved(t, set, moved(t, set, w, false), false)
	var got []string
	for i := 45; i < 65; i++ {
		next.Add(bounds(i, 0.4, 0.7, 0.8, false))
		for _, f := range next.Due(nil) {
			got = append(got, shortly(&f))
		}
	}
	for _, f := range next.End(nil) {
		got = append(got, shortly(&f))
	}
	if diff := cmp.Diff([]string{
		"idle CLOSED HIGH POSSIBLE 0.700 43/43/52", "idle CLOSED HIGH POSSIBLE 0.700 43/43/65 final",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// TestStatesOfOthers: a newer version's state is an error that tells so. What is none leaves a Watch as new.
func TestStatesOfOthers(t *testing.T) {
	set := siteSet(t, idleRule)
	w := set.NewWatch(life4711(), false)
	history(w, minutes(0, 50, always(0.9))...)
	b, err := w.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		if err := set.NewWatch(life4711(), false).UnmarshalBinary(b[:n]); !errors.Is(err, errState) {
			t.Errorf("the first %d of %d bytes: %v", n, len(b), err)
		}
	}
	if err := w.UnmarshalBinary(append(b[:len(b):len(b)], 0)); !errors.Is(err, errState) {
		t.Errorf("a byte more: %v", err)
	}
	newer := append([]byte{4}, b[1:]...) // version 2
	if err := w.UnmarshalBinary(newer); !errors.Is(err, ErrNewer) || !errors.Is(err, errState) {
		t.Errorf("a newer version: %v", err)
	}
	damaged := siteSet(t, wholeRule).NewWatch(life4711(), false)
	damaged.Add(at(0, map[string]float64{"cpu_user": 0.4}))
	if b, err = damaged.AppendBinary(nil); err != nil || b[len(b)-9] != 2 { // the last number has nine bytes
		t.Fatalf("%v: %v", b, err)
	}
	if b[len(b)-9] = 9; !errors.Is(damaged.UnmarshalBinary(b), errState) {
		t.Error("a number of an unknown kind is read")
	}
	if got := history(w, minutes(0, 50, always(0.9))...); len(got) == 0 || w.counted != 49 {
		t.Errorf("after an error the Watch is not as new: %v", got)
	}
}

// FuzzState: no state makes a Watch panic, or write a finding that is none.
func FuzzState(f *testing.F) {
	set := shippedSet(f)
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 6 {
		w := set.NewWatch(life4711(), n%2 == 0)
		for _, iv := range randomLife(r, 20*n) {
			w.Add(iv)
		}
		b, err := w.AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, n%2 == 0)
	}
	all := randomLife(r, 40)
	f.Fuzz(func(t *testing.T, b []byte, possible bool) {
		w := set.NewWatch(life4711(), possible)
		if err := w.UnmarshalBinary(b); err != nil {
			return
		}
		for _, finding := range records(w, all) {
			if err := finding.Validate(); err != nil {
				t.Errorf("%v: %+v", err, finding)
			}
		}
		w.NotEvaluated()
		if _, err := w.AppendBinary(nil); err != nil {
			t.Error(err)
		}
	})
}

// TestStateIsOfTheJobAlone: what other jobs had does not get into the state, so that a replay writes the same bytes.
func TestStateIsOfTheJobAlone(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	mine, others := randomLife(r, 100), randomLife(r, 100)
	set := shippedSet(t)
	alone, among, other := shippedSet(t).NewWatch(life4711(), false), set.NewWatch(life4711(), false),
		set.NewWatch(life4711(), true)
	for i := range mine {
		alone.Add(mine[i])
		among.Add(mine[i])
		other.Add(others[i])
		a, err := alone.AppendBinary(nil)
		b, err2 := among.AppendBinary(nil)
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Fatalf("seed %d: after %d intervals the states differ: %v, %v", seed, i+1, err, err2)
		}
		alone.Due(nil)
		among.Due(nil)
	}
}

// TestExtremeNumbersMove: whatever a summary may have, the state can be read again, and findings are valid.
func TestExtremeNumbersMove(t *testing.T) {
	for name, change := range map[string]func(m *Named){
		"large means":    func(m *Named) { m.Mean = 1e308 },
		"large deciles":  func(m *Named) { m.Metric = exactly(math.MaxFloat64) },
		"small deciles":  func(m *Named) { m.Metric = exactly(-math.MaxFloat64) },
		"large products": func(m *Named) { m.Metric = exactly(9e149) },
		"many values":    func(m *Named) { m.Count = 1 << 40 },
		"no nodes":       func(m *Named) { m.PerNode = math.NaN() },
	} {
		t.Run(name, func(t *testing.T) {
			set, all := shippedSet(t), randomLife(rand.New(rand.NewPCG(1, 2)), 60)
			w := set.NewWatch(life4711(), true)
			for i, iv := range all {
				for k := range iv.Metrics {
					if m := &iv.Metrics[k]; i >= 40 {
						change(m)
					}
				}
				w.Add(iv)
				w = moved(t, set, w, true)
			}
			for _, f := range records(w, all[:1]) {
				if err := f.Validate(); err != nil {
					t.Errorf("%v: %+v", err, f)
				}
			}
		})
	}
}

// TestChangedLifeNeedsItsGuards: where another rule over the whole life comes or goes, the numbers of the life begin
// anew. A rule that stays judges once its guards hold for these, and until then says what it said.
func TestChangedLifeNeedsItsGuards(t *testing.T) {
	other := strings.ReplaceAll(strings.Replace(wholeRule, "id: whole", "id: other", 1), "cpu_user", "cpu_idle")
	user := func(v float64, from, to int) (all []*Interval) {
		for i := from; i < to; i++ {
			all = append(all, at(i, map[string]float64{"cpu_user": v, "cpu_idle": 0.9}))
		}
		return all
	}
	for _, c := range []struct {
		before, after float64
		open          bool
	}{{0.9, 0.1, false}, {0.1, 0.9, true}} {
		w := siteSet(t, wholeRule+other).NewWatch(life4711(), false)
		history(w, user(c.before, 0, 50)...)
		b, err := w.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		next := siteSet(t, wholeRule).NewWatch(life4711(), false)
		if err := next.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		history(next, user(c.after, 50, 72)...)
		next = moved(t, next.set, next, false)
		if open := next.states[0].tallies[0].open; open != c.open {
			t.Errorf("from %v to %v: open after the restart: %v", c.before, c.after, open)
		}
		history(next, user(c.after, 72, 112)...)
		if open := next.states[0].tallies[0].open; open == c.open {
			t.Errorf("from %v to %v: the rule is not judged any more", c.before, c.after)
		}
	}
}
