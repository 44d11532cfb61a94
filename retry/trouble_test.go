package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func refusedBy(address string) error {
	to, _ := net.ResolveTCPAddr("tcp", address)
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	return fmt.Errorf("unable to dial: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: refused})
}

// TestTroubleIsSaidOncePerKind: a broker that was away may come back and refuse us, which must be logged.
func TestTroubleIsSaidOncePerKind(t *testing.T) {
	away, refused := errors.New("connection refused"), fmt.Errorf("asking: %w", kerr.SaslAuthenticationFailed)
	var trouble Trouble
	for i, c := range []struct {
		err   error
		worth bool
	}{{away, true}, {away, false}, {errors.New("i/o timeout"), true}, {refused, true}, {refused, false}, {away, true}} {
		if got := trouble.Worth(c.err, noon); got != c.worth {
			t.Errorf("%d, %v: worth saying: %v", i, c.err, got)
		}
	}
	if !trouble.Over() || trouble.Over() || !trouble.Worth(away, noon) {
		t.Error("it is not over, or does not begin again")
	}
}

// TestMissingPartitionAfterARefusedConnection: no remedy is known for either error, and both have to be logged.
func TestMissingPartitionAfterARefusedConnection(t *testing.T) {
	var trouble Trouble
	if !trouble.Worth(refusedBy("127.0.0.1:9092"), noon) {
		t.Error("the refused connection is not logged")
	}
	if !trouble.Worth(fmt.Errorf("reading counters-7: %w", kerr.UnknownTopicOrPartition), noon) {
		t.Error("the missing partition is not logged")
	}
}

// TestKindsOfErrors: every row is one kind, and no two rows are the same.
func TestKindsOfErrors(t *testing.T) {
	kinds := map[string]string{}
	for name, same := range map[string][]error{
		"refused": {
			refusedBy("127.0.0.1:9092"), refusedBy("[::1]:19093"),
			fmt.Errorf("no answer: %w", refusedBy("10.0.0.3:9092")),
		},
		"reset": {
			&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
			fmt.Errorf("at 12:00: %w", &net.OpError{Op: "read", Err: syscall.ECONNRESET}),
		},
		"no partition": {
			kerr.UnknownTopicOrPartition, fmt.Errorf("reading counters-7: %w", kerr.UnknownTopicOrPartition),
			fmt.Errorf("reading partials-0 at 99: %w", kerr.UnknownTopicOrPartition),
		},
		"no leader": {kerr.LeaderNotAvailable},
		"deadline":  {context.DeadlineExceeded, fmt.Errorf("flushing 3 records: %w", context.DeadlineExceeded)},
		"slow dial": {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}},
		"no such host": {
			&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "one", Server: "10.0.0.1:53"}},
			&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "another"}},
		},
		"disk full": {
			&os.PathError{Op: "write", Path: "/a/1", Err: syscall.ENOSPC},
			&os.PathError{Op: "open", Path: "/b", Err: syscall.ENOSPC},
		},
		"end of stream": {io.EOF},
		"dates": {
			errors.New("x509: certificate has expired: " +
				"current time 2026-11-22T04:19:31Z is after 2026-11-01T00:00:00Z"),
			errors.New("x509: certificate has expired: " +
				"current time 2026-11-22T04:19:41Z is after 2026-11-01T00:00:00Z"),
		},
		"lists": {errors.New("brokers [1 2 3] are away"), errors.New("brokers [2 3] are away")},
		"offsets": {
			errors.New("record at offset 999 is no Progress"),
			errors.New("record at offset 1000 is no Progress"),
		},
		"long": {
			errors.New("at 1 " + strings.Repeat("word ", 1000)),
			errors.New("at 1000000 " + strings.Repeat("word ", 2000)),
		},
	} {
		for _, err := range same {
			if kindOf(err) != kindOf(same[0]) {
				t.Errorf("%s: %q is of another kind than %q", name, kindOf(err), kindOf(same[0]))
			}
		}
		if other := kinds[kindOf(same[0])]; other != "" {
			t.Errorf("%s and %s are both %q", name, other, kindOf(same[0]))
		}
		kinds[kindOf(same[0])] = name
		if len(kindOf(same[0])) > maxKind {
			t.Errorf("%s: %d bytes", name, len(kindOf(same[0])))
		}
	}
}

// TestTroubleThatLastsIsSaidAgain holds a trouble of an hour, with an error every second, to a line every ten minutes.
func TestTroubleThatLastsIsSaidAgain(t *testing.T) {
	var trouble Trouble
	lines := 0
	for s := range 3600 {
		if trouble.Worth(refusedBy("127.0.0.1:9092"), noon.Add(time.Duration(s)*time.Second)) {
			lines++
		}
	}
	if lines != 6 {
		t.Errorf("%d lines in an hour, want 6", lines)
	}
}

// TestTroubleStaysWithinItsLines draws errors and ends in any order and at any pace, of few kinds or of many.
func TestTroubleStaysWithinItsLines(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var trouble Trouble
		var lines []time.Time
		last := map[string]time.Time{} // of each kind
		kinds, pause, ends := 1+rnd.IntN(2*maxLines), time.Duration(1+rnd.IntN(120))*time.Second, rnd.Float64()/2
		now, said := noon, false
		for range 1000 {
			now = now.Add(time.Duration(rnd.Int64N(int64(pause))))
			if rnd.Float64() < ends {
				if trouble.Over() != said {
					t.Fatalf("seed %d: the end of a trouble that the log has (%v)", seed, said)
				}
				said = false
				continue
			}
			kind := strings.Repeat("x", 1+rnd.IntN(kinds))
			worth := trouble.Worth(fmt.Errorf("%s at offset %d", kind, rnd.IntN(1e6)), now)
			at, had := last[kind]
			if first := !had || now.Sub(at) >= logAgain; first && !worth && kinds <= maxReturns {
				t.Fatalf("seed %d: the log does not have a kind, one of %d", seed, kinds)
			}
			if !worth {
				continue
			}
			said, last[kind] = true, now
			if lines = append(lines, now); len(lines) > maxLines && now.Sub(lines[len(lines)-1-maxLines]) < logAgain {
				t.Fatalf("seed %d: more than %d lines in ten minutes", seed, maxLines)
			}
		}
	}
}

// TestTroubleIsSaidInTheEnd: a link that broke again and again has used up its lines. An outage that stays is logged
// late, and so is its end.
func TestTroubleIsSaidInTheEnd(t *testing.T) {
	var trouble Trouble
	away, now := refusedBy("127.0.0.1:9092"), noon
	begun, ended := 0, 0
	for range 100 {
		now = now.Add(time.Second)
		if trouble.Worth(away, now) {
			begun++
		}
		if trouble.Over() {
			ended++
		}
	}
	if begun != maxReturns || ended != begun {
		t.Errorf("%d beginnings and %d ends of outages of a second", begun, ended)
	}
	for s := range 600 {
		if trouble.Worth(away, now.Add(time.Duration(s)*time.Second)) {
			begun++
		}
	}
	if begun != maxReturns+1 || !trouble.Over() {
		t.Errorf("an outage of ten minutes is not logged: %d lines", begun)
	}
}
