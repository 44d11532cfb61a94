package jobs

import (
	"context"
	"time"

	"github.com/weirhpc/weir/sink"
)

// store is the jobs of an archive.
type store struct {
	dir   string // sink.dir
	topic string
	// before is called ahead of each action on the disk, in tests.
	before func(action, path string) error
}

func (s *store) disk() sink.Dated { return sink.Dated{Dir: s.dir, Table: jobsDir, Before: s.before} }

// write brings the files up to date with the newest record of each job. It waits so long for readers. It returns why
// the files of some dates cannot be used: they stay as they are, and the records of these dates are not written.
func (s *store) write(
	ctx context.Context, wait time.Duration, topicID string, records map[key]Row,
) (bad map[string]error, err error) {
	defer sink.Recovered(&err)
	ids := map[string]bool{}
	for k := range records {
		ids[k.jobID] = true
	}
	// Nearly always there is nothing to do after a start, and nobody has to wait for that.
	seen, err := s.look(ctx, topicID, ids, nil)
	if err != nil {
		return nil, err
	}
	if len(s.planned(seen, records)) == 0 && !s.disk().Unfinished() {
		return seen.bad(), nil
	}
	lock, err := s.disk().Lock(ctx, wait)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := s.disk().Resume(ctx, wait); err != nil {
		return nil, err
	}
	if seen, err = s.look(ctx, topicID, ids, seen); err != nil {
		return nil, err
	}
	edits := s.planned(seen, records)
	if len(edits) == 0 {
		return seen.bad(), nil
	}
	loses := map[string]bool{}
	for date, e := range edits {
		loses[date] = len(e.drop) > 0 && len(edits) > 1
	}
	return seen.bad(), s.disk().Commit(ctx, wait, loses, func(path, date string) error {
		return s.writeFile(path, date, topicID, edits[date])
	})
}

// planned returns how files change. It leaves out dates whose present file is damaged, and notes that.
func (s *store) planned(found seen, records map[key]Row) map[string]*edit {
	for {
		edits := plan(found.rows(), found.usable(records))
		fine := true
		for date := range edits {
			f := found[date]
			if f == nil || f.whole {
				continue
			}
			if _, err := Check(s.dir, date); err != nil {
				f.err, f.rows, fine = err, nil, false
			}
			f.whole = true
		}
		if fine {
			return edits
		}
	}
}
