package scheduler

import (
	"strconv"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// TestTimedJobsFollowEachOther: the epilog of a job may run after the prolog of the next on its CPUs. Both jobs are
// followed, and what really overlaps by the first source is still refused.
func TestTimedJobsFollowEachOther(t *testing.T) {
	whole := func(id string, start, end *int64) Job {
		return Job{Job: schemas.Job{JobID: id, Nodes: []string{"n1"}, Start: start, End: end}}
	}
	d := dropInBesideSlurm(t)
	for name, text := range map[string]string{
		"1.0.start": "start_ms=1010\n", "1.0.end": "end_ms=5100\n",
		"2.0.start": "start_ms=5050\n", "2.0.end": "end_ms=8750\n",
		"3.0.start": "start_ms=8100\n",
	} {
		d.drop(t, name, text)
	}
	d.scan(time.UnixMilli(9000))
	slurm := Fixed(whole("1", at(1000), at(5000)), whole("2", at(5000), at(8000)), whole("3", at(8000), nil),
		whole("4", at(9000), nil))
	jobs, faults := Ask(Timed(slurm, d), topology.Flat([]string{"n1"}), time.UnixMilli(9000))
	if len(jobs) != 3 || len(faults) != 1 || faults[0].JobID != "4" {
		t.Fatalf("jobs %v, faults %v: only job 4 shares the node with another", jobs, faults)
	}
	if *jobs[0].End != 5050 || *jobs[1].Start != 5050 || *jobs[1].End != 8100 || *jobs[2].Start != 8100 {
		t.Errorf("job 1 ends at %d, job 2 runs from %d to %d, job 3 starts at %d",
			*jobs[0].End, *jobs[1].Start, *jobs[1].End, *jobs[2].Start)
	}
	if again, _ := slurm.Jobs(time.Time{}); *again[0].End != 5000 {
		t.Error("the source's own jobs were changed")
	}
}

// TestTimedSlurmJobsFollowEachOther is the same with what Slurm says of jobs with parts of a node.
func TestTimedSlurmJobsFollowEachOther(t *testing.T) {
	s := newStory(t)
	held := &allocation{hostlist: "n1", count: 1, cpus: map[string][]int32{"n1": {0}}}
	s.book.allocations[schemas.JobKey{JobID: "1"}] = held
	s.book.update(epoch*1000+4000, parsed(t, row(1, 0, "RUNNING", 1, -1, 1, "n1")))
	s.book.allocations[schemas.JobKey{JobID: "5"}] = held
	s.book.update(epoch*1000+9000,
		parsed(t, row(1, 0, "COMPLETED", 1, 5, 1, "n1"), row(5, 0, "RUNNING", 5, -1, 1, "n1")))
	d := dropInBesideSlurm(t)
	ms := func(offset int64) string { return strconv.FormatInt(int64(epoch)*1000+offset, 10) + "\n" }
	d.drop(t, "1.0.start", "start_ms="+ms(1010))
	d.drop(t, "1.0.end", "end_ms="+ms(5100))
	d.drop(t, "5.0.start", "start_ms="+ms(5050))
	now := time.UnixMilli(epoch*1000 + 9000)
	d.scan(now)
	listed, _ := s.book.list()
	jobs, faults := Ask(Timed(Fixed(listed...), d), s.tree, now)
	if len(jobs) != 2 || len(faults) > 0 || Life(&jobs[1]).Start != epoch*1000+5050 {
		t.Errorf("jobs %+v, faults %v", jobs, faults)
	}
}
