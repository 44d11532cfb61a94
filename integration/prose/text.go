package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"unicode"
)

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	link     = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	listItem = regexp.MustCompile(`^\s*([-*+]|\d+\.)\s+`)
	comment  = regexp.MustCompile(`<!--.*?-->`)
	// ending is the end of a sentence, with what closes it.
	ending = regexp.MustCompile(`[.?!]["')*_]*\s+`)
	// abbreviation is a full stop that ends no sentence.
	abbreviation = regexp.MustCompile(`\b(e\.g|i\.e|etc|vs|cf|ca|No)\.$`)
)

// placeholder stands for code in backquotes, whatever full stops that has.
const placeholder = "\x00"

// sentences splits a paragraph. Names such as weir and numpy begin sentences too, so that capitals tell nothing.
func sentences(text string) []string {
	spans := codeSpan.FindAllString(text, -1)
	text = codeSpan.ReplaceAllString(text, placeholder)
	var all []string
	for text != "" {
		end, from := len(text), 0
		for {
			at := ending.FindStringIndex(text[from:])
			if at == nil {
				break
			}
			if !abbreviation.MatchString(text[:from+at[0]+1]) {
				end = from + at[1]
				break
			}
			from += at[1]
		}
		all = append(all, strings.TrimSpace(text[:end]))
		text = text[end:]
	}
	for i := range all { // the code again, for whoever reads the finding
		for strings.Contains(all[i], placeholder) && len(spans) > 0 {
			all[i] = strings.Replace(all[i], placeholder, spans[0], 1)
			spans = spans[1:]
		}
	}
	return all
}

// words counts what a reader reads as words: code in backquotes is one.
func words(sentence string) int {
	n := 0
	for word := range strings.FieldsSeq(codeSpan.ReplaceAllString(sentence, "code")) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// markdown gathers the paragraphs of a page.
type markdown struct {
	file    string
	found   []finding
	open    paragraph
	excused bool // the paragraph in hand may have long sentences
}

func (m *markdown) end() {
	if m.open.text == "" {
		return
	}
	if !m.excused {
		m.found = append(m.found, m.open.findings(m.file)...)
	}
	m.open, m.excused = paragraph{}, false
}

func (m *markdown) add(line int, text string) {
	text = link.ReplaceAllString(strings.TrimSpace(text), "$1")
	if m.open.text == "" {
		m.open = paragraph{line, text}
		return
	}
	m.open.text += " " + text
}

// inMarkdown finds what is too long in a page. What a program wrote, between ": begin -->" and ": end -->", is not
// looked at.
func inMarkdown(file, text string) []finding {
	m := &markdown{file: file}
	fenced, made := false, false
	for i, line := range strings.Split(text, "\n") {
		n, trimmed := i+1, strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "<!--") && strings.HasSuffix(trimmed, "-->"):
			m.end()
			made = strings.Contains(trimmed, ": begin") || made && !strings.Contains(trimmed, ": end")
			m.excused = strings.HasPrefix(trimmed, "<!-- long:")
		case made:
		case strings.HasPrefix(trimmed, "```"):
			m.end()
			fenced = !fenced
		case fenced:
			m.found = append(m.found, tooWide(file, n, line)...)
		case trimmed == "":
			if m.open.text != "" {
				m.end()
			}
		case strings.HasPrefix(trimmed, "|"):
			m.end()
			for cell := range strings.SplitSeq(strings.Trim(trimmed, "|"), "|") {
				m.add(n, comment.ReplaceAllString(cell, ""))
				m.end()
			}
		default:
			if marker := listItem.FindString(line); marker != "" || strings.HasPrefix(trimmed, "#") {
				if m.open.text != "" {
					m.end()
				}
				trimmed = strings.TrimLeft(line[len(marker):], "# ")
			}
			m.add(n, trimmed)
			if strings.HasPrefix(line, "#") {
				m.end()
			}
			m.found = append(m.found, tooWide(file, n, line)...)
		}
	}
	m.end()
	return sorted(m.found)
}

// inGo finds what is too long in the comments of a Go file, and its wide lines.
func inGo(file string, src []byte) ([]finding, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading comments: %w", err)
	}
	var found []finding
	for i, line := range strings.Split(string(src), "\n") {
		found = append(found, tooWide(file, i+1, strings.ReplaceAll(line, "\t", "    "))...)
	}
	for _, group := range parsed.Comments {
		found = append(found, inComment(file, fset.Position(group.Pos()).Line, group)...)
	}
	return sorted(found), nil
}

func inComment(file string, line int, group *ast.CommentGroup) []finding {
	m := &markdown{file: file}
	for text := range strings.SplitSeq(group.Text(), "\n") {
		marker := listItem.FindString(text)
		switch {
		case marker != "":
			m.end()
			m.add(line, text[len(marker):])
		case strings.TrimSpace(text) == "":
			m.end()
		case strings.HasPrefix(text, "\t"):
			m.end() // code, or a drawing
		default:
			m.add(line, text)
		}
	}
	m.end()
	return m.found
}
