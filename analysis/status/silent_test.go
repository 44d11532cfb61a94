package status

import (
	"strings"
	"testing"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// TestOnlyAgentDied: at the default interval of 10 s, an agent that died 20 s ago has no part in two intervals. With one
// interval, it may have been late.
func TestOnlyAgentDied(t *testing.T) {
	for lacking, wrong := range map[int]bool{1: false, 2: true} {
		r := rows{}
		for i := range 4 {
			row := topicstest.Summary("host", 0, int64(i)*10_000)
			row.NodesExpected, row.NodesReported = 1, 1
			if i >= 4-lacking {
				row.NodesReported = 0
			}
			r.add(row)
		}
		s := &Status{}
		_, s.NodesExpected, s.NodesReported = r.judged(nil)
		s.judgeNodes(config.Default())
		if text := strings.Join(s.Wrong, "; "); strings.Contains(text, "no node reported") != wrong {
			t.Errorf("%d intervals without the only node: %q", lacking, text)
		}
	}
}
