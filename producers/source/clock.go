package source

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// errUnsynchronised is returned when nothing disciplines the host's clock.
var errUnsynchronised = errors.New("the clock is not synchronised")

// errUnanswered is the reason if the broker's clock is unknown.
var errUnanswered = errors.New("only an agent that publishes measures it, once a broker has answered")

func clock() source {
	return source{"clock", schemas.ScopeNode, "adjtimex(2)", []metric{
		{"weir_agent_clock_error_us", "us", gauge, "esterror: the kernel's estimate of the clock's error"},
	}, openClock}
}

// openClock reads the kernel's own estimate of the error of the host's clock, in microseconds. If nothing synchronises
// the clock, the kernel cannot know the error, and the metric is absent.
func openClock(config.Agent, *slog.Logger) (probe, error) {
	read := func(into reading, _ Vitals) (reading, error) {
		var t unix.Timex // without a mode the call changes nothing
		state, err := unix.Adjtimex(&t)
		if err != nil {
			return nil, fmt.Errorf("asking for the clock's error: %w", err)
		}
		if state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0 || t.Esterror < 0 {
			return nil, errUnsynchronised
		}
		return only(into, uint64(t.Esterror)), nil
	}
	return probe{read: read, form: formGauges}, nil
}

// window is the window of NWPerf. A reading within it counts as taken at the same instant as all others. It is measured
// from the boundary, by the broker's clock.
const window = 600 * time.Millisecond

// Clock is the agent's knowledge of the host's clock at the beginning of a reading.
type Clock struct {
	Late          time.Duration // from the boundary to the reading, by the host's clock
	Known         bool          // whether Offset and Bound are
	Offset, Bound time.Duration // the host's clock minus the broker's, and the largest error of that
}

// Columns returns the metrics of a clock for a sampler that is no Host.
func (c Clock) Columns() (columns []Column) {
	if !c.Known {
		return nil
	}
	of := synchrony()
	for i, v := range c.values() {
		m := of.metrics[i]
		columns = append(columns, Column{Name: m.name, Unit: m.unit, Scope: of.scope, Values: []float64{v}})
	}
	return columns
}

// values returns the values of the source, in its order.
func (c Clock) values() [3]float64 {
	in := 0.0
	if (c.Late - c.Offset).Abs() <= window {
		in = 1
	}
	return [3]float64{float64(c.Offset.Microseconds()), float64(c.Bound.Microseconds()), in}
}

func synchrony() source {
	return source{"synchrony", schemas.ScopeNode, "times of sending, append and answer of its own records", []metric{
		{schemas.MetricClockOffset, "us", gauge, "the host's clock minus the broker's; positive: ahead"},
		{schemas.MetricClockBound, "us", gauge, "how much the offset may be wrong at most"},
		{schemas.MetricInWindow, "1", gauge, "1 if sampled within 0.6 s of the boundary by the broker's clock, else 0"},
	}, openSynchrony}
}

// openSynchrony reports the agent's knowledge of its clock. The metrics are absent until a broker acknowledges the
// first record. They are absent as well in an outage longer than the period that the agent can catch up.
func openSynchrony(config.Agent, *slog.Logger) (probe, error) {
	read := func(into reading, v Vitals) (reading, error) {
		known := uint64(0)
		if v.Clock.Known {
			known = 1
		}
		// A reading holds integers. The conversion keeps the sign of an offset.
		return only(into, known, uint64(v.Clock.Late), uint64(v.Clock.Offset), uint64(v.Clock.Bound)), nil
	}
	form := func(_, to []uint64, _ time.Duration, out []float64) {
		if to[0] == 1 {
			v := Clock{
				Late: time.Duration(to[1]), Offset: time.Duration(to[2]), Bound: time.Duration(to[3]),
			}.values()
			copy(out, v[:])
		}
	}
	return probe{read: read, form: form, why: func() error { return errUnanswered }}, nil
}
