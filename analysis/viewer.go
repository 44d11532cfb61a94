package analysis

import (
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// Viewer is a person who asks about jobs. The zero Viewer sees no job.
type Viewer struct {
	User     string   // owns jobs
	Accounts []string // which this user leads, and whose jobs this user sees
	All      bool     // support, or anybody who may read the archive: every job, and also nodes and the whole machine
}

// lateMs is the time by which intervals may lie behind an end that the scheduler reported late.
const lateMs = 600_000

// May reports whether the viewer may see a job, as the scheduler recorded one of its lives. Every query passes it for
// every life before it makes a sum, since a job number may pass to another user. A life without an owner is seen by a
// viewer of all jobs alone.
func (v Viewer) May(j *schemas.Job) bool {
	switch {
	case v.All:
		return true
	case j == nil || j.User == "" || isPseudo(j.JobID):
		return false
	}
	return j.User == v.User || j.Account != "" && slices.Contains(v.Accounts, j.Account)
}

// MayAt reports whether the viewer may see a measurement that was made at a time, in Unix milliseconds, under the
// number and restart of a job's life. Measurements carry no user, and a namesake without a record may have made earlier
// or later ones.
func (v Viewer) MayAt(j *schemas.Job, ms int64) bool {
	return v.All || v.May(j) && v.bounds(j).has(ms)
}

// bounds returns the time in which measurements of a life lie, unless a namesake bounds it.
func (v Viewer) bounds(j *schemas.Job) span {
	s := always
	switch {
	case v.All:
		return s
	case life{Job: j}.started():
		s.from = *j.Start
	case j.Submit != nil && *j.Submit > 0:
		s.from = *j.Submit
	}
	if schemas.Over(j.State) && j.End != nil {
		s.to = *j.End + lateMs
	}
	return s
}
