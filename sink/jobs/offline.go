package jobs

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// Write brings the jobs of an archive up to date with records of a topic that begins with them.
func Write(ctx context.Context, dir, topic, cluster string, records []schemas.Job) error {
	rows := map[key]Row{}
	for offset := range records {
		if r, over := rowOf(cluster, &records[offset], int64(offset)); over {
			rows[r.key()] = r
		}
	}
	s := store{dir: dir, topic: topic}
	bad, err := s.write(ctx, lockWait, "", rows)
	return errors.Join(err, errors.Join(slices.Collect(maps.Values(bad))...))
}
