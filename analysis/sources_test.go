package analysis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// TestTasksAreLoadedTogether: the records of jobs and findings are read once for all tasks of an array, which are in
// the archive or in the topic. Each task has what is its own.
func TestTasksAreLoadedTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 12))
	b := topicstest.NewBrokers(t, t.TempDir())
	d := &disk{dir: b.Config.Sink.Dir}
	array := "46"
	of := map[string]*measured{}
	for task := range int32(12) {
		m := measure(r, fmt.Sprint(46+task), 0, loadStart, 60_000, 20, "cpu_user")
		m.job.ArrayJob, m.job.ArrayTask = &array, &task
		if of[m.job.JobID] = &m; task%2 == 0 {
			d.jobs(t, m.job)
		} else {
			b.Put(t, schemas.TopicJobs, m.job.Identity().Key(), &m.job)
		}
		b.Summaries(t, m.summaries)
	}
	ask := Ask{Topic: true, Restart: -1}
	n, err := Open(t.Context(), b.Config, everybody, ask, array)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	tasks, whole, err := n.Tasks(t.Context(), array)
	if err != nil || !whole || len(tasks) != 12 || tasks[3] != "49" {
		t.Fatalf("%v, %v, %v", tasks, whole, err)
	}
	for _, id := range tasks {
		j, err := n.Load(t.Context(), ruleSetOf(t), id, ask)
		if err != nil {
			t.Fatal(err)
		}
		of[id].same(t, j, "cpu_user")
	}
	_, err = n.Load(t.Context(), nil, "none", ask)
	for _, place := range []string{n.cfg.Sink.Dir, "weir.jobs ", "weir.job-summary;"} {
		if !errors.Is(err, ErrNoJob) || !strings.Contains(err.Error(), place) {
			t.Errorf("%v: want %s", err, place)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.records(ended); err != nil {
		t.Errorf("records are read again: %v", err)
	}
	if err := n.foundInTopic(ended); err != nil {
		t.Errorf("findings are read again: %v", err)
	}
	if got := len(n.lives); got != 12 {
		t.Errorf("%d jobs are kept, want those of the array", got)
	}
}
