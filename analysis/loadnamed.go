package analysis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"

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

// Named are the jobs and job arrays that a user names. One client reads all of them. The records of jobs and findings
// are read once.
type Named struct {
	cfg   config.Config  // sink.dir is the archive that is read
	topic *topics.Reader // nil: no broker is asked
	ids   map[string]bool
	lives map[string]lives             // of each id; nil: not read yet
	found map[string][]schemas.Finding // of the topic, by job; nil: not read yet
}

// Open returns jobs and arrays of these IDs once a broker answers, if brokers are asked. The caller closes it.
func Open(ctx context.Context, cfg config.Config, a Ask, ids ...string) (n *Named, err error) {
	if a.Dir != "" {
		cfg.Sink.Dir = a.Dir
	}
	n = &Named{cfg: cfg, ids: map[string]bool{}}
	for _, id := range ids {
		n.ids[id] = true
	}
	if a.Topic {
		n.topic, err = topics.Open(ctx, cfg)
	}
	return n, err
}

// Close ends the client.
func (n *Named) Close() {
	if n.topic != nil {
		n.topic.Close()
	}
}

// fewJobs are looked up one by one. For more, the records of all jobs are read once.
const fewJobs = 8

// records reads the scheduler's records of the jobs, and of the tasks of the arrays.
func (n *Named) records(ctx context.Context) error {
	if n.lives != nil {
		return nil
	}
	lives := map[string]lives{}
	if n.topic != nil {
		known, err := n.topic.Jobs(ctx, func(*kgo.Record) bool { return true })
		if err != nil {
			return err
		}
		for _, j := range known {
			n.add(lives, j, "")
		}
	}
	archived := func(r *jobs.Row) error {
		n.add(lives, archive.JobOf(r), r.Cluster)
		return nil
	}
	all := len(n.ids) > fewJobs
	for id := range n.ids {
		if all {
			break
		}
		ended, err := archive.Jobs(ctx, n.cfg.Sink.Dir, id)
		if err != nil {
			return err
		}
		for i := range ended {
			_ = archived(&ended[i])
		}
		pseudo := id == schemas.JobSystem || id == schemas.JobRest
		all = len(lives[id]) == 0 && !pseudo || isArray(lives[id], id) // its tasks have other numbers
	}
	if all {
		if err := archive.EachJob(ctx, n.cfg.Sink.Dir, "", "", archived); err != nil {
			return err
		}
	}
	n.lives = lives
	return nil
}

// add notes a life of a job that is named. Records of the topic are added first: they are newer than the archive's, or
// the same.
func (n *Named) add(all map[string]lives, j *schemas.Job, cluster string) {
	if n.ids[j.JobID] || j.ArrayJob != nil && n.ids[*j.ArrayJob] {
		all[j.JobID] = all[j.JobID].add(life{j, cluster})
	}
}

// isArray reports whether a job carries the number of its array. In Slurm, one of the tasks does.
func isArray(lives lives, id string) bool {
	for _, l := range lives {
		if l.ArrayJob != nil && *l.ArrayJob == id {
			return true
		}
	}
	return false
}

// Tasks returns the tasks of a job array: the ID of each by its number. Whole reports whether the array's number alone
// means all of them: no other job carries it.
func (n *Named) Tasks(ctx context.Context, array string) (tasks map[int64]string, whole bool, err error) {
	limited, cancel := context.WithTimeout(ctx, topics.ReadTimeout)
	defer cancel()
	if err := n.records(limited); err != nil {
		return nil, false, err
	}
	tasks = map[int64]string{}
	for id, lives := range n.lives {
		for _, l := range lives {
			if l.ArrayJob != nil && l.ArrayTask != nil && *l.ArrayJob == array {
				tasks[int64(*l.ArrayTask)] = id
			}
		}
	}
	of := n.lives[array]
	return tasks, len(tasks) > 0 && (len(of) == 0 || isArray(of, array)), nil
}

