package analysis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/analysis/topics"
)

// NoArchive is a directory without an archive, in place of one that the user may not read.
const NoArchive = "/nonexistent"

// Readable returns an error if there is an archive in dir that this user may not read.
func Readable(dir string) error {
	for _, table := range []string{"", "jobs", "summaries"} {
		if _, err := os.ReadDir(filepath.Join(dir, table)); errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("the archive %s is not yours to read: %w: ask for the group that owns it", dir, err)
		}
	}
	return nil
}

// Sources are the two places in which a job may be: the archive, and the topics if brokers are asked. They are opened
// for the jobs and job arrays that a user names. One client reads all of them, and the records of jobs and findings are
// read once.
type Sources struct {
	cfg    config.Config // sink.dir is the archive that is read
	viewer Viewer
	topic  *topics.Reader // nil: no broker is asked
	ids    map[string]bool
	lives  map[string]lives             // of each id, from both sources, whoever may see them; nil: not read yet
	found  map[string][]schemas.Finding // of the topic, by job; nil: not read yet
	types  *nodetypes.Types             // of nodes; nil: not read yet
}

// Open returns the sources of jobs and arrays with these IDs once a broker answers, if brokers are asked. To the
// viewer, the jobs of others do not exist. The caller closes the sources.
func Open(ctx context.Context, cfg config.Config, v Viewer, a Ask, ids ...string) (s *Sources, err error) {
	if a.Dir != "" {
		cfg.Sink.Dir = a.Dir
	}
	s = &Sources{cfg: cfg, viewer: v, ids: map[string]bool{}}
	for _, id := range ids {
		s.ids[id] = true
	}
	if a.Topic {
		s.topic, err = topics.Open(ctx, cfg)
	}
	return s, err
}

// openOne returns the sources of one job, with a name for SplitID.
func openOne(ctx context.Context, cfg config.Config, v Viewer, a Ask, name string) (*Sources, error) {
	id, _, err := SplitID(name)
	if err != nil {
		return nil, err
	}
	return Open(ctx, cfg, v, a, id)
}

// knowNodes completes the node types of the configuration by the facts about nodes on the topic.
func (s *Sources) knowNodes(ctx context.Context) error {
	if s.types != nil {
		return nil
	}
	machine, err := topics.Machine(ctx, s.topic, s.cfg)
	if err == nil {
		s.types, err = nodetypes.New(machine)
	}
	if err == nil {
		s.cfg.Machine = machine
	}
	return err
}

// Machine returns the node types by which the jobs were loaded.
func (s *Sources) Machine() []config.NodeType { return s.cfg.Machine }

// Close ends the client.
func (s *Sources) Close() {
	if s.topic != nil {
		s.topic.Close()
	}
}

// records reads the scheduler's records of the jobs, and of the tasks of the arrays. Records of the topic come first,
// and stay: they are newer than the archive's, or the same.
func (s *Sources) records(ctx context.Context) error {
	if s.lives != nil {
		return nil
	}
	all := map[string]lives{}
	add := func(j *schemas.Job, cluster string) {
		if s.ids[j.JobID] || j.ArrayJob != nil && s.ids[*j.ArrayJob] {
			all[j.JobID] = all[j.JobID].add(life{j, cluster})
		}
	}
	if s.topic != nil {
		known, err := s.topic.Jobs(ctx)
		if err != nil {
			return err
		}
		for _, j := range known {
			add(j, "")
		}
	}
	err := archive.EachNamed(ctx, s.cfg.Sink.Dir, slices.Collect(maps.Keys(s.ids)), func(r *jobs.Row) error {
		add(archive.JobOf(r), r.Cluster)
		return nil
	})
	if err != nil {
		return err
	}
	s.lives = all
	return nil
}

// isArray reports whether a job carries the number of its array. In Slurm, one of the tasks does.
func isArray(lives lives, id string) bool {
	return slices.ContainsFunc(lives, func(l life) bool { return l.ArrayJob != nil && *l.ArrayJob == id })
}

// Tasks returns the tasks of a job array: the ID of each by its number. Whole reports whether the array's number alone
// means all of them: no other job carries it.
func (s *Sources) Tasks(ctx context.Context, array string) (tasks map[int64]string, whole bool, err error) {
	limited, cancel := context.WithTimeout(ctx, topics.ReadTimeout)
	defer cancel()
	if err := s.records(limited); err != nil {
		return nil, false, err
	}
	tasks = map[int64]string{}
	for id, lives := range s.lives {
		for _, l := range lives {
			if l.ArrayJob != nil && l.ArrayTask != nil && *l.ArrayJob == array && s.viewer.May(l.Job) {
				tasks[int64(*l.ArrayTask)] = id
			}
		}
	}
	of := s.lives[array].seenBy(s.viewer)
	return tasks, len(tasks) > 0 && (len(of) == 0 || isArray(of, array)), nil
}

// Knows reports whether the scheduler has a record of a job with this ID. Tasks has read the records.
func (s *Sources) Knows(id string) bool { return len(s.lives[id].seenBy(s.viewer)) > 0 }

