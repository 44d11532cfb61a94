package balancer

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/schemas"
)

// jobRecord is one record of topic jobs: the job and its encoding. A tombstone is a job without an encoding.
type jobRecord struct {
	job   schemas.Job
	value []byte
}

// maxReasonBytes bounds the reason in a record of a job.
const maxReasonBytes = 1000

// newJobRecord makes a record that its readers accept. If the nodes do not fit, it leaves them out, and Reason notes
// it. A job that fits no record at all gets no value.
func newJobRecord(j schemas.Job) jobRecord {
	for _, text := range []*string{&j.Name, &j.User, &j.Account, &j.Queue} {
		*text = schemas.CleanText(*text, maxTextBytes)
	}
	j.Reason = schemas.CleanText(j.Reason, maxReasonBytes)
	value, err := schemas.MarshalChecked(&j)
	if err != nil {
		short := j
		short.Nodes, short.Cpus = nil, nil
		reason := fmt.Sprintf("its %d nodes are not shown: %v; %s", len(j.Nodes), err, j.Reason)
		short.Reason = schemas.CleanText(reason, maxReasonBytes)
		value, _ = schemas.MarshalChecked(&short) // nil after an error
	}
	return jobRecord{j, value}
}

// maxTextBytes bounds every other text of a job. The sources keep theirs shorter.
const maxTextBytes = 256

// jobRecords returns the records that topic jobs should contain. Every job gets a record, with the reason if it is not
// followed as it was given. Every other fault gets a SKIPPED record. Its id is _fault-1, _fault-2 and so on if its own
// is invalid or belongs to another record.
func jobRecords(jobs []scheduler.Job, faults []scheduler.Fault) map[schemas.JobKey]jobRecord {
	want := make(map[schemas.JobKey]jobRecord, len(jobs)+len(faults))
	add := func(j schemas.Job) {
		if r := newJobRecord(j); r.value != nil {
			want[j.Identity()] = r
		}
	}
	doubts := map[schemas.JobKey]string{}
	for _, f := range faults {
		if f.Followed {
			doubts[schemas.JobKey{JobID: f.JobID, Restart: f.Restart}] = f.Reason
		}
	}
	for _, j := range jobs {
		j.Reason = doubts[j.Identity()]
		if j.Cores == nil && j.Held == nil && len(j.Cpus) > 0 {
			j.Cores = new(int64(len(j.Cpus)) * int64(len(j.Nodes)))
		}
		if j.Gpus == nil && len(j.GPUs) > 0 {
			n := 0
			for _, node := range j.Nodes {
				n += len(j.GPUsOn(node))
			}
			j.Gpus = new(int32(min(n, math.MaxInt32)))
		}
		add(j.Job)
	}
	unnamed := 0
	for _, f := range faults {
		if f.Followed {
			continue
		}
		j := schemas.Job{JobID: f.JobID, Restart: max(0, f.Restart), State: schemas.StateSkipped, Reason: f.Reason}
		if f.JobID == "" {
			j.JobID = schemas.JobOfLists
			if first, several := want[j.Identity()]; several {
				j.Reason = first.job.Reason + "; " + j.Reason
			}
		} else if _, taken := want[j.Identity()]; taken || !schemas.ValidJobID(j.JobID) {
			unnamed++
			j.JobID, j.Restart = fmt.Sprintf("_fault-%d", unnamed), 0
		}
		add(j)
	}
	return want
}

// jobChanges returns the records that turn the present contents of topic jobs into the wanted ones, sorted by key. A
// job that its source no longer names becomes COMPLETED, and ends at nowMs unless its end is known. The record of a
// fault that is gone, or of a job that never ran, is deleted. Nothing is concluded from absence while the list of jobs
// as a whole is in doubt.
func jobChanges(nowMs int64, there, want map[schemas.JobKey]jobRecord) []jobRecord {
	var changes []jobRecord
	for key, r := range want {
		if !bytes.Equal(there[key].value, r.value) {
			changes = append(changes, r)
		}
	}
	_, doubtful := want[schemas.JobKey{JobID: schemas.JobOfLists}]
	for key, r := range there {
		if _, stays := want[key]; stays || schemas.Over(r.job.State) {
			continue
		}
		if r.job.State == schemas.StateSkipped || r.job.State == schemas.StatePending {
			r.value = nil
		} else {
			r = newJobRecord(unlisted(r.job, nowMs))
		}
		if !doubtful || r.job.State == schemas.StateSkipped {
			changes = append(changes, r)
		}
	}
	slices.SortFunc(changes, func(a, b jobRecord) int {
		return cmp.Or(cmp.Compare(a.job.JobID, b.job.JobID), cmp.Compare(a.job.Restart, b.job.Restart))
	})
	return changes
}

// unlisted returns a job as it is once its source no longer names it.
func unlisted(j schemas.Job, nowMs int64) schemas.Job {
	j.State = schemas.StateCompleted
	if j.End == nil || *j.End > nowMs {
		end := nowMs
		if j.Start != nil {
			end = max(end, *j.Start)
		}
		j.End, j.Reason = &end, strings.TrimPrefix(j.Reason+"; "+schemas.ReasonUnlisted, "; ")
	}
	return j
}

// applyJobs notes changes that were written. It drops and returns the completed jobs that the source no longer names.
func applyJobs(there, want map[schemas.JobKey]jobRecord, changes []jobRecord) (over []jobRecord) {
	for _, r := range changes {
		if r.value == nil {
			delete(there, r.job.Identity())
		} else {
			there[r.job.Identity()] = r
		}
	}
	for key, r := range there {
		if _, wanted := want[key]; !wanted && schemas.Over(r.job.State) {
			over = append(over, r)
			delete(there, key)
		}
	}
	return over
}
