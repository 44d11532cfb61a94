package compact

import (
	"errors"
	"testing"

	"github.com/weirhpc/weir/sink"
)

// TestRollupsReadAnew: the rollups may be of a generation that the date does not have. If a run died, then the date has
// the files that they were made of. If the sink read the date from the topic anew, they have all its rows already.
func TestRollupsReadAnew(t *testing.T) {
	t.Parallel()
	there := &rollupsFooter{generation: 1, inputs: []string{"a", "b"}, next: map[int32]int64{0: 20}}
	at := func(name string, start int64) sink.File { return sink.File{Name: name, Start: start} }
	for name, c := range map[string]struct {
		there      *rollupsFooter
		generation int64
		small      []sink.File
		refused    bool
	}{
		"no rollups":              {nil, 1, []sink.File{at("a", 0)}, false},
		"a run that died":         {there, 1, []sink.File{at("a", 0), at("b", 10)}, false},
		"late rows since":         {there, 1, []sink.File{at("a", 0), at("b", 10), at("c", 20)}, false},
		"the generation behind":   {there, 2, []sink.File{at("c", 20)}, false},
		"read anew, cut anew":     {there, 1, []sink.File{at("a", 0), at("d", 7)}, true},
		"read anew, one name":     {there, 1, []sink.File{at("a", 0)}, true},
		"read anew, a file more":  {there, 1, []sink.File{at("a", 0), at("b", 10), at("d", 15)}, true},
		"read anew from a gap on": {there, 1, []sink.File{at("e", 12)}, true},
	} {
		if err := interrupted(c.there, c.generation, c.small); errors.Is(err, errRollups) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