// Load is the function Load for a job, or a task of an array, that was named.
func (s *Sources) Load(ctx context.Context, set *rules.Set, jobID string, a Ask) (*view.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*topics.ReadTimeout)
	defer cancel()
	l, err := s.loader(ctx, set, jobID, a)
	if err != nil {
		return nil, err
	}
	return l.load(ctx)
}

// reader returns a reader of the topics for one job. It starts with the ends of topics that are known now.
func (s *Sources) reader() *topics.Reader {
	if s.topic == nil {
		return nil
	}
	return s.topic.Anew()
}

// job returns the lives of the job that a name of SplitID means, and its ID. There may be no record of it.
func (s *Sources) job(ctx context.Context, name string) (id string, mine lives, err error) {
	id, date, err := SplitID(name)
	if err == nil {
		err = s.records(ctx)
	}
	if err == nil {
		mine, err = s.lives[id].choose(s.viewer, id, date)
	}
	return id, mine, err
}

// chosen is the life of a job that is read.
type chosen struct {
	key    schemas.JobKey
	known  lives // all lives of the job that have a record
	record *life // the scheduler's record of this life; nil: there is none
	span   span  // bounds the intervals of the life, since a namesake may share its key
	unsure bool  // the restart is neither given nor known: the last one with rows is meant
}

// life chooses a life of the job with a name for SplitID: the given restart, or the last one if restart is negative.
func (s *Sources) life(ctx context.Context, name string, restart int32) (c chosen, err error) {
	id, job, err := s.job(ctx, name)
	if err != nil {
		return c, err
	}
	if restart < 0 {
		for _, l := range job {
			restart = max(restart, l.Restart)
		}
	}
	c = chosen{key: schemas.JobKey{JobID: id, Restart: max(0, restart)}, known: job, span: always, unsure: restart < 0}
	for i := range job {
		if job[i].Restart == restart {
			c.record, c.span = &job[i], s.spanOf(job[i])
		}
	}
	if c.record == nil && !s.viewer.All { // nobody knows the owner
		return c, fmt.Errorf("%w: %s", ErrNoJob, id)
	}
	return c, nil
}

// spanOf returns the time in which the intervals of a life begin, as far as the viewer may know that they are of it.
func (s *Sources) spanOf(of life) span {
	known := s.lives[of.JobID].span(of)
	bounds := s.viewer.bounds(of.Job)
	if bounds.from > always.from { // the interval in which the life began
		bounds.from -= s.cfg.Interval.Milliseconds() - 1
	}
	return span{max(known.from, bounds.from), min(known.to, bounds.to)}
}

// Lives returns the lives of the job with a name for SplitID. It takes only lives between from and to; a zero time is
// no bound.
func (s *Sources) Lives(ctx context.Context, name string, from, to time.Time) (l Lives, err error) {
	id, date, err := SplitID(name)
	if err == nil {
		err = s.records(ctx)
	}
	if err != nil {
		return l, err
	}
	l.all, l.dated = s.lives[id], date != ""
	l.mine, err = slices.DeleteFunc(slices.Clone(l.all), func(one life) bool {
		when := one.when()
		return !from.IsZero() && when.To <= from.UnixMilli() || !to.IsZero() && when.From >= to.UnixMilli()
	}).choose(s.viewer, id, date)
	return l, err
}

// findings returns the recorded findings of a life: from the archive if the life has ended, and from the topic if the
// archive has none.
func (s *Sources) findings(ctx context.Context, c chosen) (all []schemas.Finding, err error) {
	take := func(f *schemas.Finding) error {
		if f.Job() == c.key && c.span.has(f.AsOf) {
			all = append(all, *f)
		}
		return nil
	}
	if r := c.record; r != nil && r.End != nil && schemas.Over(r.State) {
		first := ""
		if r.started() {
			first = archive.DateAt(*r.Start)
		}
		err := archive.EachFinding(ctx, s.cfg.Sink.Dir, first, archive.DateAt(*r.End), c.key.JobID, take)
		if err != nil {
			return nil, err
		}
	}
	if s.topic == nil || len(all) > 0 {
		return all, nil
	}
	if err := s.foundInTopic(ctx); err != nil {
		return nil, err
	}
	for i := range s.found[c.key.JobID] {
		_ = take(&s.found[c.key.JobID][i])
	}
	return all, nil
}

// archivedTotals returns the totals of a life that has ended, with the bounds of their deciles.
func (s *Sources) archivedTotals(ctx context.Context, c chosen) ([]totals.Total, error) {
	date := archive.DateAt(*c.record.End)
	all, err := archive.Totals(ctx, s.cfg.Sink.Dir, date, date, c.key)
	return slices.DeleteFunc(all, func(t totals.Total) bool { return !c.span.has(t.Start) }), err
}

// foundInTopic reads the findings of the topic, unless it has: all jobs that are named share one read.
func (s *Sources) foundInTopic(ctx context.Context) error {
	if s.found != nil {
		return nil
	}
	found := map[string][]schemas.Finding{}
	err := s.topic.Findings(ctx, func(f *schemas.Finding) {
		if s.ids[f.JobID] || s.lives[f.JobID] != nil {
			found[f.JobID] = append(found[f.JobID], *f)
		}
	})
	if err == nil {
		s.found = found
	}
	return err
}
