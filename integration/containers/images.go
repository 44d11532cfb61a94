package containers

import (
	"context"
	_ "embed" // for images.sh
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// The images. Their names are on no registry.
const (
	imageDebian = "weir.test/debian:" + suite // debootstrap's minimal system
	imageJava   = "weir.test/java:" + suite   // the same with a headless Java runtime
)

// suite is the release of Debian in the images.
const suite = "bookworm"

//go:embed images.sh
var imagesScript string

// archives are the file systems of the images, by image. They are made once and kept in a cache.
func archives(cache string) map[string]string {
	return map[string]string{
		imageDebian: filepath.Join(cache, "debian-"+suite+".tar"),
		imageJava:   filepath.Join(cache, "java-"+suite+".tar"),
	}
}

// archivesTake bounds the time for the archives. A mirror that does not answer would hold up everything else.
const archivesTake = 8 * time.Minute

// makeArchives makes the archives if one of them is missing. It takes a minute.
func makeArchives(ctx context.Context, cache string) error {
	ctx, cancel := context.WithTimeout(ctx, archivesTake)
	defer cancel()
	missing := false
	for _, file := range archives(cache) {
		_, err := os.Stat(file)
		missing = missing || err != nil
	}
	if !missing {
		return nil
	}
	work, err := os.MkdirTemp(cache, "work-")
	if err != nil {
		return fmt.Errorf("making a directory for the images: %w", err)
	}
	of := archives(cache)
	cmd := exec.CommandContext(ctx, "sh", "-c", imagesScript, "images.sh", suite, work, of[imageDebian], of[imageJava])
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second // what it started may hold its output open
	if out, err := cmd.CombinedOutput(); err != nil {
		err = fmt.Errorf("making the images from Debian's packages: %w\n%s", err, out[max(0, len(out)-2000):])
		return errors.Join(err, removeUnmounted(work))
	}
	return removeUnmounted(work)
}

// importImages gives the engine the images.
func importImages(ctx context.Context, docker *testcontainers.DockerClient, cache string) error {
	for image, file := range archives(cache) {
		if err := importImage(ctx, docker, image, file); err != nil {
			return fmt.Errorf("importing %s: %w", file, err)
		}
	}
	return nil
}

func importImage(ctx context.Context, docker *testcontainers.DockerClient, image, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	from := client.ImageImportSource{Source: f, SourceName: "-"}
	progress, err := docker.ImageImport(ctx, from, image, client.ImageImportOptions{})
	if err != nil {
		return err
	}
	defer progress.Close()
	_, err = io.Copy(io.Discard, progress) // the image is complete at its end
	return err
}
