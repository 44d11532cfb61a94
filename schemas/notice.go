package schemas

import (
	"strconv"

	"github.com/weirhpc/weir/naming"
)

// The record of notify: Notice.

// Channels of a Notice.
const (
	ChannelMail    = "MAIL"
	ChannelWebhook = "WEBHOOK"
	ChannelComment = "COMMENT" // in Slurm's accounting
)

// States of a Notice.
const (
	NoticeGathering = "GATHERING" // the tasks of an array cost too little yet
	NoticeWaiting   = "WAITING"   // for the time of its message, or for the next try
	NoticeSending   = "SENDING"   // written before the message goes
	NoticeSent      = "SENT"
	NoticeFailed    = "FAILED"  // nobody tries again
	NoticeSkipped   = "SKIPPED" // nobody tried
)

const maxHours = 1e12 // a machine's hours are fewer

// Notice is a message to the owner of a job, on one channel.
type Notice struct {
	Cluster         string  `avro:"cluster"`
	JobID           string  `avro:"job_id"`  // the array's number, if the job is a task of one
	Restart         int32   `avro:"restart"` // 0 of an array
	Channel         string  `avro:"channel"`
	State           string  `avro:"state"`
	Reason          string  `avro:"reason"`  // of FAILED and SKIPPED, and of the last try while it is WAITING
	Message         string  `avro:"message"` // id of the message; empty: not tried yet
	Tries           int32   `avro:"tries"`
	Created         int64   `avro:"created"`
	Changed         int64   `avro:"changed"`    // when the state began
	NotBefore       int64   `avro:"not_before"` // time of the next try
	User            string  `avro:"user"`
	Name            string  `avro:"name"` // the job's
	Rule            string  `avro:"rule"` // its id
	Title           string  `avro:"title"`
	Hint            string  `avro:"hint"`
	Slurm           string  `avro:"slurm"` // empty: no line to change
	Task            string  `avro:"task"`  // the job, or the task of the array, that the texts are of
	Tasks           int64   `avro:"tasks"` // that the hours are of
	Ended           int64   `avro:"ended"`
	WastedCoreHours float64 `avro:"wasted_core_hours"`
	WastedGPUHours  float64 `avro:"wasted_gpu_hours"`
	HeldCoreHours   float64 `avro:"held_core_hours"`
	HeldGPUHours    float64 `avro:"held_gpu_hours"`
	Last            string  `avro:"last"` // the task that was counted last
	LastCoreHours   float64 `avro:"last_core_hours"`
	LastGPUHours    float64 `avro:"last_gpu_hours"`
}

// Key is the key of a notice's records: job_id/restart/channel.
func (n *Notice) Key() []byte {
	b := append(append([]byte(n.JobID), '/'), strconv.Itoa(int(n.Restart))...)
	return append(append(b, '/'), n.Channel...)
}

// Validate implements Record.
func (n *Notice) Validate() error {
	if err := checkFoundJob(n.Cluster, n.JobID, n.Restart); err != nil {
		return err
	}
	switch {
	case n.Channel != ChannelMail && n.Channel != ChannelWebhook && n.Channel != ChannelComment:
		return invalid("channel", "%.80q is none", n.Channel)
	case n.State != NoticeGathering && n.State != NoticeWaiting && n.State != NoticeSending &&
		n.State != NoticeSent && n.State != NoticeFailed && n.State != NoticeSkipped:
		return invalid("state", "%.80q is none", n.State)
	case n.Tries < 0:
		return invalid("tries", "%d is negative", n.Tries)
	case n.Tasks < 1:
		return invalid("tasks", "%d is less than 1", n.Tasks)
	case !naming.Valid(n.Rule):
		return invalid("rule", "%.80q is not a name", n.Rule)
	case n.Message != "" && !naming.Valid(n.Message):
		return invalid("message", "%.80q is not a name", n.Message)
	}
	for _, id := range []struct{ field, id string }{{"task", n.Task}, {"last", n.Last}} {
		if !ValidJobID(id.id) {
			return invalid(id.field, "%.80q is not a job's name", id.id)
		}
	}
	for _, t := range []struct{ field, text string }{{"user", n.User}, {"name", n.Name}, {"reason", n.Reason}} {
		if !validText(t.text) {
			return invalid(t.field, "%.80q is not at most %d bytes of printable UTF-8", t.text, maxTextBytes)
		}
	}
	for _, t := range []struct{ field, text string }{{"title", n.Title}, {"hint", n.Hint}, {"slurm", n.Slurm}} {
		if len(t.text) > MaxFindingText || !isPrintable(t.text) {
			return invalid(t.field, "%.80q is not at most %d bytes of printable UTF-8", t.text, MaxFindingText)
		}
	}
	return n.validateNumbers()
}

func (n *Notice) validateNumbers() error {
	for _, t := range []struct {
		field string
		ms    int64
	}{{"created", n.Created}, {"changed", n.Changed}, {"not_before", n.NotBefore}, {"ended", n.Ended}} {
		if err := checkTime(t.field, t.ms); err != nil {
			return err
		}
	}
	for _, h := range []struct {
		field string
		hours float64
	}{
		{"wasted_core_hours", n.WastedCoreHours},
		{"wasted_gpu_hours", n.WastedGPUHours},
		{"held_core_hours", n.HeldCoreHours},
		{"held_gpu_hours", n.HeldGPUHours},
		{"last_core_hours", n.LastCoreHours},
		{"last_gpu_hours", n.LastGPUHours},
	} {
		if !(h.hours >= 0 && h.hours <= maxHours) { // NaN is none of it
			return invalid(h.field, "%g is not in 0 to %g", h.hours, float64(maxHours))
		}
	}
	return nil
}
