package balancer

import "github.com/weirhpc/weir/schemas"

// holdOf returns what the job holds of one of its nodes; false where it is nothing, as while it is suspended.
func holdOf(j *schemas.Job, node string) (schemas.Hold, bool) {
	if j.Held == nil {
		return schemas.Hold{Cpus: j.Cpus}, true
	}
	h, ok := j.Held[node]
	return h, ok
}

// heldSince returns the job with those nodes alone that it holds from a time on or longer.
func heldSince(j schemas.Job, start int64) schemas.Job {
	if j.Held == nil {
		return j
	}
	var nodes []string
	for _, n := range j.Nodes {
		if h, ok := j.Held[n]; ok && h.Since <= start {
			nodes = append(nodes, n)
		}
	}
	j.Nodes = nodes
	return j
}
