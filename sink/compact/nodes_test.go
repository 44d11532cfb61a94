package compact

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhpc/weir/quantile"
)

// TestNodeSharesAreExact folds rows at once, and in two parts as late rows come. The nodes and their shares are those
// that counting gives: of nodes that tie the least name.
func TestNodeSharesAreExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		var rows []*row
		low, high := map[string]int64{}, map[string]int64{}
		for i := range 2 + rnd.IntN(40) {
			r := rowOfValues(int64(i)*10_000, []float64{1}, quantile.Large)
			lowest, highest := fmt.Sprint("n", rnd.IntN(4)), fmt.Sprint("n", rnd.IntN(9))
			r.LowNode, r.HighNode = &lowest, &highest
			low[lowest]++
			high[highest]++
			rows = append(rows, r)
		}
		early := 1 + rnd.IntN(len(rows)-1)
		h := newHour(keyOf(rows[0]))
		for _, part := range [][]*row{rows[early:], rows[:early]} {
			h.join(&fold(t, part...)[0])
		}
		joined := h.done()
		for _, r := range []*Rollup{&fold(t, rows...)[0], &joined} {
			if err := cmp.Or(judgeNodes(r.LowNodes, r.LowCounts, r.LowNode, r.LowNodeShare, low, len(rows)),
				judgeNodes(r.HighNodes, r.HighCounts, r.HighNode, r.HighNodeShare, high, len(rows))); err != nil {
				t.Fatalf("%d rows, %d of them late: %v", len(rows), len(rows)-early, err)
			}
			if r.Start != 0 || r.End != int64(len(rows))*10_000 {
				t.Fatalf("from %d to %d", r.Start, r.End)
			}
		}
	}
}

func judgeNodes(nodes []string, counts []int64, node *string, share *float64, want map[string]int64, n int) error {
	got := map[string]int64{}
	for i := range nodes {
		got[nodes[i]] += counts[i]
	}
	best := ""
	for name, count := range want {
		if best == "" || count > want[best] || count == want[best] && name < best {
			best = name
		}
	}
	if !slices.IsSorted(nodes) || !maps.Equal(got, want) {
		return fmt.Errorf("nodes %v %v, want %v", nodes, counts, want)
	}
	if *node != best || *share != float64(want[best])/float64(n) {
		return fmt.Errorf("%s with %g, want %s of %v", *node, *share, best, want)
	}
	return nil
}
