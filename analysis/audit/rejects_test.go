package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// TestForgottenRejects: topic rejects may have lost the Rejects of old records. One that it still has is no difference,
// whatever is read first.
func TestForgottenRejects(t *testing.T) {
	t.Parallel()
	const at = 1_700_000_000_000
	record := []byte("nobody can read this")
	hash := sha256.Sum256(record)
	value, err := schemas.Marshal(&schemas.Reject{
		Topic: "weir.counters", Offset: 5, Reason: "unreadable", Hash: hex.EncodeToString(hash[:]), Head: record,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, since := range []int64{at - 1000, at + 20_000} {
		for _, firstReject := range []bool{false, true} {
			b := NewBooks(Terms{
				Cluster: "c", Prefix: "weir.", Collectors: 1, Rejects: 1, RejectsSince: since, From: never, Only: -1,
				Counters: map[int32]Span{0: {
					Position: 10, Opening: &schemas.ProgressCounts{}, Closing: schemas.ProgressCounts{Rejected: 1},
				}},
			})
			adds := []func(){
				func() { b.Add(Source{schemas.TopicCounters, 0}, Entry{Offset: 5, AppendedMs: at, Value: record}) },
				func() { b.Add(Source{schemas.TopicRejects, 0}, Entry{Offset: 3, AppendedMs: at + 5, Value: value}) },
			}
			if firstReject {
				adds[0], adds[1] = adds[1], adds[0]
			}
			adds[0]()
			adds[1]()
			b.End(Source{schemas.TopicCounters, 0})
			b.End(Source{schemas.TopicRejects, 0})
			if r := b.Close(); r.Found != 0 {
				t.Errorf("Rejects since %+d ms, the Reject first: %v: %v", since-at, firstReject, r.Differences)
			}
		}
	}
}
