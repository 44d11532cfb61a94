package config

import (
	"sync"
	"testing"
	"time"
)

// TestSlowPathIsNotSilent: many clients start at once, and each reads the certificates. A file system that answers each
// read, though slowly, refuses none of them.
func TestSlowPathIsNotSilent(t *testing.T) {
	const readers, each = 64, 50 * time.Millisecond
	var l Lane
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			done := false
			hangs := l.Call(readers*each/4, func() { time.Sleep(each); done = true })
			if !hangs.IsZero() || !done {
				t.Errorf("no answer since %v", hangs)
			}
		})
	}
	all.Wait()
}

// TestLongCallThatMoves is waited for, and one that no longer moves is not.
func TestLongCallThatMoves(t *testing.T) {
	const patience = 2 * time.Second
	var l Lane
	stop := make(chan struct{})
	defer close(stop)
	begun := time.Now()
	hangs := l.Call(patience, func() {
		for range 15 {
			time.Sleep(patience / 10)
			l.Move()
		}
		<-stop
	})
	if took := time.Since(begun); took < 2*patience || took > 10*patience || hangs.Before(begun.Add(patience)) {
		t.Errorf("it was given up after %v, as silent since %v", took, hangs.Sub(begun))
	}
}
