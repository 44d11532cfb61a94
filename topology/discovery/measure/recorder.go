package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// silentRounds is how many rounds in a row a node answers nobody before it is given up. A node that works meets as many
// silent ones in a row with a probability of the silent nodes' share to this power.
const silentRounds = 8

// mostRepeats bounds the repeats that the noise is estimated from.
const mostRepeats = 1 << 20

// recorder measures for a campaign. It stands between the method, which chooses the pairs, and the Measurer. It replays
// the journal, keeps the budget and gives up nodes that do not answer.
type recorder struct {
	campaign *Campaign
	journal  *journal // may be nil

	lowest  *latency.Matrix // of the latencies of each pair
	repeats []float64       // ln of the second latency of a pair by the first
	silent  []int           // rounds in a row in which a node answered nobody
	sent    []int           // measurements of each node that were not replayed
	busy    time.Duration
	began   time.Time
	pass    int
	reached Progress
}

// Names returns the names of the nodes.
func (r *recorder) Names() []string { return r.campaign.Measurer.Names() }

// Measure measures a round, or replays it. Pairs with a node that was given up are NaN.
func (r *recorder) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	us := make([]float64, len(round))
	var left []latency.Pair
	var at []int
	replayed := 0
	for i, p := range round {
		us[i] = math.NaN()
		if r.journal != nil {
			if known, is := r.journal.answer(p); is {
				us[i] = known
				replayed++
				continue
			}
		}
		if r.silent[p.A] < silentRounds && r.silent[p.B] < silentRounds {
			left, at = append(left, p), append(at, i)
		}
	}
	parts := [][]latency.Pair{left}
	if r.campaign.Sequential {
		parts = slices.Collect(slices.Chunk(left, 1))
	}
	for _, part := range parts {
		measured, err := r.measure(ctx, part)
		if err != nil {
			return nil, err
		}
		for i := range measured {
			us[at[i]] = measured[i]
		}
		at = at[len(measured):]
	}
	r.record(round, us, replayed)
	return us, nil
}

var errCount = errors.New("measurer returned another number of latencies than pairs")

// measure measures pairs for real, and keeps the budget.
func (r *recorder) measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	if len(round) == 0 {
		return nil, nil
	}
	begin := time.Now()
	us, err := r.campaign.Measurer.Measure(ctx, round)
	if err == nil && len(us) != len(round) {
		err = errCount
	}
	if err != nil {
		return nil, fmt.Errorf("measuring %d pairs: %w", len(round), err)
	}
	for i := range us {
		if !(us[i] > 0) || math.IsInf(us[i], 0) {
			us[i] = math.NaN() // a clock that stood still, or went back
		}
	}
	if r.journal != nil {
		if err := r.journal.add(round, us, r.pass); err != nil {
			return nil, err
		}
	}
	took := time.Since(begin)
	r.busy += took
	for i, p := range round {
		r.sent[p.A]++
		r.sent[p.B]++
		r.silent[p.A], r.silent[p.B] = r.silent[p.A]+1, r.silent[p.B]+1
		if !math.IsNaN(us[i]) {
			r.silent[p.A], r.silent[p.B] = 0, 0
		}
	}
	return us, wait(ctx, r.campaign.Budget.period(took, r.packets())-took)
}

// packets returns the number of packets that a node sends in a round; 0 if it is unknown.
func (r *recorder) packets() int {
	if p, is := r.campaign.Measurer.(packeted); is {
		return p.PacketsPerPair()
	}
	return 0
}

// record notes the latencies of a round, and calls Progress.
func (r *recorder) record(round []latency.Pair, us []float64, replayed int) {
	for i, p := range round {
		if math.IsNaN(us[i]) {
			r.reached.Lost++
			continue
		}
		before := r.lowest.At(p.A, p.B)
		if r.pass == 2 && !math.IsNaN(before) && len(r.repeats) < mostRepeats {
			r.repeats = append(r.repeats, math.Log(us[i]/before))
		}
		if !(before <= us[i]) {
			r.lowest.Set(p.A, p.B, us[i])
		}
	}
	r.reached.Rounds++
	r.reached.Pairs += len(round)
	r.reached.Replayed += replayed
	r.reached.Elapsed = time.Since(r.began)
	if r.campaign.Progress != nil {
		r.campaign.Progress(r.reached)
	}
}

// ticked is a Measurer that knows the step of its latencies.
type ticked interface {
	// TickUs returns the step of a latency in microseconds. It is the clock's step, divided by the round trips of a
	// batch and by two for the one way.
	TickUs() float64
}

// tickUs returns the step of a latency in microseconds; 0 if it is unknown.
func (r *recorder) tickUs() float64 {
	if t, is := r.campaign.Measurer.(ticked); is {
		return t.TickUs()
	}
	return 0
}

var errSilent = errors.New("no node answered another one: check that the peers run, and that no firewall " +
	"is between them")

// matrix returns the lowest latency of each pair.
func (r *recorder) matrix() (*latency.Matrix, error) {
	if r.reached.Lost == r.reached.Pairs {
		return nil, errSilent
	}
	r.lowest.TickUs, r.lowest.Noise = r.tickUs(), r.noise()
	return r.lowest, nil
}

// noise returns the standard deviation of ln(latency) between repeats, from the median of their differences: some
// repeats are disturbed. It is 0 with fewer than 30 repeats. TestNoiseOfRepeats pins it.
func (r *recorder) noise() float64 {
	if len(r.repeats) < 30 {
		return 0
	}
	differences := make([]float64, len(r.repeats))
	for i, d := range r.repeats {
		differences[i] = math.Abs(d)
	}
	slices.Sort(differences)
	return 1.4826 * differences[len(differences)/2] / math.Sqrt2
}

// spent returns the campaign's load until now.
func (r *recorder) spent() Spent {
	elapsed := time.Since(r.began)
	if elapsed <= 0 {
		return Spent{}
	}
	return Spent{
		PacketsPerSecond: float64(slices.Max(r.sent)*r.packets()) / elapsed.Seconds(),
		Share:            r.busy.Seconds() / elapsed.Seconds(),
	}
}

// warnings lists the disturbances of the campaign.
func (r *recorder) warnings() []string {
	var w, silent []string
	for i, name := range r.Names() {
		if r.silent[i] >= silentRounds {
			silent = append(silent, name)
		}
	}
	if len(silent) > 0 {
		w = append(w, fmt.Sprintf("%d nodes answer nobody, and were given up: %s", len(silent), shorten(silent)))
	}
	disturbed := 0
	for _, d := range r.repeats {
		if math.Abs(d) > disturbedLn {
			disturbed++
		}
	}
	if share := float64(disturbed) / float64(max(1, len(r.repeats))); share > .05 {
		w = append(w, fmt.Sprintf("%.0f %% of the repeats differ by more than a quarter: the network is busy, "+
			"or a node is slow; measure again when it is idle", 100*share))
	}
	return w
}

// disturbedLn is the ln of the quotient of two repeats from which one of them was disturbed.
const disturbedLn = .22

// shorten returns the first names of a list.
func shorten(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", …"
}
