// Command prose finds sentences of more than 25 words and lines of more than 120 columns. By default it reads the
// pages of the root, of docs/ and of examples/. With -go it reads Go files and their comments. It ends with status 1
// where it finds any; what it finds in tests it only reports.
//
// A sentence ends at a full stop, a question mark, an exclamation mark, or with its paragraph, list item or table cell.
// Code in backquotes is one word, and of a link the text counts. Code blocks have no sentences. Rows of tables may be
// longer than a line. A paragraph after the line `<!-- long: REASON -->` may have long sentences.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxWords   = 25
	maxColumns = 120
)

// skipped are directories that hold no prose of ours.
var skipped = []string{"bin", "dist", "testdata", "weir-data", "shared"}

// finding is one sentence or line that is too long.
type finding struct {
	file string
	line int // 1-based; of a sentence, where its paragraph begins
	size int // words or columns
	unit string
	text string
}

func main() {
	code := flag.Bool("go", false, "read Go files and their comments; what tests have is only reported")
	quiet := flag.Bool("q", false, "print the numbers alone")
	flag.Parse()
	status, err := run(os.Stdout, ".", *code, *quiet)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
	}
	os.Exit(status)
}

func run(w io.Writer, root string, code, quiet bool) (status int, err error) {
	files, err := filesOf(root, code)
	if err != nil {
		return 2, err
	}
	var all []finding
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return 2, fmt.Errorf("reading what is to be checked: %w", err)
		}
		var found []finding
		if code {
			found, err = inGo(name, text)
		} else {
			found = inMarkdown(name, string(text))
		}
		if err != nil {
			return 2, err
		}
		all = append(all, found...)
	}
	sentences, lines, wrong := 0, 0, 0
	for _, f := range all {
		if !strings.HasSuffix(f.file, "_test.go") {
			wrong++
		}
		if f.unit == "words" {
			sentences++
		} else {
			lines++
		}
		if !quiet {
			fmt.Fprintf(w, "%s:%d: %d %s: %.90s\n", f.file, f.line, f.size, f.unit, f.text)
		}
	}
	fmt.Fprintf(w, "%d sentences of more than %d words, %d lines of more than %d columns, in %d files\n",
		sentences, maxWords, lines, maxColumns, len(files))
	if wrong > 0 {
		return 1, nil
	}
	return 0, nil
}

// filesOf returns the pages of the root and of docs and examples, or all Go files.
func filesOf(root string, code bool) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch dir := filepath.Dir(name); {
		case d.IsDir() && name != "." && (d.Name()[0] == '.' || slices.Contains(skipped, d.Name())):
			return filepath.SkipDir
		case code && strings.HasSuffix(name, ".go"),
			!code && strings.HasSuffix(name, ".md") && slices.Contains([]string{".", "docs", "examples"}, dir):
			files = append(files, name)
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

// paragraph is text that is read in one go: its sentences do not go on elsewhere.
type paragraph struct {
	line int
	text string
}

func (p paragraph) findings(file string) []finding {
	var found []finding
	for _, s := range sentences(p.text) {
		if n := words(s); n > maxWords {
			found = append(found, finding{file, p.line, n, "words", s})
		}
	}
	return found
}

// tooWide returns a line of more than maxColumns, unless it is a link that cannot be broken.
func tooWide(file string, line int, text string) []finding {
	n := utf8.RuneCountInString(text)
	if n <= maxColumns || len(strings.Fields(text)) <= 2 && strings.Contains(text, "://") {
		return nil
	}
	return []finding{{file, line, n, "columns", text}}
}

// sorted orders findings as the file has them.
func sorted(found []finding) []finding {
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
	return found
}
