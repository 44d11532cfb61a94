package analysis

import (
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// everybody sees all jobs.
var everybody = Viewer{All: true}

func TestMay(t *testing.T) {
	hers := &schemas.Job{JobID: "1", User: "ada", Account: "physics"}
	for name, tc := range map[string]struct {
		v    Viewer
		j    *schemas.Job
		want bool
	}{
		"zero sees nothing":              {Viewer{}, hers, false},
		"zero sees no job without owner": {Viewer{}, &schemas.Job{JobID: "1"}, false},
		"owner":                          {Viewer{User: "ada"}, hers, true},
		"another user":                   {Viewer{User: "bob"}, hers, false},
		"another user of the account":    {Viewer{User: "physics"}, hers, false},
		"name in another case":           {Viewer{User: "Ada"}, hers, false},
		"leader":                         {Viewer{User: "bob", Accounts: []string{"x", "physics"}}, hers, true},
		"leader of an account with the user's name": {Viewer{User: "bob", Accounts: []string{"ada"}}, hers, false},
		"leader of no account":                      {Viewer{User: "bob", Accounts: []string{""}}, &schemas.Job{User: "ada"}, false},
		"leader and a job without owner":            {Viewer{User: "bob", Accounts: []string{"physics"}}, &schemas.Job{Account: "physics"}, false},
		"support":                                   {Viewer{All: true}, hers, true},
		"support and a job without owner":           {Viewer{All: true}, &schemas.Job{}, true},
		"support and a job without record":          {Viewer{All: true}, nil, true},
		"owner and a job without record":            {Viewer{User: "ada"}, nil, false},
	} {
		if got := tc.v.May(tc.j); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