// Load is the function Load for a job, or a task of an array, that was named.
func (n *Named) Load(ctx context.Context, set *rules.Set, jobID string, a Ask) (*view.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*topics.ReadTimeout)
	defer cancel()
	l, err := n.loader(set, jobID, a)
	if err != nil {
		return nil, err
	}
	return l.load(ctx)
}

// reader returns a reader for one job. It starts with the ends of topics that are known now.
func (n *Named) reader() *topics.Reader {
	if n.topic == nil {
		return nil
	}
	return n.topic.Anew()
}

// findings calls fn with the last record of each finding of a job in the topic.
func (n *Named) findings(ctx context.Context, jobID string, fn func(*schemas.Finding)) error {
	if n.found == nil {
		found := map[string][]schemas.Finding{}
		err := n.topic.Findings(ctx, "", func(f *schemas.Finding) {
			if n.ids[f.JobID] || n.lives[f.JobID] != nil {
				found[f.JobID] = append(found[f.JobID], *f)
			}
		})
		if err != nil {
			return err
		}
		n.found = found
	}
	for i := range n.found[jobID] {
		fn(&n.found[jobID][i])
	}
	return nil
}

// job returns the lives of the job that a name of SplitID means, and its ID. Nobody may know it.
func (n *Named) job(ctx context.Context, name string) (id string, mine lives, err error) {
	id, date, err := SplitID(name)
	if err == nil {
		err = n.records(ctx)
	}
	if err == nil {
		mine, err = n.lives[id].choose(id, date)
	}
	return id, mine, err
}

// Lives returns the lives of the job with a name for SplitID. It takes only lives between from and to; a zero time is
// no bound.
func (n *Named) Lives(ctx context.Context, name string, from, to time.Time) (l Lives, err error) {
	id, date, err := SplitID(name)
	if err == nil {
		err = n.records(ctx)
	}
	if err != nil {
		return l, err
	}
	l.all, l.dated = n.lives[id], date != ""
	l.mine, err = slices.DeleteFunc(slices.Clone(l.all), func(one life) bool {
		when := one.when()
		return !from.IsZero() && when.To <= from.UnixMilli() || !to.IsZero() && when.From >= to.UnixMilli()
	}).choose(id, date)
	return l, err
}

// LastRows is the function Job for a job, or a task of an array, that was named. Rows of its namesakes are left out.
func (n *Named) LastRows(ctx context.Context, name string, intervals int) (rows []schemas.Row, why string, err error) {
	id, mine, err := n.job(ctx, name)
	if err != nil {
		return nil, "", err
	}
	known, of := map[schemas.JobKey]*schemas.Job{}, Lives{mine: mine, all: n.lives[id]}
	for _, l := range mine {
		known[l.Identity()] = l.Job
	}
	records := func(context.Context) (map[schemas.JobKey]*schemas.Job, error) { return known, nil }
	rows, why, err = n.reader().NewestRows(ctx, id, intervals, records)
	return slices.DeleteFunc(rows, func(r schemas.Row) bool {
		return !of.Has(r.Restart, r.IntervalStart)
	}), why, err
}

// ArchivedRows returns rows of a life of a job in the archive, by interval and metric. They are the rows of the last n
// intervals before a.To and from a.From on, if these are set, or of all such intervals if n is 0. The error is
// ErrNoInterval if the archive contains no interval of the job.
func (n *Named) ArchivedRows(ctx context.Context, name string, a Ask, intervals int) ([]schemas.Row, error) {
	jobID, mine, err := n.job(ctx, name)
	if err != nil {
		return nil, err
	}
	restart := max(a.Restart, 0)
	var lives []archive.Life
	of := always
	for _, l := range mine {
		if a.Restart < 0 {
			restart = max(restart, l.Restart)
		}
		if l.Restart == restart {
			of = n.lives[jobID].span(l)
		}
		life := archive.Life{End: time.UnixMilli(*l.End)}
		if l.Start != nil {
			start := time.UnixMilli(*l.Start)
			life.Start = &start
		}
		lives = append(lives, life)
	}
	return archivedRows(ctx, schemas.JobKey{JobID: jobID, Restart: restart}, lives, of, a, intervals)
}
