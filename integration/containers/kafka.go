package containers

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/integration"
)

const (
	// kafkaProgram is built by make kafka-program. It writes the files of brokers.
	kafkaProgram = "../../bin/kafka"
	kafkaStarts  = 2 * time.Minute
	// kafkaStops is how long a broker has between SIGTERM and SIGKILL.
	kafkaStops = 15 * time.Second
	// brokerMemory bounds a container. Java's heap is 320 MB of it.
	brokerMemory = 768 << 20
)

// runBroker formats the data directory of a broker when it starts for the first time, and becomes the broker. Its
// arguments are the directories of the cluster and of the jars, and the properties.
const runBroker = `set -e
java -XX:TieredStopAtLevel=1 -cp "$2/*" kafka.tools.StorageTool format --ignore-formatted \
	-t 5L6g3nShT-eMCtK--X86sw -c "$3"
exec java -Xms128m -Xmx320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile=$1/log4j2.properties" \
	-cp "$2/*" kafka.Kafka "$3"`

// kafkaContainers are brokers in containers. They implement integration.Cluster.
type kafkaContainers struct {
	docker  *testcontainers.DockerClient
	seeds   []string
	brokers []testcontainers.Container // of each id from 1
}

var _ integration.Cluster = (*kafkaContainers)(nil)

// startKafka starts three brokers and returns once they know each other. They end with the test.
func startKafka(t *testing.T, e *testEngine) *kafkaContainers {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kafka")
	out, err := exec.CommandContext(t.Context(), kafkaProgram, "files", dir).Output()
	if err != nil {
		t.Fatalf("writing the brokers' files: %v: %s", err, stderrOf(err))
	}
	environ := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		environ[key] = value
	}
	k := &kafkaContainers{docker: e.docker, seeds: strings.Split(environ["KAFKA_SEEDS"], ",")}
	ctx, cancel := context.WithTimeout(t.Context(), kafkaStarts)
	defer cancel()
	libs := environ["KAFKA_LIBS"]
	for i := range k.seeds {
		properties := filepath.Join(dir, fmt.Sprintf("broker%d", i+1), "broker.properties")
		k.brokers = append(k.brokers, e.run(ctx, t, testcontainers.ContainerRequest{
			Image: imageJava, Cmd: []string{"sh", "-c", runBroker, "broker", dir, libs, properties},
			HostConfigModifier: func(hc *container.HostConfig) {
				hc.NetworkMode, hc.Binds = "host", []string{dir + ":" + dir, libs + ":" + libs + ":ro"}
				hc.Memory, hc.ReadonlyRootfs = brokerMemory, true
				hc.Tmpfs = map[string]string{"/tmp": "exec"} // Kafka unpacks the libraries of its codecs there
			},
		}))
	}
	k.await(ctx, t)
	return k
}

func stderrOf(err error) []byte {
	if exit, is := err.(*exec.ExitError); is { //nolint:errorlint // exec returns it as it is
		return exit.Stderr
	}
	return nil
}

// await returns once every broker answers and knows all others.
func (k *kafkaContainers) await(ctx context.Context, t *testing.T) {
	t.Helper()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for i := 0; i < len(k.seeds); {
		known, err := known(ctx, k.seeds[i])
		if err == nil && known == len(k.seeds) {
			i++
			continue
		}
		select {
		case <-ctx.Done():
			end := logs(t, k.brokers[i], 30)
			t.Fatalf("broker %d knows %d brokers, %v; its log ends with\n%s", i+1, known, err, end)
		case <-poll.C:
		}
	}
}

// known asks a broker for the number of brokers.
func known(ctx context.Context, seed string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seed), kgo.RequestRetries(0))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	brokers, err := kadm.NewClient(cl).ListBrokers(ctx)
	return len(brokers), err
}

// logs returns the last lines of a container.
func logs(t testing.TB, c testcontainers.Container, lines int) string {
	t.Helper()
	out, err := c.Logs(context.Background())
	if err != nil {
		return err.Error()
	}
	defer out.Close()
	var last []string
	for s := bufio.NewScanner(out); s.Scan(); {
		last = append(last, s.Text())
		last = last[max(0, len(last)-lines):]
	}
	return strings.Join(last, "\n")
}

// Seeds implements integration.Cluster.
func (k *kafkaContainers) Seeds() []string { return k.seeds }

// Faults implements integration.Cluster.
func (k *kafkaContainers) Faults() []integration.Fault {
	return []integration.Fault{integration.Stop, integration.Kill, integration.Pause}
}

// Break implements integration.Cluster.
func (k *kafkaContainers) Break(t testing.TB, id int32, f integration.Fault) (mend func()) {
	t.Helper()
	ctx, broker := context.Background(), k.brokers[id-1]
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s of broker %d: %v", f, id, err)
		}
	}
	start := func() { check(broker.Start(ctx)) }
	switch f {
	case integration.Stop:
		check(broker.Stop(ctx, new(kafkaStops)))
	case integration.Kill:
		_, err := k.docker.ContainerKill(ctx, broker.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
		check(err)
	case integration.Pause:
		_, err := k.docker.ContainerPause(ctx, broker.GetContainerID(), client.ContainerPauseOptions{})
		check(err)
		mend = sync.OnceFunc(func() {
			_, err := k.docker.ContainerUnpause(ctx, broker.GetContainerID(), client.ContainerUnpauseOptions{})
			check(err)
		})
		t.Cleanup(mend)
		return mend
	default:
		t.Fatalf("%s of broker %d: containers cannot make this fault", f, id)
	}
	return start
}
