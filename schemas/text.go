package schemas

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirhpc/weir/naming"
)

// ValidJobID reports whether s may name a scheduler's job: a valid name that does not begin with "_", which is kept
// for pseudo-jobs.
func ValidJobID(s string) bool { return naming.Valid(s) && s[0] != '_' }

// ShownJobID returns a job's id for people to read. A text that cannot be an id is quoted and cut.
func ShownJobID(s string) string {
	if ValidJobID(s) {
		return s
	}
	return fmt.Sprintf("%.80q", s)
}

// ValidUnit reports whether s may be the unit of a metric.
func ValidUnit(s string) bool { return validUnit(s) }

// validUnit reports whether s may be a unit, a boot id or a run id: 0 to 64 bytes of printable UTF-8.
func validUnit(s string) bool { return len(s) <= maxNameBytes && isPrintable(s) }

// validText reports whether s may be free text, such as a reason or the name that a user gave a job.
func validText(s string) bool { return len(s) <= maxTextBytes && isPrintable(s) }

// CleanText makes free text valid for a record: printable, and of at most so many bytes. A record takes 4,096.
func CleanText(s string, most int) string {
	const cut = "..."
	if s = Printable(s); len(s) > most {
		s = strings.ToValidUTF8(s[:most-len(cut)], "") + cut
	}
	return s
}

// Printable replaces each character that may change the display of a terminal by a question mark. It does the same with
// each byte that is not UTF-8.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// isPrintable reports whether Printable would change nothing. It lets the replacement character pass.
func isPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
