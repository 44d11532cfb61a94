package containers

import (
	"testing"

	"github.com/weirhpc/weir/integration"
)

// TestScenarios runs weir on Kafka in containers.
func TestScenarios(t *testing.T) {
	k := startKafka(t, needEngine(t))
	for _, s := range integration.Scenarios() {
		t.Run(s.Name, func(t *testing.T) { s.Run(t, k) })
	}
}
