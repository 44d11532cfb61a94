package notify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

const (
	minuteMs = 60_000
	dayMs    = 24 * hourMs
	// settleMs is how long a notice waits for findings of its job that cost more.
	settleMs = 5_000
	// keptMs is how long a notice is kept. It exceeds the longest notify.rule_every.
	keptMs = 40 * dayMs
	// mostTries bounds the tries of a message.
	mostTries = 5
	// digestHour is the hour of Monday, in UTC, at which digests go.
	digestHour = 7
	// maxTextBytes bounds texts that users chose, in a notice.
	maxTextBytes = 200
)

// book holds the notices of topic notices, and decides about new ones. It knows no broker and no clock.
type book struct {
	cluster  string
	cfg      config.Notify
	channels []string
	machine  Machine
	allowed  func(user string) bool // by notify.opt_out and notify.opt_in

	of       map[string]*schemas.Notice // by key
	waiting  map[string]*schemas.Notice // those of them that wait
	reserved map[topic]int              // waiting notices
	told     map[topic]int64            // when a message about it was sent last
	sends    map[string][]send          // by channel: those of the last minute
	users    map[string][]send          // by channel and user: first tries of the last day
	nowMs    int64                      // of the last call
}

// topic is a rule that a user hears about.
type topic struct{ channel, user, rule string }

// send is a try to send a message.
type send struct {
	message string
	try     int32
	atMs    int64
}

func newBook(cluster string, cfg config.Notify, machine Machine, channels []string, allowed func(string) bool) *book {
	return &book{
		cluster: cluster, cfg: cfg, channels: channels, machine: machine, allowed: allowed,
		of: map[string]*schemas.Notice{}, waiting: map[string]*schemas.Notice{}, reserved: map[topic]int{},
		told: map[topic]int64{}, sends: map[string][]send{}, users: map[string][]send{},
	}
}

func topicOf(n *schemas.Notice) topic { return topic{n.Channel, n.User, n.Rule} }

// put keeps a notice in place of an older one of its key.
func (b *book) put(n *schemas.Notice) {
	key := string(n.Key())
	if old := b.waiting[key]; old != nil {
		b.reserved[topicOf(old)]--
		delete(b.waiting, key)
	}
	b.of[key] = n
	if n.State == schemas.NoticeWaiting {
		b.waiting[key] = n
		b.reserved[topicOf(n)]++
	} else if n.Tries > 0 {
		b.told[topicOf(n)] = max(b.told[topicOf(n)], n.Changed)
	}
	if n.Tries > 0 && b.nowMs-n.Changed < dayMs {
		s := send{n.Message, n.Tries, n.Changed}
		if b.nowMs-n.Changed < minuteMs {
			b.sends[n.Channel] = noted(b.sends[n.Channel], s)
		}
		s.try = 0 // tries of one message count once for its user
		user := n.Channel + "/" + n.User
		b.users[user] = noted(b.users[user], s)
	}
}

// noted adds a try, unless another notice of its message did.
func noted(all []send, s send) []send {
	if slices.ContainsFunc(all, func(o send) bool { return o.message == s.message && o.try == s.try }) {
		return all
	}
	return append(all, s)
}

// since drops the tries before a time.
func since(all []send, ms int64) []send {
	return slices.DeleteFunc(all, func(s send) bool { return s.atMs <= ms })
}

