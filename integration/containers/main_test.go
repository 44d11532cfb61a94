package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"github.com/weirhpc/weir/integration"
)

// required is set in the environment of a run that must not skip.
const required = "REQUIRE_CONTAINERS"

// testEngine is the engine of all tests, with the images.
type testEngine struct {
	*engine
	cache    string
	docker   *testcontainers.DockerClient
	provider *testcontainers.DockerProvider
}

// Set by TestMain.
var (
	theEngine     *testEngine
	errEngineAway error // why theEngine is nil
	skipped       int
)

// TestMain starts the engine that all tests share, and counts the tests that were skipped without one.
func TestMain(m *testing.M) {
	runtime.LockOSThread() // the engine ends with the thread that started it
	theEngine, errEngineAway = prepare(context.Background())
	status := integration.RunTests(m)
	if theEngine != nil {
		if err := theEngine.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "ending the engine:", err)
			status = max(status, 1)
		}
	}
	if skipped > 0 {
		const format = "CONTAINER TESTS SKIPPED: %d, SINCE NO CONTAINER CAN RUN HERE: %v\n"
		fmt.Fprintf(os.Stderr, format, skipped, errEngineAway)
	}
	os.Exit(status)
}

// prepare starts an engine and gives it the images. It waits until no other run of these tests uses the cache.
func prepare(ctx context.Context) (*testEngine, error) {
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil { // where Debian has dockerd
		return nil, err
	}
	if err := lacking(); err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "weir-containers")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.Create(filepath.Join(cache, "lock")) // stays open, and locked, as long as this process lives
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	if err := makeArchives(ctx, cache); err != nil {
		return nil, err
	}
	data := filepath.Join(cache, "engine")
	if err := removeUnmounted(data); err != nil { // of a run that was killed
		return nil, err
	}
	e, err := startEngine(ctx, data)
	if err != nil {
		return nil, err
	}
	t, err := connect(ctx, e, cache)
	if err != nil {
		return nil, errors.Join(err, e.stop())
	}
	return t, nil
}

// connect makes testcontainers use the engine, and imports the images.
func connect(ctx context.Context, e *engine, cache string) (*testEngine, error) {
	for key, value := range map[string]string{
		"DOCKER_HOST":                  e.host(),
		"TESTCONTAINERS_RYUK_DISABLED": "true", // its image is on a registry; the engine itself ends all containers
	} {
		if err := os.Setenv(key, value); err != nil {
			return nil, err
		}
	}
	log.SetDefault(log.NewNoopLogger()) // a container that fails logs its end
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting to the engine: %w", err)
	}
	if err := importImages(ctx, docker, cache); err != nil {
		return nil, err
	}
	// The engine has no bridge. Without a default network, testcontainers would make one.
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithDefaultBridgeNetwork("host"))
	if err != nil {
		return nil, fmt.Errorf("connecting to the engine: %w", err)
	}
	return &testEngine{e, cache, docker, provider}, nil
}

// needEngine returns the engine. Without one, it skips the test, or fails it where containers are required.
func needEngine(t *testing.T) *testEngine {
	t.Helper()
	switch {
	case theEngine != nil:
		return theEngine
	case os.Getenv(required) != "":
		t.Fatalf("%s is set, and no container can run here: %v", required, errEngineAway)
	default:
		skipped++
		t.Skipf("CONTAINER TEST SKIPPED: NO CONTAINER CAN RUN HERE: %v", errEngineAway)
	}
	return nil
}

// run starts a container, which ends with the test.
func (e *testEngine) run(
	ctx context.Context, t *testing.T, r testcontainers.ContainerRequest,
) testcontainers.Container {
	t.Helper()
	c, err := e.provider.RunContainer(ctx, r)
	testcontainers.CleanupContainer(t, c, testcontainers.StopTimeout(0))
	if err != nil {
		t.Fatalf("starting a container of %s: %v", r.Image, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("container %s ends with\n%s", c.GetContainerID()[:12], logs(t, c, 20))
		}
	})
	return c
}
