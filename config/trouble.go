package config

import "time"

// sayAgain is after how long a trouble that lasts is said again: a log of today should have it.
const sayAgain = 10 * time.Minute

// Trouble decides which errors of a trouble that lasts are worth a line in the log: the first, the first of another kind
// (a broker that was away may come back and refuse us), and one every ten minutes. The zero value is no trouble. It is not
// for several goroutines at once.
type Trouble struct {
	kind string
	said time.Time // zero: all is well
}

// Worth reports whether err should be said.
func (t *Trouble) Worth(err error) bool {
	kind := Kafka{}.remedy(err)
	if !t.said.IsZero() && kind == t.kind && time.Since(t.said) < sayAgain {
		return false
	}
	t.kind, t.said = kind, time.Now()
	return true
}

// Over ends the trouble, and reports whether there was any.
func (t *Trouble) Over() bool {
	was := !t.said.IsZero()
	*t = Trouble{}
	return was
}
