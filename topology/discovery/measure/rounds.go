package measure

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// Measure measures the pairs of a round at the same time. One node of each pair pings the other. The fastest of its
// batches counts, because a disturbance only makes a batch slower.
func (r *Rendezvous) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	us := make([]float64, len(round))
	longest := func(l Limits) time.Duration { return l.longestPing(r.meeting.Ping) + answerWait }
	err := r.each(ctx, round, longest, func(int) command {
		return command{Ping: &r.meeting.Ping}
	}, func(i int, a answer, took time.Duration) {
		us[i] = latencyOf(a, took)
		r.mu.Lock()
		defer r.mu.Unlock()
		name := r.names[round[i].A]
		if tick := min(a.TickUs, us[i]); tick > r.ticks[name] {
			r.ticks[name] = tick
		}
	})
	return us, err
}

// Bounds of values that a member may report. No node and no clock goes beyond them.
const (
	leastUs  = .001
	mostRate = 1e9 // in MB/s
)

// latencyOf returns the latency of an answer. It is NaN for a value that cannot be: the answer itself took longer.
func latencyOf(a answer, took time.Duration) float64 {
	if !(a.LeastUs >= leastUs && a.LeastUs <= float64(took.Nanoseconds())/1e3) {
		return math.NaN()
	}
	return a.LeastUs
}

// each gives a command to the first node of each pair of a round, and waits for the answers. A member that is gone or
// late gives an empty answer. Longest returns how long an answer may take under some limits. The limits of one member
// count for its own pairs alone.
func (r *Rendezvous) each(
	ctx context.Context, round []latency.Pair, longest func(Limits) time.Duration,
	of func(i int) command, got func(i int, a answer, took time.Duration),
) error {
	r.mu.Lock()
	usual := longest(r.usual())
	r.mu.Unlock()
	took := make([]time.Duration, len(round))
	var wait sync.WaitGroup
	for i, pair := range round {
		wait.Go(func() {
			begun := time.Now()
			a, asked := r.have(ctx, r.names[pair.A], r.names[pair.B], of(i), func(l Limits) time.Duration {
				return r.patience.wait(longest(l), usual)
			})
			if asked {
				took[i] = time.Since(begun)
			}
			got(i, a, took[i])
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.blame(round, took)
	return nil
}

// usual returns the limits that most members have.
func (r *Rendezvous) usual() Limits {
	var all []Limits
	for _, m := range r.members {
		all = append(all, m.limits)
	}
	return medianLimits(all).stricter(r.meeting.Limits)
}

// blame gives up the members that have held up the others for too long.
func (r *Rendezvous) blame(round []latency.Pair, took []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pairs []pairTime
	for i, p := range round {
		if took[i] > 0 {
			pairs = append(pairs, pairTime{r.names[p.A], r.names[p.B], took[i]})
		}
	}
	for _, name := range r.patience.blame(pairs) {
		r.dismiss(name, fmt.Sprintf("node %s was given up: the others waited for it for %v in all", name,
			r.patience.held[name].Round(time.Second)))
	}
}

// dismiss ends a member for good. The caller holds the mutex.
func (r *Rendezvous) dismiss(name, why string) {
	r.note(why)
	r.claims.refuse(name, why)
	m := r.members[name]
	if m == nil {
		return
	}
	r.forget(m)
	go func() { // which may take a while
		_ = m.tell(command{Refused: why}, time.Second)
		_ = m.conn.Close()
	}()
}

// have gives a member a command about another one, and returns the answer. It returns false if one of them is gone.
func (r *Rendezvous) have(
	ctx context.Context, name, other string, c command, wait func(Limits) time.Duration,
) (answer, bool) {
	r.mu.Lock()
	m, to := r.members[name], r.members[other]
	if m == nil || to == nil {
		r.mu.Unlock()
		return answer{}, false
	}
	limits := m.limits.stricter(to.limits).stricter(r.meeting.Limits)
	r.next++
	c.ID, c.To, c.Session = r.next, to.address.String(), to.session
	said := make(chan answer, 1)
	m.waiting[c.ID] = said
	m.unheard++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(m.waiting, c.ID)
	}()
	ctx, cancel := context.WithTimeout(ctx, wait(limits))
	defer cancel()
	if m.tell(c, answerWait) != nil {
		_ = m.conn.Close() // it does not read
		return answer{}, true
	}
	select {
	case a := <-said: // closed if the member is gone
		return a, true
	case <-ctx.Done():
		return answer{}, true
	}
}
