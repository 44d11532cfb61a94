package producers

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestFateOf(t *testing.T) {
	for _, c := range []struct {
		err   error
		tries int
		want  fate
	}{
		{nil, 0, delivered},
		{kerr.MessageTooLarge, 0, refused},
		{fmt.Errorf("x: %w", kerr.MessageTooLarge), 0, refused},
		{kerr.InvalidRecord, 0, refused},
		{kerr.UnknownTopicOrPartition, 0, kept},
		{kerr.TopicAuthorizationFailed, 1000, kept},
		{kerr.NotEnoughReplicas, 1000, kept},
		{kgo.ErrMaxBuffered, 1000, kept},
		{kgo.ErrClientClosed, 0, kept},
		{errors.New("anything"), 0, again},
		{errors.New("anything"), maxTries, refused},
		{fmt.Errorf("%w: x", errEncoding), 0, refused},
	} {
		if got := fateOf(c.err, c.tries); got != c.want {
			t.Errorf("fateOf(%v, %d) = %d, want %d", c.err, c.tries, got, c.want)
		}
	}
	if got := reasonOf(fmt.Errorf("x: %w", kerr.MessageTooLarge)); got != "MESSAGE_TOO_LARGE" {
		t.Errorf("reasonOf = %q", got)
	}
}