// decide takes a final finding and its job, which is nil if topic jobs does not have it. It returns the notices that
// change. Findings of one job may come one by one: the one that costs most wins, while its notice waits.
func (b *book) decide(f *schemas.Finding, j *job, nowMs int64) (changed []*schemas.Notice) {
	b.nowMs = nowMs
	if !worth(f) || j == nil || j.user == "" {
		return nil
	}
	if j.endMs == 0 {
		at := *j
		at.endMs, j = f.AsOf+f.IntervalMs, &at
	}
	if nowMs-j.endMs > dayMs || !b.allowed(j.user) {
		return nil
	}
	lost := b.machine.waste(f, j)
	if lost.cores == 0 && lost.gpus == 0 {
		return nil
	}
	for _, channel := range b.channels {
		n := b.noticeOf(f, j, lost, channel, nowMs)
		old := b.of[string(n.Key())]
		switch {
		case old == nil:
		case old.Tries > 0 || old.State != schemas.NoticeGathering && old.State != schemas.NoticeWaiting:
			continue
		default:
			if n = b.merged(old, n); n == nil {
				continue
			}
		}
		n.State = schemas.NoticeGathering
		if b.cost(n.WastedCoreHours, n.WastedGPUHours) >= 1 {
			n.State = schemas.NoticeWaiting
		}
		if n.State == schemas.NoticeGathering && j.array == "" || old == nil && b.hears(n, nowMs) {
			continue
		}
		b.put(n)
		changed = append(changed, n)
	}
	return changed
}

// worth reports whether a finding may be worth a message, whatever it costs.
func worth(f *schemas.Finding) bool {
	return f.Final && f.State == schemas.FindingOpen && f.Certainty == schemas.Certain && f.Class == schemas.ClassHigh
}

// cost compares a waste with the thresholds: from 1 on it is worth a message.
func (b *book) cost(cores, gpus float64) float64 {
	return max(cores/b.cfg.MinCoreHours, gpus/b.cfg.MinGPUHours)
}

// hears reports whether a user hears of the rule already, or did within rule_every. A digest lists each rule once, and
// a comment disturbs nobody.
func (b *book) hears(n *schemas.Notice, nowMs int64) bool {
	if b.digests(n.Channel) || n.Channel == schemas.ChannelComment {
		return false
	}
	return b.reserved[topicOf(n)] > 0 || b.toldLately(n, nowMs)
}

func (b *book) toldLately(n *schemas.Notice, nowMs int64) bool {
	at, told := b.told[topicOf(n)]
	return told && nowMs-at < b.cfg.RuleEvery.Milliseconds()
}

func (b *book) digests(channel string) bool {
	return b.cfg.Digest == config.WeeklyDigest && channel != schemas.ChannelComment
}

// noticeOf returns a new notice about a finding. All tasks of an array have one.
func (b *book) noticeOf(f *schemas.Finding, j *job, l loss, channel string, nowMs int64) *schemas.Notice {
	n := &schemas.Notice{
		Cluster: b.cluster, JobID: f.JobID, Restart: f.Restart, Channel: channel, Created: nowMs, Changed: nowMs,
		User: schemas.CleanText(j.user, maxTextBytes), Name: schemas.CleanText(j.name, maxTextBytes),
		Rule: f.Rule, Title: f.Title, Hint: f.Hint, Slurm: f.Slurm, Task: f.JobID, Tasks: 1, Ended: j.endMs,
		WastedCoreHours: l.cores, WastedGPUHours: l.gpus, HeldCoreHours: l.heldCores, HeldGPUHours: l.heldGPUs,
		Last: f.JobID, LastCoreHours: l.cores, LastGPUHours: l.gpus,
	}
	if j.array != "" {
		n.JobID, n.Restart, n.Task, n.Last = j.array, 0, j.task, j.task
	}
	return n
}

