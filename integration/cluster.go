package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
)

// Cluster is a Kafka, or a stand-in for one, on which scenarios run. There are three providers: the embedded broker and
// the processes of integration/kafka in this package, containers in integration/containers. A provider ends its brokers
// after the test.
type Cluster interface {
	// Seeds returns the brokers' plaintext addresses. The broker with id 1 comes first.
	Seeds() []string
	// Faults returns the faults that Break can make.
	Faults() []Fault
	// Break makes a fault in the broker with this id. mend ends the fault and returns once the broker's process runs
	// again, which may have lost its place in the cluster. A fault that is never mended ends with the test.
	Break(t testing.TB, id int32, f Fault) (mend func())
}

// Fault is something that happens to a broker.
type Fault string

// The faults of a broker.
const (
	Stop  Fault = "stop"  // it ends in order, as at SIGTERM
	Kill  Fault = "kill"  // it ends at once, as at SIGKILL
	Pause Fault = "pause" // it keeps its memory and its connections, and does nothing
	Cut   Fault = "cut"   // other brokers cannot reach it, nor it them; clients reach it as before
)

// need skips a scenario that wants more of a cluster than it can do.
func need(t *testing.T, c Cluster, brokers int, faults ...Fault) {
	t.Helper()
	if n := len(c.Seeds()); n < brokers {
		t.Skipf("SKIPPED: IT NEEDS %d BROKERS, and has %d: make test-kafka has enough", brokers, n)
	}
	for _, f := range faults {
		if !slices.Contains(c.Faults(), f) {
			t.Skipf("SKIPPED: NO BROKER MET FAULT %q, since this cluster cannot make it; it makes %q", f, c.Faults())
		}
	}
}

// embedded is the broker in this process.
type embedded struct{ broker *kfake.Cluster }

func (e embedded) Seeds() []string { return e.broker.ListenAddrs() }
func (embedded) Faults() []Fault   { return nil }

func (embedded) Break(t testing.TB, id int32, f Fault) func() {
	t.Helper()
	t.Fatalf("%s of broker %d: the embedded broker meets no faults", f, id)
	return nil
}

// kafkaProcesses are a Kafka that somebody else started. With KAFKA_DIR it is one of integration/kafka. That program
// starts a broker again when it ends.
type kafkaProcesses struct {
	seeds   []string
	pids    string // file with a line of process id and properties file for each broker; "": no process is known
	cutFile string // names the broker to cut; "": none can be cut
}

// findCluster returns the Kafka that KAFKA_SEEDS names. Without it, it starts the embedded broker.
func findCluster(t *testing.T) Cluster {
	t.Helper()
	seeds := os.Getenv("KAFKA_SEEDS")
	if seeds == "" {
		t.Log("on the embedded broker; KAFKA_SEEDS would name a Kafka")
		return startEmbedded(t)
	}
	p := kafkaProcesses{seeds: strings.Split(seeds, ","), cutFile: os.Getenv("KAFKA_CUT")}
	if dir := os.Getenv("KAFKA_DIR"); dir != "" {
		p.pids = filepath.Join(dir, "pids")
	}
	return p
}

// startEmbedded starts a broker in this process.
func startEmbedded(t *testing.T) embedded {
	t.Helper()
	cluster := kafkatest.Broker(t, kfake.DataDir(t.TempDir()))
	kafka.StampArrival(cluster)
	stop, err := kafka.StartSessions(cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return embedded{cluster}
}

// brokers are where a system runs.
type brokers struct {
	seeds       []string
	prefix      string
	replication int
	shared      bool           // others may use them too
	cluster     *kfake.Cluster // the embedded broker; nil on a Kafka
}

// findBrokers gives a test the cluster of findCluster.
func findBrokers(t *testing.T) brokers {
	t.Helper()
	return brokersOf(t, findCluster(t))
}

// embeddedBroker gives a test the embedded broker, whatever KAFKA_SEEDS names.
func embeddedBroker(t *testing.T) brokers {
	t.Helper()
	return brokersOf(t, startEmbedded(t))
}

// brokersOf gives a test its place on a cluster. On a Kafka its topics have a prefix of their own.
func brokersOf(t *testing.T, c Cluster) brokers {
	t.Helper()
	if e, is := c.(embedded); is {
		return brokers{e.Seeds(), config.Default().Prefix, 1, false, e.broker}
	}
	b := brokers{seeds: c.Seeds(), prefix: fmt.Sprintf("t%08x.", rand.Uint32()), shared: true}
	known, err := kadm.NewClient(kafkatest.Client(t, b.seeds)).ListBrokers(t.Context())
	if err != nil {
		t.Fatalf("asking the brokers at %s: %v", b.seeds, err)
	}
	b.replication = min(3, len(known))
	t.Logf("on the Kafka of %d brokers at %s, prefix %s, replication %d", len(known), b.seeds, b.prefix, b.replication)
	return b
}

func (p kafkaProcesses) Seeds() []string { return p.seeds }

func (p kafkaProcesses) Faults() (faults []Fault) {
	if text, err := os.ReadFile(p.pids); err == nil && len(text) > 0 {
		faults = append(faults, Stop, Kill, Pause)
	}
	if p.cutFile != "" {
		faults = append(faults, Cut)
	}
	return faults
}

// Break implements Cluster. A broker that was ended comes back by itself.
func (p kafkaProcesses) Break(t testing.TB, id int32, f Fault) (mend func()) {
	t.Helper()
	switch f {
	case Pause:
		pid := p.signal(t, id, syscall.SIGSTOP)
		mend = sync.OnceFunc(func() {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Errorf("resuming broker %d: %v", id, err)
			}
		})
	case Cut:
		if err := os.WriteFile(p.cutFile, fmt.Append(nil, id), 0o600); err != nil {
			t.Fatal(err)
		}
		mend = sync.OnceFunc(func() {
			if err := os.Remove(p.cutFile); err != nil {
				t.Errorf("healing the cut of broker %d: %v", id, err)
			}
		})
	default:
		pid := p.signal(t, id, map[Fault]syscall.Signal{Stop: syscall.SIGTERM, Kill: syscall.SIGKILL}[f])
		return func() {
			what := fmt.Sprintf("another process of broker %d", id)
			kafkatest.Eventually(t, what, func() bool { return p.pid(t, id) != pid })
		}
	}
	t.Cleanup(mend)
	return mend
}

// signal sends a signal to a broker and returns its process id.
func (p kafkaProcesses) signal(t testing.TB, id int32, sig syscall.Signal) int {
	t.Helper()
	pid := p.pid(t, id)
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Contains(cmdline, []byte("kafka.Kafka")) {
		t.Fatalf("process %d is not broker %d: %q, %v", pid, id, cmdline, err)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("sending %v to broker %d: %v", sig, id, err)
	}
	return pid
}

// pid returns the process id of a broker now.
func (p kafkaProcesses) pid(t testing.TB, id int32) int {
	t.Helper()
	text, err := os.ReadFile(p.pids)
	if err != nil {
		t.Fatal(err)
	}
	number, _, _ := strings.Cut(slices.Collect(strings.Lines(string(text)))[id-1], " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
