package balancer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/schemas"
)

// fileJobID is the job_id of the record that says what is wrong with the lists of jobs as a whole, of whatever source.
const fileJobID = "_jobs-file"

// jobRecord is one record of topic jobs: the job, and the bytes that are there. A job that shall go has no bytes.
type jobRecord struct {
	job   schemas.Job
	value []byte
}

// maxReasonBytes bounds the reason in a record of a job.
const maxReasonBytes = 1000

// newJobRecord makes a record that its readers take. Where the nodes do not fit, it goes without them, and Reason has it. A job that fits no
// record at all has no value.
func newJobRecord(j schemas.Job) jobRecord {
	for text, most := range map[*string]int{&j.Name: maxTextBytes, &j.User: maxTextBytes, &j.Account: maxTextBytes, &j.Queue: maxTextBytes, &j.Reason: maxReasonBytes} {
		*text = schemas.CleanText(*text, most)
	}
	value, err := schemas.MarshalChecked(&j)
	if err != nil {
		short := j
		short.Nodes, short.Cpus = nil, nil
		short.Reason = schemas.CleanText(fmt.Sprintf("its %d nodes are not shown: %v; %s", len(j.Nodes), err, j.Reason), maxReasonBytes)
		value, _ = schemas.MarshalChecked(&short) // nil after an error
	}
	return jobRecord{j, value}
}

// maxTextBytes bounds every other text of a job. The sources keep theirs shorter.
const maxTextBytes = 256

// jobRecords returns what topic jobs should hold: every job, with the reason where it is not followed as it was given, and a SKIPPED
// one for every other fault. A fault whose id cannot be that of a record, or is that of another one, is called _fault-1,
// _fault-2 and so on.
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
		add(j.Job)
	}
	unnamed := 0
	for _, f := range faults {
		if f.Followed {
			continue
		}
		j := schemas.Job{JobID: f.JobID, Restart: max(0, f.Restart), State: schemas.StateSkipped, Reason: f.Reason}
		if f.JobID == "" {
			j.JobID = fileJobID
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

// jobChanges returns the records that bring topic jobs from what is there to what should be, sorted by key. A job that its
// source does not name any more is over, though nobody said when: COMPLETED. A fault that is gone, or a job that never
// ran, leaves nothing: its record goes. Nothing is concluded from absence while the list of jobs as a whole is in doubt.
func jobChanges(there, want map[schemas.JobKey]jobRecord) []jobRecord {
	var changes []jobRecord
	for key, r := range want {
		if !bytes.Equal(there[key].value, r.value) {
			changes = append(changes, r)
		}
	}
	_, doubtful := want[schemas.JobKey{JobID: fileJobID}]
	for key, r := range there {
		if _, stays := want[key]; stays || r.job.State == schemas.StateCompleted {
			continue
		}
		if r.job.State == schemas.StateSkipped || r.job.State == schemas.StatePending {
			r.value = nil
		} else {
			j := r.job
			j.State = schemas.StateCompleted
			r = newJobRecord(j)
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

// applyJobs notes changes that were written. Of completed jobs that the source has forgotten, which it returns, no more
// than the key need be remembered.
func applyJobs(there, want map[schemas.JobKey]jobRecord, changes []jobRecord) (over []schemas.JobKey) {
	for _, r := range changes {
		if r.value == nil {
			delete(there, r.job.Identity())
		} else {
			there[r.job.Identity()] = r
		}
	}
	for key, r := range there {
		if _, wanted := want[key]; !wanted && r.job.State == schemas.StateCompleted {
			over = append(over, key)
			delete(there, key)
		}
	}
	return over
}
