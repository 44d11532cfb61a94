package kafka

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

func embedded(t *testing.T, opts ...kfake.Opt) *kadm.Client {
	t.Helper()
	return kadm.NewClient(kafkatest.Client(t, kafkatest.Broker(t, opts...).ListenAddrs()))
}

func TestCheckBrokers(t *testing.T) {
	for version, c := range map[string]struct {
		is   *kversion.Versions
		good bool
	}{
		"v3.9": {kversion.V3_9_0(), false}, "v4.0": {kversion.V4_0_0(), true},
	} {
		err := CheckBrokers(t.Context(), embedded(t, kfake.MaxVersions(c.is)))
		switch {
		case c.good && err != nil:
			t.Errorf("%s: %v", version, err)
		case !c.good && (!errors.Is(err, ErrOldBroker) || !strings.Contains(err.Error(), "broker 0 ")):
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestAdvise(t *testing.T) {
	good := map[string]string{"add.partitions.to.txn.retry.backoff.ms": "1", "group.min.session.timeout.ms": "6000"}
	lines, err := Advise(t.Context(), embedded(t, kfake.BrokerConfigs(good)), 1)
	if err != nil || len(lines) > 0 {
		t.Errorf("nothing is wrong: %q, %v", lines, err)
	}
	lines, err = Advise(t.Context(),
		embedded(t, kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "10000"})), 1)
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0], "group.min.session.timeout.ms is 10000") {
		t.Errorf("a session that is refused: %q, %v", lines, err)
	}
}
