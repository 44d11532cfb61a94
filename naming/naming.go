// Package naming says what may be the name of a host, a job, a metric or a part of weir, and keeps a file's name from
// standing twice in a message. It is a leaf that every package may import; it knows nothing of what it names.
package naming

import (
	"errors"
	"os"
)

// MaxBytes is how long a name may be.
const MaxBytes = 64

// Valid reports whether s may be a name: [A-Za-z0-9._:-]{1,64}, and neither . nor .., since names end up in paths.
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

// Pathless takes the path out of an error of package os, for a message that names the file already.
func Pathless(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
