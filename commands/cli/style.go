package cli

import (
	"cmp"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// IsUTF8 reports whether the locale is one of UTF-8. The first variable that is set counts.
func IsUTF8(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// IsColored reports whether the environment lets a terminal show colours.
func IsColored(env func(string) string) bool { return env("NO_COLOR") == "" && env("TERM") != "dumb" }

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._/:@%+=,-]+$`)

// Quoted returns a word quoted for a shell.
func Quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// IsTerminal reports whether a file is a terminal. It may be nil.
func IsTerminal(f *os.File) bool {
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
