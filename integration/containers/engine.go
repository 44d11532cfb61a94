// Package containers runs weir's scenarios on Kafka in containers, and installs weir's package on a minimal Debian. It
// is a module of its own, so that weir does not depend on testcontainers-go.
//
// It starts Debian's Docker engine in namespaces that end with the tests, and uses no other engine. It makes the images
// from Debian's packages, and needs no registry. Containers share the host's network or have none. So all traffic is on
// the loopback interface, and no bridge or packet filter stays behind.
package containers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	engineStarts = 30 * time.Second
	engineEnds   = 30 * time.Second
)

var (
	// errMissing is returned when this machine lacks something that every test here needs.
	errMissing = errors.New("missing")
	// errEngine is returned when the engine ends before it answers, or does not answer.
	errEngine = errors.New("no engine")
)

// programs lists what the tests run. dockerd starts the next two.
func programs() []string {
	return []string{"dockerd", "containerd", "runc", "debootstrap", "chroot", "mount", "tar", "java", "mvn"}
}

// lacking returns an error that names what is missing for containers.
func lacking() error {
	var lacks []string
	if os.Getuid() != 0 {
		lacks = append(lacks, "root")
	}
	for _, p := range programs() {
		if _, err := exec.LookPath(p); err != nil {
			lacks = append(lacks, p)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("%w: %s", errMissing, strings.Join(lacks, ", "))
	}
	return nil
}

// engine is a Docker engine that runs for these tests alone. It is process 1 of a PID namespace: at its end the kernel
// ends all containers. Its mounts are in a namespace that ends with it, too.
type engine struct {
	dir     string // sockets and logs; short, since the kernel bounds a socket's path
	data    string // images and containers
	cgroup  string
	process *os.Process
	ended   chan struct{}
}

// inNamespaces prepares the namespaces of an engine and becomes the engine. It hides another engine's containerd, which
// dockerd would use.
const inNamespaces = `set -e
mount -t proc proc /proc
[ ! -d /run/containerd ] || mount -t tmpfs tmpfs /run/containerd
exec dockerd "$@"`

// startEngine returns once the engine answers. The thread that calls it must outlast the engine.
func startEngine(ctx context.Context, data string) (*engine, error) {
	dir, err := os.MkdirTemp("", "weir-engine-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the engine: %w", err)
	}
	e := &engine{dir: dir, data: data, cgroup: filepath.Base(dir), ended: make(chan struct{})}
	log, err := os.Create(e.log())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the engine's log: %w", err), os.RemoveAll(dir))
	}
	defer log.Close()
	if err := os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the engine's configuration: %w", err), os.RemoveAll(dir))
	}
	cmd := exec.Command("sh", "-c", inNamespaces, "dockerd",
		"--config-file", filepath.Join(dir, "daemon.json"), "--host", e.host(), "--pidfile", filepath.Join(dir, "pid"),
		"--exec-root", filepath.Join(dir, "exec"), "--data-root", data, "--storage-driver", "overlay2",
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", "/"+e.cgroup,
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS,
		Setsid: true, Pdeathsig: syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errEngine, err), os.RemoveAll(dir))
	}
	e.process = cmd.Process
	go func() {
		_ = cmd.Wait() // its log has the reason
		close(e.ended)
	}()
	if err := e.await(ctx); err != nil {
		return nil, errors.Join(err, e.stop())
	}
	return e, nil
}

func (e *engine) host() string { return "unix://" + filepath.Join(e.dir, "docker.sock") }
func (e *engine) log() string  { return filepath.Join(e.dir, "log") }

// await returns once the engine answers a ping.
func (e *engine) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, engineStarts)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(e.dir, "docker.sock"))
		},
	}}
	defer client.CloseIdleConnections()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/_ping", nil)
		if err != nil {
			return err
		}
		if answer, err := client.Do(ask); err == nil {
			answer.Body.Close()
			return nil
		}
		select {
		case <-e.ended:
			return fmt.Errorf("%w: dockerd ended:\n%s", errEngine, e.tail())
		case <-ctx.Done():
			return fmt.Errorf("%w: dockerd does not answer: %w\n%s", errEngine, ctx.Err(), e.tail())
		case <-poll.C:
		}
	}
}

// tail returns the end of the engine's log.
func (e *engine) tail() string {
	const limit = 2000
	text, err := os.ReadFile(e.log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-limit):])
}

// stop ends the engine, all its containers, and removes its files.
func (e *engine) stop() error {
	_ = e.process.Signal(syscall.SIGTERM) // an error says that it has ended
	select {
	case <-e.ended:
	case <-time.After(engineEnds):
		_ = e.process.Kill()
		<-e.ended
	}
	return errors.Join(e.removeGroups(), removeUnmounted(e.dir), removeUnmounted(e.data))
}

// removeGroups removes the control groups of the containers, which are empty now.
func (e *engine) removeGroups() error {
	var faults []error
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		roots, err := filepath.Glob(pattern + e.cgroup)
		faults = append(faults, err)
		for _, root := range roots {
			var dirs []string
			faults = append(faults, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return err
			}))
			for _, dir := range slices.Backward(dirs) {
				faults = append(faults, syscall.Rmdir(dir))
			}
		}
	}
	return errors.Join(faults...)
}

// errMounted is returned when a directory is not removed, since removing through a mount would remove another's files.
var errMounted = errors.New("something is mounted below it")

func removeUnmounted(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	if strings.Contains(string(mounts), " "+dir+"/") {
		return fmt.Errorf("removing %s: %w", dir, errMounted)
	}
	return os.RemoveAll(dir)
}
