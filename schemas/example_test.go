package schemas_test

import (
	"errors"
	"fmt"

	"github.com/weirhpc/weir/schemas"
)

// A consumer of job-summary decodes the values of its records. The bytes name their schema, so no registry is asked.
func ExampleUnmarshal() {
	value, err := schemas.MarshalChecked(&schemas.JobSummary{
		Cluster: "cluster", JobID: "4711", IntervalStart: 1_700_000_010_000, IntervalMs: 10_000,
		Method: schemas.MethodExact,
		Parts:  1, PartsReported: 1, NodesExpected: 2, NodesReported: 2,
		Metrics: []schemas.JobSummaryMetric{{
			Name: "cpu_user", Unit: "1", Scope: schemas.ScopeCore, Count: 8, Nodes: 2, Mean: new(0.75),
			Deciles: &[]float64{0, 0, 0.5, 0.5, 1, 1, 1, 1, 1, 1, 1},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	record, err := schemas.Unmarshal(value)
	switch r := record.(type) {
	case *schemas.JobSummary:
		for _, row := range r.Rows() { // as the archive has them
			fmt.Printf("job %s: %s has mean %v and median %v\n", row.JobID, *row.Metric, *row.Mean, *row.D5)
		}
	default:
		fmt.Println("another record, or", err)
	}
	// Output: job 4711: cpu_user has mean 0.75 and median 1
}

// A producer checks what it sends: what Unmarshal would refuse is an error that names the field.
func ExampleMarshalChecked() {
	_, err := schemas.MarshalChecked(&schemas.Gap{Node: "n/17", Records: 12, Reason: "ring full"})
	fmt.Println(errors.Is(err, schemas.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// weir.v1.Gap: invalid record: node: "n/17" is not a host's name
}
