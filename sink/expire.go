package sink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

const (
	expireEvery = time.Hour        // between two looks for old dates
	expireWait  = 30 * time.Minute // for the lock, which readers may hold
)

// errOtherDisk is returned when a date cannot be moved to .stage/ at once.
var errOtherDisk = errors.New("the table and .stage/ are on different file systems: " +
	"set sink.dir of this service to a directory on the table's")

// expiry deletes the old dates of an optional table. It shares nothing with the sink but the directory.
type expiry struct {
	dir, topic string
	table      string // below dir
	retention  time.Duration
	log        *slog.Logger
	noted      map[string]bool // dates already logged because something of them stays
	// before is called ahead of each action on the disk and may fail in its place. It is nil outside tests.
	before func() error
}

func newExpiry(cfg config.Config, table string, retention time.Duration, log *slog.Logger) *expiry {
	return &expiry{
		dir: cfg.Sink.Dir, topic: cfg.Prefix + schemas.TopicCounters, table: table, retention: retention,
		log: log.With("table", table), noted: map[string]bool{},
	}
}

// run deletes old dates once an hour, until ctx ends.
func (e *expiry) run(ctx context.Context) {
	for {
		now, err := e.present(time.Now())
		if err == nil {
			err = e.pass(ctx, now)
		}
		if err != nil && ctx.Err() == nil {
			e.log.Warn("cannot delete old dates, trying again in an hour", "err", err)
		}
		if !retry.Pause(ctx, expireEvery) {
			return
		}
	}
}

func (e *expiry) root() string { return filepath.Join(e.dir, e.table) }

// old returns the path of a date during its deletion.
func (e *expiry) old(date string) string {
	return filepath.Join(StagePath(e.dir), e.table+"-"+datePrefix+date)
}

// present returns the time from which the retention counts: the end of the newest date with files, or now if that is
// earlier. The broker's clock dates the rows, so a clock here that is a year ahead deletes nothing too early.
func (e *expiry) present(now time.Time) (time.Time, error) {
	dates, err := listDates(e.root())
	if errors.Is(err, fs.ErrNotExist) {
		return now, nil
	}
	if err != nil {
		return now, err
	}
	for _, date := range slices.Backward(dates) {
		own, _, err := e.list(filepath.Join(e.root(), datePrefix+date))
		if err != nil {
			return now, err
		}
		day, err := time.Parse(time.DateOnly, date)
		if end := day.Add(24 * time.Hour); err == nil && len(own) > 0 {
			if end.Before(now) {
				return end, nil
			}
			break
		}
	}
	return now, nil
}

// pass finishes the work of an earlier pass. Then it deletes the dates that ended before the retention began, oldest
// first. In another order, a deleted date would leave a hole behind an older one.
func (e *expiry) pass(ctx context.Context, now time.Time) error {
	dates, err := listDates(e.root())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was written yet
	}
	if err != nil {
		return err
	}
	stage := filepath.Dir(e.old(""))
	begun, err := os.ReadDir(stage)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing %s: %w", stage, err)
	}
	for _, left := range begun {
		name, is := strings.CutPrefix(left.Name(), filepath.Base(e.old("")))
		if date, ok := parseDate(datePrefix + name); is && ok {
			if err := e.delete(ctx, date); err != nil {
				return err
			}
		}
	}
	for _, date := range dates {
		if date >= dateOf(now.Add(-e.retention).UnixMilli()) {
			return nil
		}
		if err := e.delete(ctx, date); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes the files of a date that this service wrote. All of them leave the archive at once. Deleted one
// by one, they would leave holes in the chains of partitions that have files on both sides of a midnight.
func (e *expiry) delete(ctx context.Context, date string) error {
	err := e.locked(ctx, func() error {
		if err := e.moveAway(date); err != nil {
			return err
		}
		return e.giveBack(date)
	})
	if err != nil {
		return err
	}
	own, others, err := e.list(e.old(date))
	if err != nil {
		return err
	}
	for _, name := range own {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := e.do(func() error { return os.Remove(filepath.Join(e.old(date), name)) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another service may delete it too
			return err
		}
	}
	if len(own) > 0 {
		e.log.Info("an old date is deleted", "date", date, "count", len(own))
	}
	if len(others) > 0 {
		e.note(date, e.old(date))
		return nil
	}
	err = e.do(func() error { return os.Remove(e.old(date)) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// moveAway moves the directory of a date to .stage/, if it contains files of the table.
func (e *expiry) moveAway(date string) error {
	from := filepath.Join(e.root(), datePrefix+date)
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	own, others, err := e.list(from)
	if len(others) > 0 || !info.IsDir() {
		e.note(date, from)
	}
	if err != nil || !info.IsDir() || len(own) == 0 && len(others) > 0 {
		return err
	}
	if _, err := os.Lstat(e.old(date)); err == nil { // late rows, after a pass that did not end
		return nil
	}
	err = e.do(func() error { return os.Rename(from, e.old(date)) })
	if errors.Is(err, syscall.EXDEV) {
		return fmt.Errorf("%w (%w)", errOtherDisk, err)
	}
	return err
}

// giveBack returns foreign files to the directory of their date.
func (e *expiry) giveBack(date string) error {
	_, others, err := e.list(e.old(date))
	if err != nil {
		return err
	}
	to := filepath.Join(e.root(), datePrefix+date)
	for _, name := range others {
		if err := e.do(func() error { return os.MkdirAll(to, 0o755) }); err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Join(to, name)); err == nil {
			continue // the name was taken meanwhile: this file stays in .stage/
		}
		err := e.do(func() error { return os.Rename(filepath.Join(e.old(date), name), filepath.Join(to, name)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// list returns the names in a directory: files of the table, and all others. A missing directory is empty.
func (e *expiry) list(dir string) (own, others []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, entry := range entries {
		if _, _, ok := parseName(e.topic, entry.Name()); ok && entry.Type().IsRegular() {
			own = append(own, entry.Name())
		} else {
			others = append(others, entry.Name())
		}
	}
	return own, others, nil
}

// locked runs fn while nobody reads or writes the archive.
func (e *expiry) locked(ctx context.Context, fn func() error) error {
	lock, err := Exclusive(ctx, e.dir, expireWait)
	if err == nil {
		defer lock.Unlock()
	} else if !errors.Is(err, ErrNoLocks) {
		return err
	}
	return fn()
}

// note logs once that something of a date stays.
func (e *expiry) note(date, dir string) {
	if !e.noted[date] {
		e.log.Warn("an old date has files that are not of this table, they stay", "date", date, "dir", dir)
	}
	e.noted[date] = true
}

// do runs an action on the disk.
func (e *expiry) do(run func() error) error {
	if e.before != nil {
		if err := e.before(); err != nil {
			return err
		}
	}
	return run()
}
