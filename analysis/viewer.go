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

// May reports whether the viewer may see a job, as the scheduler recorded one of its lives. Every query passes it for
// every life before it makes a sum, since a job number may pass to another user. A life without an owner is seen by a
// viewer of all jobs alone.
func (v Viewer) May(j *schemas.Job) bool {
	switch {
	case v.All:
		return true
	case j == nil || j.User == "":
		return false
	}
	return j.User == v.User || j.Account != "" && slices.Contains(v.Accounts, j.Account)
}
