package study

import (
	"fmt"
	"slices"

	"github.com/weirhpc/weir/analysis/selection"
)

// DriftRates count the alarms of a watch over responses. The first half of each case trains. Its third quarter or so is
// quiet, and at two thirds of the time some active factors give way to others.
type DriftRates struct {
	Replaced int
	Cases    int       // seeds for which there is a model
	False    int       // cases with an alarm while nothing changed
	Missed   int       // cases without an alarm until the end
	Delays   []int     // rows from the change to the alarm, in ascending order
	R2       []float64 // held-out, of the selections, in ascending order
}

// WatchResponses watches cases of Drift. With none replaced all rows of the second half are quiet.
func WatchResponses(seeds []uint64, replaced int, noise float64) (DriftRates, error) {
	rates := DriftRates{Replaced: replaced}
	for _, seed := range seeds {
		c := Drift(seed, replaced, noise)
		s, later, w, err := halves(c, 0)
		if err != nil {
			return rates, fmt.Errorf("drift, seed %d: %w", seed, err)
		}
		if len(w.Models) == 0 {
			continue
		}
		rates.Cases++
		rates.R2 = append(rates.R2, s.Score.HeldOut)
		change := c.Table.Start[c.Table.Rows()*2/3]
		step := later.Start[1] - later.Start[0]
		switch alarm := w.Watch(later).Responses[0].AlarmMs; {
		case alarm == nil && replaced > 0:
			rates.Missed++
		case alarm == nil:
		case replaced == 0 || *alarm < change:
			rates.False++
		default:
			rates.Delays = append(rates.Delays, int((*alarm-change)/step)+1)
		}
	}
	slices.Sort(rates.Delays)
	slices.Sort(rates.R2)
	return rates, nil
}

// halves selects on the first half of a case, and returns the second one with what watches it.
func halves(c *Case, coverage float64) (*selection.Selection, *selection.Table, *selection.Drift, error) {
	n := c.Table.Rows()
	first, second := make([]int, n/2), make([]int, n-n/2)
	for i := range first {
		first[i] = i
	}
	for i := range second {
		second[i] = n/2 + i
	}
	train, o := Rows(c.Table, first), selection.Options{Coverage: coverage}
	s, err := selection.Select(train, o)
	if err != nil {
		return nil, nil, nil, err
	}
	w, err := selection.NewDrift(train, o, s)
	return s, Rows(c.Table, second), w, err
}

// CanaryRates count stretches of 60 rows of dropped metrics.
type CanaryRates struct {
	Dropped, Watched int // metrics: those that follow from kept ones are watched
	Quiet, False     int // stretches in which nothing changed, and those that look parted
	Parted, Found    int // stretches in which the metric has values of another time, and those that look parted
	Cases, Redo      int // cases in which nothing changed, and those whose verdict a canary turns into redo
}

// WatchCanaries watches the dropped metrics of cases of Drift in which nothing changes. Then each dropped metric has the
// values of another time: it parts from all others, and its own distribution stays.
func WatchCanaries(seeds []uint64) (CanaryRates, error) {
	var rates CanaryRates
	for _, seed := range seeds {
		s, later, w, err := halves(Drift(seed, 0, noiseShare), .9)
		if err != nil {
			return rates, fmt.Errorf("canaries, seed %d: %w", seed, err)
		}
		rates.Dropped += len(s.Dropped)
		rates.Watched += len(w.Canaries)
		rates.Cases++
		wrong := 0
		for _, c := range w.Watch(later).Canaries {
			rates.Quiet += c.Stretches
			rates.False += c.Parted
			if c.Parted > c.Chance {
				wrong = 1
			}
		}
		rates.Redo += wrong
		for _, c := range w.Watch(parted(later, s.Dropped)).Canaries {
			rates.Parted += c.Stretches
			rates.Found += c.Parted
		}
	}
	return rates, nil
}

// parted is a table whose dropped metrics have the values of half the table earlier.
func parted(t *selection.Table, dropped []selection.Dropped) *selection.Table {
	other := *t
	other.Metrics = slices.Clone(t.Metrics)
	names := map[string]bool{}
	for _, d := range dropped {
		names[d.Name] = true
	}
	for i := range other.Metrics {
		if m := &other.Metrics[i]; names[m.Name] {
			m.Columns = slices.Clone(m.Columns)
			for k := range m.Columns {
				v := m.Columns[k].Values
				m.Columns[k].Values = slices.Concat(v[len(v)/2:], v[:len(v)/2])
			}
		}
	}
	return &other
}
