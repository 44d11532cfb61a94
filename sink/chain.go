// Package sink archives the topic job-summary as Parquet files, every summary exactly once. Its samples service does
// the same with the values of the topic counters, for a while.
//
// The directory is the commit log: no offset is kept anywhere else. The name of a file holds topic, partition and start
// position. Its footer holds the start of the next file:
//
//	summaries/date=2026-11-21/weir.job-summary-0-00000000000000000000.parquet   next 1810
//	summaries/date=2026-11-21/weir.job-summary-0-00000000000000001810.parquet   next 3620
//
// The name of a compacted file has a "c" before the start. The file replaces others, and its footer lists their ranges.
//
// The chain of files of a partition is the sink's position in it. A file appears whole, by link(2), which never
// overwrites. Of several sinks on one directory one wins each link, and the others go on from there.
package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// ErrHole is returned when a file is missing between two others of a partition. Dates that were deleted from the
	// old end of the archive leave no hole.
	ErrHole = errors.New("the archive has a hole")
	// ErrBadFile is returned when a file of the archive lacks a readable footer, or its footer contradicts its name.
	ErrBadFile = errors.New("not a file of the sink")
	// errOvertaken is returned when the topic's retention deleted records that the archive does not have yet.
	errOvertaken = errors.New("retention overtook the archive")
	// errBeyondEnd is returned when the archive is ahead of the topic: another cluster's, or a topic made anew.
	errBeyondEnd = errors.New("the archive is ahead of the topic")
	// errEndLost is returned when the archived topic ends before its archive. Its brokers lost the rest, and a process
	// that waits goes on behind it.
	errEndLost = errors.New("the brokers lost the topic's end, waiting until it reaches the archive")
	// errTopicReplaced is returned when the archived topic was deleted. Another topic with the same name and a new id
	// took its place, and begins anew.
	errTopicReplaced = errors.New("the topic was deleted and made again")
	// errNoTopic is returned when the topic does not exist.
	errNoTopic = errors.New("no such topic: make it with `weir topics create`")
	// errNoHardLinks is returned when the archive's file system does not support hard links, which exactly-once needs.
	errNoHardLinks = errors.New("the file system has no hard links: choose another sink.dir")
	// errNoGap is returned by AcceptGap when there is nothing to accept.
	errNoGap = errors.New("no gap")

	// errTaken is returned when a file with the same start exists: another sink was first.
	errTaken = errors.New("another sink wrote this file")
	// errPassed is returned when another process continued the chain behind a record that this sink waits at.
	errPassed = errors.New("the chain goes on behind the record that was waited at")
)

const (
	summariesDir = "summaries"
	suffix       = ".parquet"
	startDigits  = 20
	datePrefix   = "date="

	compactedMark = "c"
)

// tail is the end of a partition's chain: the start of the file to come, and the date of the last file.
type tail struct {
	next    int64
	date    string // empty: there is no file yet
	topicID string // of the topic that the last file was read from; empty: unknown
}

// link describes a file, or a range of a compacted file, to the chain.
type link struct {
	path, date  string
	start, next int64
	previous    string // the date of the file before
	topicID     string
	compacted   bool
	fault       error // not nil: the file is damaged, and only its name is known
}

// hole is a stretch of positions that no file covers, between two that exist.
type hole struct{ before, after link }

// footer returns the date and the footer of the empty file that records the hole.
func (h hole) footer(topic string, partition int32) (date string, f Footer) {
	return cmp.Or(h.before.date, h.after.date), Footer{
		Topic: topic, Partition: partition, Start: h.before.next, Next: h.after.start, Gap: true,
		PreviousDate: h.before.date, TopicID: h.before.topicID,
	}
}

func (h hole) err() error {
	return fmt.Errorf("%w: positions %d to %d, between %s and %s: bring the missing file back",
		ErrHole, h.before.next, h.after.start, h.before.path, h.after.path)
}

