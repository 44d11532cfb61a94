package kafka

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

// errBusy is returned when another weir uses the data directory.
var errBusy = errors.New("another weir runs there: stop it, or name another directory with --data")

// DirError is returned when the data directory cannot be used.
type DirError struct{ error }

// Unwrap returns the error of the system.
func (e DirError) Unwrap() error { return e.error }

// Embedded is a Kafka broker inside this process, which keeps its data in a directory. It does not survive kill -9: for
// data that matters, use Kafka.
type Embedded struct {
	cluster *kfake.Cluster
	stop    func() // ends StartSessions
	lock    *os.File
	addr    string
}

// StartEmbedded starts the broker on a data directory, which it locks.
func StartEmbedded(dir, listen string) (*Embedded, error) {
	return startEmbedded(dir, listen, net.Listen)
}

// startEmbedded is StartEmbedded on any network, which the broker's own client reaches by opts.
func startEmbedded(
	dir, listen string, listenOn func(network, address string) (net.Listener, error), opts ...kgo.Opt,
) (*Embedded, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, DirError{fmt.Errorf("%s: making the directory: %w", dir, err)}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, DirError{fmt.Errorf("%s: locking the directory: %w", dir, err)}
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", dir, errBusy), lock.Close())
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1), kfake.ClusterID("weir-embedded"), kfake.DataDir(filepath.Join(dir, "broker")),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) {
			l, err := listenOn(network, listen)
			return limitedListener{l}, err
		}),
		kfake.BrokerConfigs(map[string]string{
			"log.cleaner.backoff.ms":  "15000", // interval of retention and compaction
			"message.max.bytes":       strconv.Itoa(schemas.MaxCountersBytes),
			"state.log.compact.bytes": "1048576", // of the broker's own log of groups and transactions
		}),
	)
	if err != nil {
		err = fmt.Errorf("starting the embedded broker on %s in %s: %w", listen, dir, err)
		return nil, errors.Join(err, lock.Close())
	}
	StampArrival(cluster)
	stop, err := StartSessions(cluster, opts...)
	if err != nil {
		cluster.Close()
		return nil, errors.Join(err, lock.Close())
	}
	return &Embedded{cluster, stop, lock, cluster.ListenAddrs()[0]}, nil
}

// Addr returns the broker's address, as host:port.
func (b *Embedded) Addr() string { return b.addr }

// Close ends the broker and then frees its directory.
func (b *Embedded) Close() error {
	b.stop()
	b.cluster.Close()
	return b.lock.Close()
}
