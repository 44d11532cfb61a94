package notify

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/weirhpc/weir/config"
)

// users are the users of notify.opt_out and notify.opt_in.
type users struct{ out, in map[string]bool } // in is nil if everybody is in

// readUsers reads both lists with the files that they name. While one of these cannot be read, nobody can tell who
// wants no message.
func readUsers(cfg config.Notify) (u users, err error) {
	if u.out, err = readList("notify.opt_out", cfg.OptOut); err != nil {
		return u, err
	}
	if len(cfg.OptIn) > 0 {
		u.in, err = readList("notify.opt_in", cfg.OptIn)
	}
	return u, err
}

// readList returns the users of a list. An item that is an absolute path is a file with a user a line, where # begins a
// comment.
func readList(key string, items []string) (map[string]bool, error) {
	all := map[string]bool{}
	for _, item := range items {
		if !filepath.IsAbs(item) {
			all[item] = true
			continue
		}
		text, err := config.ReadFile(item)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		for line := range strings.Lines(string(text)) {
			user, _, _ := strings.Cut(line, "#")
			if user = strings.TrimSpace(user); user != "" {
				all[user] = true
			}
		}
	}
	return all, nil
}

func (u users) allow(user string) bool { return !u.out[user] && (u.in == nil || u.in[user]) }
