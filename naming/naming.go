// Package naming defines the valid names of hosts, jobs, metrics and parts of weir. It also keeps a file's name from
// appearing twice in a message. Every package may import it; it knows nothing about the named things.
package naming

import (
	"errors"
	"os"
)

// MaxBytes is the greatest length of a name.
const MaxBytes = 64

// Valid reports whether s may be a name: [A-Za-z0-9._:-]{1,64}, but neither "." nor "..", because names become parts of
// paths.
func Valid(s string) bool {
	if s == "" || len(s) > MaxBytes || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// Pathless takes the path out of an error of package os, for a message that already names the file.
func Pathless(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
