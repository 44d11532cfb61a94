package commands_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestThinnedTestsRunInFull: a test that does less under the race detector is run without it by `make test-full` too.
// Otherwise most of its cases would never be tried.
func TestThinnedTestsRunInFull(t *testing.T) {
	t.Parallel()
	full := map[string]*regexp.Regexp{} // the tests that run in full, by directory
	for _, words := range testCommands(t, "test-full") {
		if slices.Contains(words, "-race") || slices.Contains(words, "-short") || slices.Contains(words, "-tags") {
			continue
		}
		pattern := ""
		if i := slices.Index(words, "-run"); i >= 0 {
			pattern = words[i+1]
		}
		for _, word := range words {
			if dir, is := strings.CutPrefix(word, "./"); is {
				full[dir] = regexp.MustCompile(pattern)
			}
		}
	}
	thinned := 0
	for dir, uses := range testsByDirectory(t) {
		for name := range lessUnderRace(uses) {
			if !strings.HasPrefix(name, "Test") {
				continue
			}
			thinned++
			if full[dir] == nil || !full[dir].MatchString(name) {
				t.Errorf("%s of ./%s does less under the race detector, and make test-full runs it there alone", name, dir)
			}
		}
	}
	if thinned < 20 {
		t.Errorf("%d tests do less under the race detector: how do they say so?", thinned)
	}
}

// TestLeftOutTestsRunInFull: `make test` counts the tests that -short leaves out, by the words with which they are skipped.
// A command of `make test-full` runs each of them.
func TestLeftOutTestsRunInFull(t *testing.T) {
	t.Parallel()
	var all [][]string // the commands that leave nothing out
	for _, words := range testCommands(t, "test-full") {
		if !slices.Contains(words, "-short") && !slices.Contains(words, "-tags") && !slices.Contains(words, "-run") {
			all = append(all, words)
		}
	}
	skip := regexp.MustCompile(`testing\.Short\(\)[^{]*\{\s+t\.Skip\(([^)]*)`)
	left := 0
	walkTests(t, func(path string) error {
		text, err := os.ReadFile(path)
		for _, m := range skip.FindAllSubmatch(text, -1) {
			if left++; !bytes.Contains(m[1], []byte(`"make test-full runs it"`)) {
				t.Errorf("%s: a test that is left out says only %s", path, m[1])
			}
		}
		dir := filepath.Dir(path)
		if bytes.Contains(text, []byte("testing.Short()")) && !slices.ContainsFunc(all, func(words []string) bool {
			return slices.Contains(words, "./"+dir) || slices.Contains(words, "list") && dir != "integration"
		}) {
			t.Errorf("-short leaves out tests of %s, and test-full runs none of them", dir)
		}
		return err
	})
	if left < 5 {
		t.Errorf("-short leaves out %d tests: how do they say so?", left)
	}
}

// TestUnracedPackagesStartNoGoroutine: `make test` runs without the race detector only packages in which nothing can race.
func TestUnracedPackagesStartNoGoroutine(t *testing.T) {
	t.Parallel()
	unraced := 0
	for _, words := range testCommands(t, "test") {
		if !slices.Contains(words, "-tags") { // without a C compiler the others are not raced either
			continue
		}
		for _, word := range words {
			if !strings.HasPrefix(word, "./") {
				continue
			}
			unraced++
			files, err := filepath.Glob(filepath.Join(word, "*.go"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s has %d files: %v", word, len(files), err)
			}
			for _, file := range files {
				if !strings.HasSuffix(file, "_test.go") && startsGoroutine(t, file) {
					t.Errorf("%s starts a goroutine, and make test does not race its package", file)
				}
			}
		}
	}
	if unraced < 5 {
		t.Errorf("%d packages are not raced: how does make test say so?", unraced)
	}
}

// startsGoroutine reports whether a file has a statement go, or calls a function Go as groups have it.
func startsGoroutine(t *testing.T, path string) (starts bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.SelectorExpr:
			starts = starts || n.Sel.Name == "Go"
		}
		return true
	})
	return starts
}

// testCommands returns the words of the commands `go test` of a target.
func testCommands(t *testing.T, target string) (all [][]string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "make", "-n", target).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(out) {
		words := strings.Fields(strings.ReplaceAll(string(line), "'", ""))
		if len(words) > 1 && words[1] == "test" {
			all = append(all, words)
		}
	}
	return all
}

// declared has the names that a declaration of a package's tests uses. race is of a file for the race detector alone.
type declared struct {
	uses map[string]bool
	race bool
}

// testsByDirectory reads the tests of the repository.
func testsByDirectory(t *testing.T) map[string]map[string]declared {
	t.Helper()
	all := map[string]map[string]declared{}
	walkTests(t, func(path string) error {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if all[dir] == nil {
			all[dir] = map[string]declared{}
		}
		for _, d := range file.Decls {
			keep := declared{uses: map[string]bool{}, race: strings.HasSuffix(path, "race_test.go")}
			ast.Inspect(d, func(n ast.Node) bool {
				if id, is := n.(*ast.Ident); is {
					keep.uses[id.Name] = true
				}
				return true
			})
			for _, name := range names(d) {
				all[dir][name] = keep
			}
		}
		return nil
	})
	return all
}

// walkTests calls f for each file of tests of the repository.
func walkTests(t *testing.T, f func(path string) error) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			return f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// names returns what a declaration declares.
func names(d ast.Decl) (all []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []string{d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, is := s.(*ast.ValueSpec); is {
				for _, id := range v.Names {
					all = append(all, id.Name)
				}
			}
		}
	}
	return all
}

// lessUnderRace returns what depends on kafkatest.Cases, or on a constant of a file for the race detector.
func lessUnderRace(all map[string]declared) map[string]bool {
	less := map[string]bool{"Cases": true}
	for name, d := range all {
		if d.race {
			less[name] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for name, d := range all {
			for used := range d.uses {
				if less[used] && !less[name] {
					less[name], grown = true, true
				}
			}
		}
	}
	return less
}
