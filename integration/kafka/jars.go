package main

import (
	"context"
	_ "embed" // for pom.xml
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

//go:embed pom.xml
var pom []byte

// errMissing is returned when a program that this one needs is not installed.
var errMissing = errors.New("not found in PATH")

// programs lists the required programs, and how to install them.
func programs() map[string]string {
	return map[string]string{
		"java": "install a Java runtime, 17 or newer (Debian: openjdk-17-jre-headless)",
		"mvn":  "install Maven, 3.8 or newer (Debian: maven)",
	}
}

func require(name string) error {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%s is %w: %s", name, errMissing, programs()[name])
	}
	return nil
}

// lock keeps other processes of this program out of a directory until unlock. None sees half of the jars then, and no
// two start brokers there.
func lock(ctx context.Context, dir string, stderr io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for said := false; ; said = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", dir, err), f.Close())
		}
		if !said {
			fmt.Fprintf(stderr, "kafka: waiting for another that works in %s\n", dir)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("locking %s: %w", dir, ctx.Err()), f.Close())
		case <-retry.C:
		}
	}
}

func fetchLocked(ctx context.Context, dir string, stderr io.Writer) (libs string, err error) {
	unlock, err := lock(ctx, dir, stderr)
	if err != nil {
		return "", err
	}
	defer unlock()
	return fetch(ctx, dir, stderr)
}

// fetch makes sure that Kafka's jars are in dir/libs, which it returns. The caller holds the lock.
func fetch(ctx context.Context, dir string, stderr io.Writer) (libs string, err error) {
	if err := require("java"); err != nil {
		return "", err
	}
	libs = filepath.Join(dir, "libs")
	if complete(dir) {
		return libs, nil
	}
	if err := require("mvn"); err != nil {
		return "", err
	}
	if err := renew(libs); err != nil {
		return "", fmt.Errorf("removing old jars: %w", err)
	}
	file := filepath.Join(libs, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return "", fmt.Errorf("writing Maven's input: %w", err)
	}
	fmt.Fprintf(stderr, "kafka: fetching Kafka's jars (44 MB, once) into %s\n", libs)
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", file, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+libs)
	mvn.Stdout, mvn.Stderr = stderr, stderr
	if err := mvn.Run(); err != nil {
		return "", fmt.Errorf("fetching Kafka's jars with Maven, which says why above: %w", err)
	}
	if err := os.WriteFile(marker(dir), pom, 0o644); err != nil {
		return "", fmt.Errorf("marking the jars as complete: %w", err)
	}
	return libs, nil
}

// errNotOurs is returned when a directory holds files that this program did not make.
var errNotOurs = errors.New("not made by this program: choose another --dir, or move it away yourself")

// mark is a file in each directory that this program may remove.
const mark = "made-by-weir-kafka"

// renew makes an empty directory with the mark in it. It removes one that is there, if that carries the mark.
func renew(dir string) error {
	if err := ours(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, mark), nil, 0o644)
}

// ours returns nil if a directory carries the mark, is empty or is not there.
func ours(dir string) error {
	if info, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil || !info.IsDir() {
		return errors.Join(fmt.Errorf("%s is %w", dir, errNotOurs), err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(files) > 0 && !slices.ContainsFunc(files, func(f fs.DirEntry) bool { return f.Name() == mark }) {
		return fmt.Errorf("%s is %w", dir, errNotOurs)
	}
	return nil
}

// marker is a file that holds the pom by which the jars beside it were fetched. It is written last.
func marker(dir string) string { return filepath.Join(dir, "libs", "complete") }

func complete(dir string) bool {
	of, err := os.ReadFile(marker(dir))
	return err == nil && string(of) == string(pom)
}
