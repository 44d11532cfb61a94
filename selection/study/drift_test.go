package study

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weirhpc/weir/selection"
)

// watched is what the watch over a response found after six chunks of training.
type watched struct {
	early bool // an alarm before anything changed
	delay int  // rows from the change to the alarm; -1: none
}

func watch(seed uint64, replaced int, noise float64) (watched, error) {
	c := Drift(seed, replaced, noise)
	train := Rows(c.Table, slices.Concat(c.Chunks[:6]...))
	found, err := selection.Select(train, unreported())
	if err != nil || !found.Predictable {
		return watched{}, fmt.Errorf("nothing selected: %w", err)
	}
	found.Dropped = nil
	w, err := selection.NewDrift(train, unreported(), found)
	if err != nil {
		return watched{}, err
	}
	report := w.Watch(Rows(c.Table, slices.Concat(c.Chunks[6:]...)))
	changed := c.Table.Start[c.Table.Rows()*2/3]
	switch alarm := report.Responses[0].AlarmMs; {
	case alarm == nil:
		return watched{false, -1}, nil
	case replaced == 0 || *alarm < changed:
		return watched{true, -1}, nil
	default:
		return watched{false, int(*alarm-changed)/30_000 + 1}, nil
	}
}

// canaries counts dropped metrics whose representative is close (|r| .95): those that are judged to have parted from it
// in 60 rows. In parted rows each is replaced by a process of its own; quiet rows are as they are.
type canaries struct{ found, parted, wrong, quiet int }

func watchCanaries(seed uint64) (n canaries, err error) {
	c := Cactus(seed)
	train := Rows(c.Table, slices.Concat(c.Chunks[:6]...))
	o := unreported()
	o.Coverage = .9
	s, err := selection.Select(train, o)
	if err != nil {
		return n, err
	}
	near := map[string]bool{}
	for _, d := range s.Dropped {
		near[d.Name] = math.Abs(d.R) >= .95
	}
	w, err := selection.NewDrift(train, o, s)
	if err != nil {
		return n, err
	}
	for chunk := 6; chunk < 12; chunk++ {
		rows := c.Chunks[chunk][:selection.Stretch]
		later := Rows(c.Table, rows)
		for _, quiet := range w.Watch(later).Canaries {
			if near[quiet.Metric] {
				n.quiet++
				n.wrong += min(quiet.Parted, 1)
			}
		}
		for i, m := range later.Metrics {
			if near[m.Name] {
				old := c.Table.Metrics[i].Columns[0].Values
				centre, sd := mean(old), deviation(old)
				x := autoregressive(source(seed, m.Name), len(rows), .8)
				for t := range x {
					x[t] = centre + sd*x[t]
				}
				later.Metrics[i].Columns[0].Values = x
			}
		}
		for _, apart := range w.Watch(later).Canaries {
			if near[apart.Metric] {
				n.parted++
				n.found += min(apart.Parted, 1)
			}
		}
	}
	return n, nil
}

// driftGoal: R² .95 and .6 come from noise of .22 and .816 of the signal's deviation.
func driftGoal(t *testing.T, g *goals, count int) {
	t.Helper()
	type outcome struct {
		early, missed int
		soon          int // alarms within two blocks
		delay, last   float64
	}
	run := func(name string, replaced int, noise float64) (o outcome) {
		var delays []float64
		for _, w := range each(t, "drift, "+name, count, func(seed uint64) (watched, error) {
			return watch(seed, replaced, noise)
		}) {
			switch {
			case w.early:
				o.early++
			case w.delay < 0:
				o.missed++
			default:
				delays = append(delays, float64(w.delay))
				if w.delay <= 2*selection.Stretch {
					o.soon++
				}
				o.last = max(o.last, float64(w.delay))
			}
		}
		o.delay = median(delays)
		return o
	}
	const loud = .816
	quiet, one := run("quiet", 0, noiseShare), run("1 of 9", 1, noiseShare)
	quietLoud := run("quiet, R² .6", 0, loud)
	one6, two6, four6 := run("1 of 9, R² .6", 1, loud), run("2 of 9, R² .6", 2, loud), run("4 of 9, R² .6", 4, loud)
	var all canaries
	for _, n := range each(t, "canaries", count/4, watchCanaries) {
		all.found, all.parted = all.found+n.found, all.parted+n.parted
		all.wrong, all.quiet = all.wrong+n.wrong, all.quiet+n.quiet
	}
	caught, wrong := float64(all.found)/float64(all.parted), float64(all.wrong)/float64(all.quiet)
	g.admit(12, "drift, R² .95: no false alarm in 1,440 quiet rows, 1 of 9 factors replaced is found in 2 blocks "+
		"always",
		quiet.early == 0 && one.missed+one.early == 0 && one.last <= 2*selection.Stretch,
		quiet.early+one.early+one.missed == 0 && one.last <= 4*selection.Stretch && one.soon*20 >= 16*count,
		"it takes longer where the old and the new factor hardly vary after the change",
		"%d false of %d; missed %d, %d in 2 blocks, latest after %.0f rows", quiet.early+one.early, count, one.missed,
		one.soon, one.last)
	g.check(12, "drift, R² .6: no false alarm; 1 / 2 / 4 of 9 replaced: at most 9 / 3 / 0 of 20 missed",
		quietLoud.early == 0 && one6.missed*20 <= 9*count && two6.missed*20 <= 3*count && four6.missed == 0,
		"%d false; missed %d / %d / %d, median delay %.0f / %.0f / %.0f rows", quietLoud.early, one6.missed,
		two6.missed, four6.missed, one6.delay, two6.delay, four6.delay)
	g.check(12, "canaries: 99 % of metrics that part from their representative are found in 60 rows, .14 % are false",
		caught >= .99 && wrong <= .0014, "%.1f %% of %d; %.2f %% of %d", 100*caught, all.parted, 100*wrong, all.quiet)
}
