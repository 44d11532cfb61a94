package producers

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// TestOneCauseIsOneLine: a request fails for the cause of the last try to connect, or for the same cause of an earlier
// try. The log once had both, in turn, as two kinds of trouble.
func TestOneCauseIsOneLine(t *testing.T) {
	var logged kafkatest.Log
	l := link{log: logged.Logger(), topic: "t"}
	refused := func() error { return errors.New("unable to dial: x509: certificate signed by unknown authority") }
	for range 5 {
		last := refused()
		l.OnBrokerConnect(kgo.BrokerMetadata{}, time.Second, nil, last)
		l.lost(fmt.Errorf("asking: %w", last))
		l.lost(fmt.Errorf("asking: %w", refused()))
	}
	if n := logged.Count("brokers do not serve the topic"); n != 1 {
		t.Errorf("one cause is logged %d times:\n%s", n, logged.String())
	}
	l.lost(errNoAnswer)
	if logged.Count("no answer: unable to dial: x509") != 1 {
		t.Errorf("the cause of an answer that is missing is not logged:\n%s", logged.String())
	}
}