// merged adds a finding to a notice: one of the same task counts if it costs more, one of another task of the array is
// added. It returns nil if nothing changes.
func (b *book) merged(old, add *schemas.Notice) *schemas.Notice {
	sum := *old
	sum.Changed = add.Changed
	if add.Task != old.Last {
		sum.Tasks++
		sum.Ended = max(old.Ended, add.Ended)
		sum.WastedCoreHours += add.WastedCoreHours
		sum.WastedGPUHours += add.WastedGPUHours
		sum.HeldCoreHours += add.HeldCoreHours
		sum.HeldGPUHours += add.HeldGPUHours
		sum.Last, sum.LastCoreHours, sum.LastGPUHours = add.Last, add.LastCoreHours, add.LastGPUHours
		return &sum
	}
	if b.cost(add.LastCoreHours, add.LastGPUHours) <= b.cost(old.LastCoreHours, old.LastGPUHours) {
		return nil
	}
	sum.WastedCoreHours += add.LastCoreHours - old.LastCoreHours
	sum.WastedGPUHours += add.LastGPUHours - old.LastGPUHours
	sum.WastedCoreHours, sum.WastedGPUHours = max(0, sum.WastedCoreHours), max(0, sum.WastedGPUHours)
	sum.LastCoreHours, sum.LastGPUHours = add.LastCoreHours, add.LastGPUHours
	if old.Task == add.Task {
		sum.Rule, sum.Title, sum.Hint, sum.Slurm = add.Rule, add.Title, add.Hint, add.Slurm
	}
	return &sum
}

// message is a message that is due, with its notices: one, or those of a digest.
type message struct {
	id, channel, user string
	notices           []*schemas.Notice
}

// due returns the messages that go now, and all notices that change: those of the messages are SENDING, others are
// skipped. The caller commits the changes before it sends anything.
func (b *book) due(nowMs int64) (ready []message, changed []*schemas.Notice) {
	b.nowMs = nowMs
	groups := map[string]*message{}
	var order []*message
	for _, n := range sorted(b.waiting, func(n *schemas.Notice) bool { return nowMs >= b.dueMs(n) }) {
		reason := ""
		switch {
		case n.Tries > 0: // it goes on
		case !b.allowed(n.User):
			reason = "the user wants none"
		case nowMs-b.dueMs(n) > dayMs:
			reason = "it waited for a day"
		case !b.digests(n.Channel) && n.Channel != schemas.ChannelComment && b.toldLately(n, nowMs):
			reason = "the user heard of the rule lately"
		}
		if reason != "" {
			changed = append(changed, b.turn(n, schemas.NoticeSkipped, reason, nowMs))
			continue
		}
		if b.isFull(n.Channel, nowMs) {
			continue
		}
		key := string(n.Key())
		if n.Message != "" {
			key = "again/" + n.Message
		} else if b.digests(n.Channel) {
			key = "digest/" + n.Channel + "/" + n.User
		}
		if groups[key] == nil {
			groups[key] = &message{id: n.Message, channel: n.Channel, user: n.User}
			order = append(order, groups[key])
		}
		groups[key].notices = append(groups[key].notices, n)
	}
	for _, m := range order {
		if !b.within(m, nowMs) {
			continue
		}
		m.begin(b, nowMs)
		changed = append(changed, m.notices...)
		ready = append(ready, *m)
	}
	return ready, changed
}

// begin makes the notices of a message SENDING. Its id follows from the notices.
func (m *message) begin(b *book, nowMs int64) {
	if m.id == "" {
		h := sha256.New()
		h.Write([]byte(b.cluster))
		for _, n := range m.notices {
			h.Write(n.Key())
			h.Write(strconv.AppendInt([]byte{' '}, n.Created, 10))
		}
		m.id = hex.EncodeToString(h.Sum(nil)[:8])
	}
	for i, n := range m.notices {
		next := *n
		next.Tries, next.Message = n.Tries+1, m.id
		m.notices[i] = b.turn(&next, schemas.NoticeSending, "", nowMs)
	}
}

// within reports whether the limits of its channel and of its user let a message go. Another try of a message counts
// for the channel alone.
func (b *book) within(m *message, nowMs int64) bool {
	if b.isFull(m.channel, nowMs) {
		return false
	}
	user := m.channel + "/" + m.user
	b.users[user] = since(b.users[user], nowMs-dayMs)
	return m.channel == schemas.ChannelComment || m.id != "" || len(b.users[user]) < b.cfg.UserPerDay
}

func (b *book) isFull(channel string, nowMs int64) bool {
	if len(b.sends[channel]) < b.cfg.PerMinute {
		return false
	}
	b.sends[channel] = since(b.sends[channel], nowMs-minuteMs)
	return len(b.sends[channel]) >= b.cfg.PerMinute
}

