package page

import (
	"strings"
	"testing"
)

// TestLeadOfOne: one core and one node are singular, and nodes are not busy.
func TestLeadOfOne(t *testing.T) {
	j := madeUp(240)
	j.Nodes = j.Nodes[:1]
	one, many := int64(1), int64(64)
	for want, cores := range map[string]*int64{
		" of the 64 cores on 1 node were busy, over ": &many, " of 1 core on 1 node was busy, over ": &one,
		" of the cores on 1 node were busy, over ": nil,
	} {
		if j.Cores = cores; !strings.Contains(lead(j), want) {
			t.Errorf("%q lacks %q", lead(j), want)
		}
	}
}
