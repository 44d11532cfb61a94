package scheduler

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
)

// The limits of a job are not needed to follow it. So a limit that cannot be read counts as unknown.

// Bounds far above any job. Records have higher ones.
const (
	maxJobCores     = 1 << 32
	maxJobGpus      = 1 << 28
	maxLimitSeconds = 1 << 31
	maxNodeMemory   = 1 << 56
)

// slurmYear is Slurm's limit for a job in a partition without one.
const slurmYear = 365 * 24 * 3600

// atMost returns n, or nil if it is not in 0 to most.
func atMost(n, most int64) *int64 {
	if n < 0 || n > most {
		return nil
	}
	return &n
}

// slurmLimit reads a time limit such as 1-02:30:00, 2:30:00 or 10:00. It is nil if there is none.
func slurmLimit(text string) *int64 {
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	fields := strings.Split(days+":"+clock, ":")
	units := []int64{24 * 3600, 3600, 60, 1}
	if len(fields) == 3 && !hasDays { // minutes and seconds
		units = []int64{24 * 3600, 60, 1}
	}
	if len(fields) != len(units) {
		return nil
	}
	sum := int64(0)
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 10, 20)
		if err != nil {
			return nil
		}
		sum += int64(n) * units[i]
	}
	if sum == slurmYear {
		return nil
	}
	return atMost(sum, maxLimitSeconds)
}

// slurmTRES reads the resources of a job, such as cpu=3,mem=6000M,node=3,gres/gpu=4,gres/gpu:a100=4. It returns the
// total number of GPUs, and the memory on each node.
func slurmTRES(text string) (gpus *int32, memory *int64) {
	nodes, all := int64(0), (*int64)(nil)
	for item := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(item, "=")
		switch name {
		case "gres/gpu":
			if n, err := strconv.ParseUint(value, 10, 31); err == nil && n <= maxJobGpus {
				gpus = new(int32(n))
			}
		case "node":
			if n, err := strconv.ParseUint(value, 10, 31); err == nil {
				nodes = int64(n)
			}
		case "mem":
			all = slurmMemory(value)
		}
	}
	if all != nil && nodes > 0 {
		memory = atMost(*all/nodes, maxNodeMemory)
	}
	return gpus, memory
}

// slurmMemory reads an amount of memory such as 6000M or 1.50T, in bytes. Without a unit it is in MiB.
func slurmMemory(text string) *int64 {
	unit := float64(1 << 20)
	if n := len(text); n > 0 {
		if at := strings.IndexByte("KMGTP", text[n-1]); at >= 0 {
			unit, text = float64(int64(1)<<(10*(at+1))), text[:n-1]
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n*unit > 1<<62 {
		return nil
	}
	return new(int64(n * unit))
}

// slurmArray returns the array that a job is a task of, and the task's number. For other jobs Slurm reports their own
// number and N/A.
func slurmArray(job, task string) (array *string, number *int32) {
	id, err := strconv.ParseUint(job, 10, 64)
	n, bad := strconv.ParseUint(task, 10, 31)
	if err != nil || bad != nil || strconv.FormatUint(id, 10) != job {
		return nil, nil
	}
	return &job, new(int32(n))
}

// slurmEnd returns the outcome of a job. While the job is completing, Slurm does not report it yet.
func slurmEnd(state string) string {
	switch state {
	case "FAILED", "NODE_FAIL", "BOOT_FAIL":
		return schemas.StateFailed
	case "TIMEOUT", "DEADLINE":
		return schemas.StateTimeout
	case "OUT_OF_MEMORY":
		return schemas.StateOutOfMemory
	case "CANCELLED", "PREEMPTED":
		return schemas.StateCancelled
	}
	return schemas.StateCompleted
}

// setLimit sets a field of a job other than its nodes and times, from a file. It reports whether it knows the key. An
// empty value stands for unknown.
func setLimit(j *schemas.Job, key, value string) (known bool, err error) {
	number := func(most int64) *int64 {
		n, bad := strconv.ParseInt(value, 10, 64)
		if value == "" {
			return nil
		}
		if bad != nil || n < 0 || n > most {
			err = fmt.Errorf("not a whole number from 0 to %d", most)
		}
		return &n
	}
	switch key {
	case "cores":
		j.Cores = number(maxJobCores)
	case "gpus":
		if n := number(maxJobGpus); n != nil {
			j.Gpus = new(int32(*n))
		}
	case "time_limit_s":
		j.TimeLimitS = number(maxLimitSeconds)
	case "mem_requested_bytes":
		j.MemRequestedBytes = number(maxNodeMemory)
	case "array_job":
		if value != "" && !naming.Valid(value) {
			return true, errors.New("not the number of a job")
		}
		if value != "" {
			j.ArrayJob = &value
		}
	case "array_task":
		if n := number(math.MaxInt32); n != nil {
			j.ArrayTask = new(int32(*n))
		}
	case "exclusive":
		switch value {
		case "true", "false":
			j.Exclusive = new(value == "true")
		case "":
		default:
			err = errors.New("neither true nor false")
		}
	case "state":
		if j.State = value; value != "" && !schemas.Over(value) {
			err = fmt.Errorf("not how a job ends: %s, %s, %s, %s or %s", schemas.StateCompleted, schemas.StateFailed,
				schemas.StateTimeout, schemas.StateOutOfMemory, schemas.StateCancelled)
		}
	default:
		return false, nil
	}
	return true, err
}
