package analysis

import (
	"testing"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/analysis/archive"
)

// TestLinesSayWhichJobsWereJudged: a job without a finding is well if it was measured and findings are made at all.
func TestLinesSayWhichJobsWereJudged(t *testing.T) {
	for _, finds := range []bool{false, true} {
		l := &lister{
			of: archive.Timeline[*view.JobLine]{}, found: map[*view.JobLine]bool{}, rules: map[string]bool{},
		}
		l.by, _ = orderOf("")
		for id, seen := range map[string]*float64{"calm": new(1.0), "well": new(0.9), "waits": nil} {
			l.line("c", &schemas.Job{JobID: id})
			l.all[len(l.all)-1].Seen = seen
		}
		if finds { // that of a job of somebody else tells that rules look at jobs
			l.finding(&schemas.Finding{JobID: "another", Rule: "r", State: schemas.FindingOpen})
		}
		for _, line := range l.lists().Rows {
			if want := finds && line.JobID != "waits"; line.Judged != want {
				t.Errorf("findings %t: job %s is judged: %t", finds, line.JobID, line.Judged)
			}
		}
	}
}
