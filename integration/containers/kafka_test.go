// Package containers runs weir's scenarios on a Kafka in a container, where there is a Docker engine. It is a module of
// its own, so that what it takes to talk to the engine is no dependency of weir.
package containers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	image      = "apache/kafka:4.3.1"
	clientPort = "9092/tcp"
	// addressFile sets the address by which clients are to come back. The engine says it once the container runs, so
	// Kafka waits for it.
	addressFile = "/tmp/address.sh"
	startPeriod = 3 * time.Minute // with the image's download
)

// settings are all of Kafka's: the image has none of its own once one is given. Each is a property in capitals. The
// broker has a listener for itself, as it cannot reach the address that clients use.
var settings = map[string]string{
	"KAFKA_PROCESS_ROLES":                            "broker,controller",
	"KAFKA_NODE_ID":                                  "1",
	"KAFKA_CONTROLLER_QUORUM_VOTERS":                 "1@localhost:9094",
	"KAFKA_LISTENERS":                                "PLAINTEXT://0.0.0.0:9092,BROKER://localhost:9093,CONTROLLER://localhost:9094",
	"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP":           "PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
	"KAFKA_INTER_BROKER_LISTENER_NAME":               "BROKER",
	"KAFKA_CONTROLLER_LISTENER_NAMES":                "CONTROLLER",
	"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR":         "1",
	"KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS":             "4",
	"KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
	"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR":            "1",
	"KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS":     "4",
	"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS":         "0",
	"KAFKA_AUTO_CREATE_TOPICS_ENABLE":                "false",
	// Kafka's default of 20 makes every transaction about ten times as slow.
	"KAFKA_ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS": "1",
}

// TestScenarios runs the tests of ../ on Kafka in a container.
func TestScenarios(t *testing.T) {
	if err := engine(t.Context()); err != nil {
		t.Skipf("SCENARIOS SKIPPED: none has run on a Kafka in a container, there is no Docker engine: %v", err)
	}
	seeds := startKafka(t)
	t.Logf("%s at %s", image, seeds)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-race", "-count=1", "-timeout=15m", "./integration")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "KAFKA_SEEDS="+seeds)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
}

// engine says why containers cannot be run here.
func engine(ctx context.Context) (err error) {
	defer func() { // the library panics where it finds no engine
		if r := recover(); r != nil {
			err = fmt.Errorf("looking for one: %v", r)
		}
	}()
	provider, err := testcontainers.ProviderDefault.GetProvider()
	if err != nil {
		return err
	}
	defer provider.Close()
	return provider.Health(ctx)
}

// startKafka starts a broker, which ends with the test, and returns its address.
func startKafka(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startPeriod)
	defer cancel()
	kafka, err := testcontainers.Run(ctx, image,
		testcontainers.WithEnv(settings),
		testcontainers.WithExposedPorts(clientPort),
		testcontainers.WithCmd("sh", "-c",
			fmt.Sprintf("while [ ! -s %[1]s ]; do sleep 0.1; done; . %[1]s; exec /etc/kafka/docker/run", addressFile)),
	)
	testcontainers.CleanupContainer(t, kafka)
	if err != nil {
		t.Fatal(err)
	}
	address, err := kafka.PortEndpoint(ctx, clientPort, "")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://%s,BROKER://localhost:9093\n", address)
	if err := kafka.CopyToContainer(ctx, []byte(script), addressFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := wait.ForLog("Kafka Server started").WithStartupTimeout(startPeriod).WaitUntilReady(ctx,
		kafka); err != nil {
		t.Fatal(err)
	}
	return address
}
