package measure

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Budget limits the load of a campaign on a machine in production. The zero Budget limits nothing.
type Budget struct {
	PacketsPerSecond float64 // sent by a node, from the begin of one round to the begin of the next; 0: no limit
	Share            float64 // of the time in which a round is being measured, 0 to 1; 0: no limit
}

// packeted is a Measurer that counts its packets.
type packeted interface {
	// PacketsPerPair returns how many packets each of two nodes sends while their latency is measured.
	PacketsPerPair() int
}

// Spent is the load of a campaign, as the mean over its time.
type Spent struct {
	PacketsPerSecond float64 `json:"packets_per_second"` // that the busiest node sent; 0: unknown
	Share            float64 `json:"share_of_time"`      // in which a round was being measured
}

var errNoPackets = errors.New("a limit of packets a second needs a measurement that sends packets")

// check refuses a budget that cannot be kept.
func (b Budget) check(packets int) error {
	switch {
	case !(b.PacketsPerSecond >= 0):
		return fmt.Errorf("budget of %v packets a second must be at least 0", b.PacketsPerSecond)
	case !(b.Share >= 0 && b.Share <= 1):
		return fmt.Errorf("budget's share of time %v must be 0 to 1", b.Share)
	case b.PacketsPerSecond > 0 && packets == 0:
		return errNoPackets
	}
	return nil
}

// period returns the least time from the begin of a round to the begin of the next. The round lasted took, and each of
// its nodes sent so many packets.
func (b Budget) period(took time.Duration, packets int) time.Duration {
	period := took
	if b.Share > 0 {
		period = time.Duration(float64(took) / b.Share)
	}
	if b.PacketsPerSecond > 0 {
		period = max(period, time.Duration(float64(packets)/b.PacketsPerSecond*float64(time.Second)))
	}
	return period
}

// wait waits, unless the campaign ends.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
