package console

import (
	"maps"
	"sync"
	"time"
)

const (
	atOnce  = 2  // questions of one user
	aMinute = 60 // likewise
)

// limits bounds the questions of each user, so that nobody can stop the others.
type limits struct {
	mu    sync.Mutex
	users map[uint32]*usage
	swept time.Time
}

// usage is what a user asked within a minute.
type usage struct {
	running, asked int
	since          time.Time
}

// enter counts a question, refused ones too: it is the count-th of this minute. If it is one too many, wait is the time
// after which the user may ask again. Otherwise the caller calls leave when the question is answered.
func (l *limits) enter(uid uint32, now time.Time) (leave func(), wait time.Duration, count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) >= time.Minute { // an idle user is forgotten
		maps.DeleteFunc(l.users, func(_ uint32, u *usage) bool {
			return u.running == 0 && now.Sub(u.since) >= time.Minute
		})
		l.swept = now
	}
	u := l.users[uid]
	if u == nil {
		u = &usage{since: now}
		l.users[uid] = u
	}
	if now.Sub(u.since) >= time.Minute {
		u.asked, u.since = 0, now
	}
	u.asked++
	switch {
	case u.asked > aMinute:
		return nil, u.since.Add(time.Minute).Sub(now), u.asked
	case u.running >= atOnce:
		return nil, time.Second, u.asked
	}
	u.running++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		u.running--
	}, 0, u.asked
}
