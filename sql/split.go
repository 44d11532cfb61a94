package main

import "strings"

// splitter cuts SQL into statements at semicolons outside of quotes and comments.
type splitter struct {
	text strings.Builder
	in   string // end of the current quote or comment; empty outside
	sql  bool   // whether the text contains more than spaces and comments
}

func (s *splitter) empty() bool { return !s.sql && s.in == "" }

// add returns the statements that end in text. It must not end within a quote's mark, as no line does.
func (s *splitter) add(text string) (done []string) {
	for len(text) > 0 {
		n := 1
		switch {
		case s.in != "":
			if strings.HasPrefix(text, s.in) {
				n, s.in = len(s.in), ""
			}
		case text[0] == ';':
			if s.sql {
				done = append(done, s.text.String())
			}
			s.text.Reset()
			s.sql, text = false, text[1:]
			continue
		default:
			var code bool
			n, s.in, code = opening(text)
			s.sql = s.sql || code
		}
		s.text.WriteString(text[:n])
		text = text[n:]
	}
	return done
}

// rest returns the last statement, which needs no semicolon.
func (s *splitter) rest() []string {
	if !s.sql {
		return nil
	}
	return []string{s.text.String()}
}

// opening returns the length of the token at the start of text. If the token opens a quote or a comment, end is its
// closing mark. code is false for comments and spaces.
func opening(text string) (n int, end string, code bool) {
	switch c := text[0]; {
	case strings.HasPrefix(text, "--"):
		return 2, "\n", false
	case strings.HasPrefix(text, "/*"):
		return 2, "*/", false
	case c == '\'' || c == '"':
		return 1, string(c), true
	case c == '$':
		if tag, _, closed := strings.Cut(text[1:], "$"); closed && !strings.ContainsAny(tag, " \t\r\n;'\"(),") {
			return len(tag) + 2, "$" + tag + "$", true
		}
		return 1, "", true
	default:
		return 1, "", !strings.ContainsRune(" \t\r\n", rune(c))
	}
}
