package find

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"
)

// savedState is the state of a FindState, as JSON: the fold's own, and the state of the rules.
type savedState struct {
	Version  int                    `json:"version"`
	LengthMs int64                  `json:"length_ms"` // of the last interval
	Seen     window                 `json:"seen"`
	Rules    map[string]writtenRule `json:"rules,omitempty"` // findings that were written, by rule
	Watch    []byte                 `json:"watch,omitempty"` // packed; empty: the job is over
	Since    int64                  `json:"since,omitempty"` // where it began; a namesake was watched before
}

// writtenRule is the last record of a finding.
type writtenRule struct {
	Hash  string `json:"hash"`
	Class string `json:"class,omitempty"` // empty: it is not open
}

// stateVersion is the version of savedState. A newer one is not read.
const stateVersion = 1

var errNewerState = errors.New("a newer weir wrote it: upgrade every `weir find`")

// maxFrozenJob bounds the record of a job in its FindState. A larger one goes without its nodes.
const maxFrozenJob = 1 << 20

// farMs is the year 2100. A Finding names no start that is later.
const farMs = 4102444800000

// window remembers which of the last 64 intervals of a job came.
type window struct {
	Newest int64  `json:"newest"`
	Bits   uint64 `json:"bits"` // bit i: the interval i before newest
	// Older is true if intervals came that are older than the window.
	Older bool `json:"older,omitempty"`
}

// add notes an interval, and reports whether it is new. One that is older than the window counts as new.
func (w *window) add(start, lengthMs int64) bool {
	by := (start - w.Newest) / lengthMs
	switch {
	case w.Bits == 0:
		*w = window{Newest: start, Bits: 1}
	case start > w.Newest:
		by = max(by, 1)
		*w = window{start, w.Bits<<by | 1, w.Older || w.Bits>>max(64-by, 0) > 0}
	case by <= -64:
		w.Older = true
	case (start-w.Newest)%lengthMs == 0:
		bit := uint64(1) << -by
		fresh := w.Bits&bit == 0
		w.Bits |= bit
		return fresh
	}
	return true
}

// isWhole reports whether none of the last 64 intervals is missing. For a shorter life, only the intervals since the
// first one count.
func (w *window) isWhole() bool {
	return w.Bits&(w.Bits+1) == 0 && (w.Bits > math.MaxUint64>>1 || !w.Older)
}

// setJob freezes the record of a job, and reports whether that changed. A job that nobody knows any more stays as it
// was.
func (w *watched) setJob(j *schemas.Job) bool {
	if j == nil || j == w.told {
		return false
	}
	w.told = j
	value, err := schemas.Marshal(j)
	if err != nil || len(value) > maxFrozenJob {
		short := *j
		short.Nodes, short.Cpus = nil, nil
		if value, err = schemas.Marshal(&short); err != nil {
			return false
		}
		j = &short
	}
	if bytes.Equal(value, w.job) {
		return false
	}
	w.job, w.over, w.endMs, w.startMs = value, schemas.Over(j.State), j.End, nil
	if j.Start != nil && *j.Start > 0 && *j.Start < farMs {
		w.startMs = j.Start
	}
	return true
}

// jobOf returns a job as the rules know it.
func (f *finder) jobOf(w *watched) rules.Job {
	j := &schemas.Job{JobID: w.key.JobID, Restart: w.key.Restart}
	if v, err := schemas.Unmarshal(w.job); err == nil {
		if known, is := v.(*schemas.Job); is {
			j = known
		}
	}
	return rules.JobOf(f.cluster, j, f.types())
}

// save adds the FindState of a job. If the rules cannot encode theirs, a replay reads the job's summaries instead.
func (f *finder) save(w *watched, fx *fold.Effects) {
	w.Version, w.Watch = stateVersion, w.asleep
	if w.watch != nil {
		var err error
		if w.Watch, err = f.packing.pack(w.watch); err != nil {
			return
		}
	}
	state, err := json.Marshal(w.savedState)
	if err != nil {
		return
	}
	w.Watch = nil
	fx.Outputs = append(fx.Outputs, &schemas.FindState{
		Cluster: f.cluster, JobID: w.key.JobID, Restart: w.key.Restart,
		AsOf: w.asOf, Offset: w.last, Ended: w.ended, Job: w.job, State: state,
	})
	w.saved, w.unsaved, w.savedSlots = w.last, fold.None, w.slot()
}

// restore goes on from a FindState. Findings of a rule that is off, or has changed, are deleted: it begins anew. Only a
// state that a newer weir wrote is an error. A state that cannot be read makes all rules of its job begin anew.
func (f *finder) restore(s *schemas.FindState) (*watched, error) {
	w := &watched{
		key: s.Identity(), asOf: s.AsOf, last: s.Offset, saved: s.Offset, unsaved: fold.None, ended: s.Ended,
		heard: before,
	}
	err := json.Unmarshal(s.State, &w.savedState)
	if w.Version > stateVersion {
		return nil, errNewerState
	}
	if err != nil || w.Version < 1 {
		f.spoiled(w, cmp.Or(err, errNotState))
		w.savedState = savedState{Rules: map[string]writtenRule{}}
		for i := range f.set.Rules { // nobody knows any more which were written
			w.Rules[f.set.Rules[i].ID] = writtenRule{}
		}
	}
	w.savedSlots = w.slot()
	if s.Ended {
		return w, nil
	}
	if v, err := schemas.Unmarshal(s.Job); err == nil {
		if j, is := v.(*schemas.Job); is {
			w.setJob(j)
		}
	}
	sound := len(w.Watch) > 0
	if sound {
		err := f.packing.unpack(w.Watch, f.set.NewWatch(f.jobOf(w), f.possible))
		if errors.Is(err, rules.ErrNewer) {
			return nil, fmt.Errorf("%w: %w", errNewerState, err)
		}
		if sound = err == nil; !sound {
			f.spoiled(w, err)
			w.Watch = nil
		}
	}
	w.asleep, w.Watch = w.Watch, nil
	f.keepRules(w, sound)
	return w, nil
}

// spoiled notes that the rules of a job begin anew: their state cannot be read. One job must not stop a partition.
func (f *finder) spoiled(w *watched, err error) {
	f.faults, f.fault = f.faults+1, fmt.Errorf("job %s: %w", w.key, err)
}

// keepRules keeps the findings of rules that go on, and deletes the others.
func (f *finder) keepRules(w *watched, sound bool) {
	now := map[string]string{}
	for i := range f.set.Rules {
		now[f.set.Rules[i].ID] = f.set.Rules[i].Hash
	}
	for _, rule := range slices.Sorted(maps.Keys(w.Rules)) {
		was := w.Rules[rule]
		if !sound || now[rule] != was.Hash {
			finding := schemas.Finding{JobID: w.key.JobID, Restart: w.key.Restart, Rule: rule}
			f.leaving = append(f.leaving, fold.Tombstone{Topic: schemas.TopicFindings, Key: finding.Key()})
			delete(w.Rules, rule)
			continue
		}
		if was.Class != "" {
			f.open[was.Class]++
		}
	}
}
