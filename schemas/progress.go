package schemas

// Progress records how far one partition is folded. The transaction of the outputs contains it.
type Progress struct {
	From             int64          `avro:"from"`
	Position         int64          `avro:"position"`
	Hold             int64          `avro:"hold"`
	Closed           *int64         `avro:"closed"`
	ClosedIntervalMs int64          `avro:"closed_interval_ms"`
	Dropped          *int64         `avro:"dropped"`
	Rejected         []int64        `avro:"rejected"`
	LostFrom         *int64         `avro:"lost_from"`
	LostTo           *int64         `avro:"lost_to"`
	Counts           ProgressCounts `avro:"counts"`
	Loads            []JobLoad      `avro:"loads"`
	TopicID          string         `avro:"topic_id"`
	Open             int64          `avro:"open"`
	Unreadable       int64          `avro:"unreadable"`
	UnreadableSince  int64          `avro:"unreadable_since"`
	Closing          *int64         `avro:"closing"`
	Stopped          string         `avro:"stopped"`
}

// JobLoad is the amount of data that a job sent to one partition of counters in an interval.
type JobLoad struct {
	JobID   string `avro:"job_id"`
	Restart int32  `avro:"restart"`
	Nodes   int32  `avro:"nodes"`
	Bytes   int64  `avro:"bytes"`
}

// ProgressCounts are the fates of a partition's records, from its beginning.
type ProgressCounts struct {
	Summarized int64 `avro:"summarized"`
	Rejected   int64 `avro:"rejected"`
	Late       int64 `avro:"late"`
	LateNodes  int64 `avro:"late_nodes"`
	Dropped    int64 `avro:"dropped"`
	Duplicate  int64 `avro:"duplicate"`
	Misrouted  int64 `avro:"misrouted"`
	Ended      int64 `avro:"ended"`
	Gaps       int64 `avro:"gaps"`
	Ticks      int64 `avro:"ticks"`
	Outputs    int64 `avro:"outputs"`
	Lost       int64 `avro:"lost"`
	ClockAhead int64 `avro:"clock_ahead"`
	Surplus    int64 `avro:"surplus"`
}

// Add adds the counts of b.
func (a *ProgressCounts) Add(b ProgressCounts) {
	a.Summarized += b.Summarized
	a.Rejected += b.Rejected
	a.Late += b.Late
	a.LateNodes += b.LateNodes
	a.Dropped += b.Dropped
	a.Duplicate += b.Duplicate
	a.Misrouted += b.Misrouted
	a.Ended += b.Ended
	a.Gaps += b.Gaps
	a.Ticks += b.Ticks
	a.Outputs += b.Outputs
	a.Lost += b.Lost
	a.ClockAhead += b.ClockAhead
	a.Surplus += b.Surplus
}
