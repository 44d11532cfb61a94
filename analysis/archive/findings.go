package archive

import (
	"context"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"
)

// EachFinding calls fn with the final findings of one date to another, of one job, or of all jobs if job is empty. A
// finding is filed under the date of the job's last interval that a rule looked at. The job may have ended later.
func EachFinding(ctx context.Context, dir, from, to, job string, fn func(*schemas.Finding) error) error {
	choose := every
	if job != "" {
		choose = ofJob(job)
	}
	return each(ctx, dir, "findings", from, to, nil, choose, func(r *findings.Row) error {
		f := r.Finding()
		return fn(&f)
	})
}
