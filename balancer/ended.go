package balancer

import (
	"hash/maphash"
	"math"
	"strconv"

	"github.com/weirhpc/weir/schemas"
)

// ended contains the ended jobs that still have a record on the topic. There may be millions, so each takes a few
// bytes. Nearly all ids are numbers, and the garbage collector need not scan a map of numbers.
type ended struct {
	seed    maphash.Seed
	numbers map[uint64]endedJob // by number and restart
	others  map[schemas.JobKey]endedJob
}

// endedJob is the time since which a job is known to be over, in Unix seconds, and the hash of its record. An equal
// record need not be written again.
type endedJob struct {
	since uint32
	sum   [2]uint32
}

func newEnded() *ended {
	return &ended{maphash.MakeSeed(), map[uint64]endedJob{}, map[schemas.JobKey]endedJob{}}
}

const restartBits = 24

// packed returns a key as one number. It returns false if the id is not a number, as with most schedulers but Slurm.
func packed(key schemas.JobKey) (uint64, bool) {
	n, err := strconv.ParseUint(key.JobID, 10, 64-restartBits)
	fits := err == nil && strconv.FormatUint(n, 10) == key.JobID && key.Restart >= 0 && key.Restart < 1<<restartBits
	return n<<restartBits | uint64(uint32(key.Restart)), fits
}

func unpacked(n uint64) schemas.JobKey {
	return schemas.JobKey{
		JobID: strconv.FormatUint(n>>restartBits, 10), Restart: int32(n & (1<<restartBits - 1)),
	}
}

func (e *ended) sum(value []byte) [2]uint32 {
	s := maphash.Bytes(e.seed, value)
	return [2]uint32{uint32(s >> 32), uint32(s)}
}

// add notes an ended job and its record.
func (e *ended) add(key schemas.JobKey, sinceMs int64, value []byte) {
	j := endedJob{uint32(min(max(sinceMs/1000, 0), math.MaxUint32)), e.sum(value)}
	if n, is := packed(key); is {
		e.numbers[n] = j
	} else {
		e.others[key] = j
	}
}

// take forgets a job. It reports whether the job's record equals this value.
func (e *ended) take(key schemas.JobKey, value []byte) (same bool) {
	var j endedJob
	var was bool
	if n, is := packed(key); is {
		j, was = e.numbers[n]
		delete(e.numbers, n)
	} else {
		j, was = e.others[key]
		delete(e.others, key)
	}
	return was && j.sum == e.sum(value)
}

// before returns jobs that were known to be over before a time, up to a number.
func (e *ended) before(ms int64, most int) (keys []schemas.JobKey) {
	for n, j := range e.numbers {
		if int64(j.since)*1000 < ms && len(keys) < most {
			keys = append(keys, unpacked(n))
		}
	}
	for key, j := range e.others {
		if int64(j.since)*1000 < ms && len(keys) < most {
			keys = append(keys, key)
		}
	}
	return keys
}
