package archive

import (
	"context"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// EachNodeHour calls fn with the rows of a job's life in table nodes, from one date to another. Rows of the same hour
// add up. It takes the lock of the archive.
func EachNodeHour(ctx context.Context, dir, from, to string, key schemas.JobKey, fn func(*sink.NodeHour) error) error {
	return each(ctx, dir, "nodes", from, to, nil, ofJob(key.JobID), func(r *sink.NodeHour) error {
		if r.Restart != key.Restart {
			return nil
		}
		return fn(r)
	})
}