// check returns the holes between a partition's links, which it sorts by start. Files that overlap are an error.
//
// oldest is the oldest date, as linksOf finds it. A missing file of an older date is no hole: users delete old dates.
// Around midnight the files of two dates alternate. A damaged file reaches to the next one: its rows are unreadable,
// but the chain does not need them. A damaged compacted file may have contained further ranges. So a stretch is no hole
// if the file behind it follows the date of a damaged compacted file.
func check(links []link, oldest string) ([]hole, error) {
	slices.SortFunc(links, func(a, b link) int { return cmp.Compare(a.start, b.start) })
	var holes []hole
	for i := 1; i < len(links); i++ {
		if links[i-1].fault != nil {
			links[i-1].next = links[i].start
		}
		before, after := links[i-1], links[i]
		switch {
		case after.fault != nil && after.start >= before.next: // what lay before it is not known
		case after.start < before.next:
			return nil, fmt.Errorf("%w: %s reaches to %d, where %s has begun: "+
				"move away the one that does not belong here", ErrBadFile, before.path, before.next, after.path)
		case after.start > before.next && (after.previous == "" || after.previous >= oldest) &&
			!slices.ContainsFunc(links[:i], after.mayFollow):
			holes = append(holes, hole{before, after})
		}
	}
	return holes, nil
}

// mayFollow reports whether a file is damaged that may have had the range before a link.
func (l link) mayFollow(file link) bool {
	return file.fault != nil && file.compacted && file.date == l.previous
}

// endOf returns the last link of a chain that check has sorted. It must be a whole file. If a compacted one is damaged,
// it must be a small one. A compaction never takes the last file of a partition, so no compacted one reaches behind it.
func endOf(links []link) (link, error) {
	last := links[len(links)-1]
	fault := last.fault
	for _, l := range links {
		if fault == nil && last.compacted && l.compacted {
			fault = l.fault
		}
	}
	if fault != nil {
		return last, fmt.Errorf("%w; it may be the last of its partition, which says where to go on: "+
			"if there is no copy, move it away, and its records are read again", fault)
	}
	return last, nil
}

// chains reads every footer of a topic below root, and returns the links and the oldest date from linksOf. Missing
// files are left out, since users may delete dates meanwhile.
func chains(root, topic string) (map[int32][]link, string, error) {
	files, err := Files(root, topic)
	if err != nil {
		return nil, "", err
	}
	found, oldest := linksOf(files)
	return found, oldest, nil
}

// linksOf returns the links of each partition, sorted by start, and the oldest date.
//
// A date counts as the oldest only if not all its files came late, behind files of a later date. Users may have deleted
// that date before, and a row of 1970 makes a date that never was.
func linksOf(files []File) (found map[int32][]link, oldest string) {
	found = map[int32][]link{}
	for _, f := range files {
		found[f.Partition] = append(found[f.Partition], f.links()...)
	}
	for _, links := range found {
		slices.SortFunc(links, func(a, b link) int { return cmp.Compare(a.start, b.start) })
		late := false // of the link before
		for i, l := range links {
			late = l.previous > l.date || late && l.previous == l.date && l.start == links[i-1].next
			if !late && (oldest == "" || l.date < oldest) {
				oldest = l.date
			}
		}
	}
	return found, oldest
}

// Archive describes the progress of an archive, as another process sees it.
type Archive struct {
	Positions map[int32]int64 // by partition; nil if the topic has no files
	TopicID   string          // of the topic, from the last file that names it
	Damaged   []error         // one for each file that cannot be read, with its path
}

// Look returns how far the summaries are archived in cfg.Sink.Dir. A damaged file is no error.
func Look(cfg config.Config) (Archive, error) {
	var found map[int32][]link
	var oldest string
	err := Reading(context.Background(), cfg.Sink.Dir, func() (err error) {
		found, oldest, err = chains(filepath.Join(cfg.Sink.Dir, summariesDir), cfg.Prefix+schemas.TopicJobSummary)
		return err
	})
	if errors.Is(err, os.ErrNotExist) || err == nil && len(found) == 0 {
		return Archive{}, nil
	}
	if err != nil {
		return Archive{}, err
	}
	a := Archive{Positions: map[int32]int64{}}
	for p, links := range found {
		if _, err := check(links, oldest); err != nil {
			a.Damaged = append(a.Damaged, err)
		}
		for _, l := range links {
			a.Positions[p] = max(a.Positions[p], l.start, l.next)
			if l.topicID != "" {
				a.TopicID = l.topicID
			}
			if l.fault != nil {
				a.Damaged = append(a.Damaged, l.fault)
			}
		}
	}
	return a, nil
}
