package find

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/schemas"
)

// past is the remaining state of a job that ended. It is small: at a million jobs a day, the jobs of several days are
// many.
type past struct {
	asOf, lengthMs int64
	since          int64
	last, saved    int64
	rules          *[]string // with findings, sorted; shared by all jobs that have the same
}

// rest keeps the remaining state of a job that ended.
func (f *finder) rest(w *watched) {
	rules := slices.Sorted(maps.Keys(w.Rules))
	text := strings.Join(rules, "\x00")
	if f.ruleSets[text] == nil {
		f.ruleSets[text] = &rules
	}
	f.ended[w.key] = past{w.asOf, w.LengthMs, w.Since, w.last, w.saved, f.ruleSets[text]}
}

// watched returns the job as it was at its end.
func (p past) watched(key schemas.JobKey) *watched {
	w := &watched{
		key: key, ended: true, asOf: p.asOf, last: p.last, saved: p.saved, unsaved: fold.None, heard: before,
		savedState: savedState{Version: stateVersion, LengthMs: p.lengthMs, Since: p.since},
	}
	for _, rule := range *p.rules {
		if w.Rules == nil {
			w.Rules = map[string]writtenRule{}
		}
		w.Rules[rule] = writtenRule{}
	}
	return w
}