// turn gives a copy of a notice another state.
func (b *book) turn(n *schemas.Notice, state, reason string, nowMs int64) *schemas.Notice {
	next := *n
	next.State, next.Changed, next.Reason = state, nowMs, schemas.CleanText(reason, maxTextBytes)
	b.put(&next)
	return &next
}

// dueMs returns the time at which a notice may go.
func (b *book) dueMs(n *schemas.Notice) int64 {
	if !b.digests(n.Channel) || n.Tries > 0 {
		return max(n.Created+settleMs, n.NotBefore)
	}
	at := time.UnixMilli(n.Created).UTC()
	monday := time.Date(at.Year(), at.Month(), at.Day()-(int(at.Weekday())+6)%7, digestHour, 0, 0, 0, time.UTC)
	if !monday.After(at) {
		monday = monday.AddDate(0, 0, 7)
	}
	return monday.UnixMilli()
}

// The results of a try.
const (
	delivered = iota
	again     // it was not accepted, and a later try may be
	never     // nobody accepts it
	unsure    // nobody can tell whether it was accepted
)

// outcome is the result of a try.
type outcome struct {
	kind   int
	reason string
}

// settle takes the result of a try. If it is unsure, a mail is not tried again, but other messages are: their id shows
// that they are the same.
func (b *book) settle(m message, o outcome, nowMs int64) (changed []*schemas.Notice) {
	b.nowMs = nowMs
	for _, n := range m.notices {
		switch {
		case o.kind == delivered:
			changed = append(changed, b.turn(n, schemas.NoticeSent, o.reason, nowMs))
		case o.kind == never, n.Tries >= mostTries, o.kind == unsure && n.Channel == schemas.ChannelMail:
			changed = append(changed, b.turn(n, schemas.NoticeFailed, o.reason, nowMs))
		default:
			next := *n
			next.NotBefore = nowMs + 15_000<<(2*min(n.Tries-1, 4)) // 15 s, 1 min, 4 min, 16 min
			changed = append(changed, b.turn(&next, schemas.NoticeWaiting, o.reason, nowMs))
		}
	}
	return changed
}

// recover takes the messages that a predecessor was sending when it ended.
func (b *book) recover(nowMs int64) (changed []*schemas.Notice) {
	sending := func(n *schemas.Notice) bool { return n.State == schemas.NoticeSending }
	for _, n := range sorted(b.of, sending) {
		m := message{notices: []*schemas.Notice{n}}
		changed = append(changed, b.settle(m, outcome{unsure, "notify ended while it was sent"}, nowMs)...)
	}
	return changed
}

// forget drops old notices that nothing depends on any more, and returns their keys.
func (b *book) forget(nowMs int64) (keys [][]byte) {
	old := func(n *schemas.Notice) bool {
		return n.State != schemas.NoticeWaiting && n.State != schemas.NoticeSending && nowMs-n.Changed > keptMs
	}
	for _, n := range sorted(b.of, old) {
		delete(b.of, string(n.Key()))
		keys = append(keys, n.Key())
	}
	for t, at := range b.told {
		if nowMs-at > keptMs {
			delete(b.told, t)
		}
	}
	for user, all := range b.users {
		if b.users[user] = since(all, nowMs-dayMs); len(b.users[user]) == 0 {
			delete(b.users, user)
		}
	}
	return keys
}

// sorted returns notices in the order in which they were made.
func sorted(of map[string]*schemas.Notice, which func(n *schemas.Notice) bool) []*schemas.Notice {
	type keyed struct {
		key string
		*schemas.Notice
	}
	var some []keyed
	for key, n := range of {
		if which(n) {
			some = append(some, keyed{key, n})
		}
	}
	slices.SortFunc(some, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.key, b.key))
	})
	all := make([]*schemas.Notice, len(some))
	for i := range some {
		all[i] = some[i].Notice
	}
	return all
}
