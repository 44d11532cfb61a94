package commands_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirhpc/weir/commands/clitest"
)

// TestReadingGuideLeads: every function of docs/reading.md is in the source, and a section leads from one to the next:
// each is called by an earlier one, or by a function that an earlier one calls. Parentheses name the way if it is not a call.
func TestReadingGuideLeads(t *testing.T) {
	t.Parallel()
	calls, err := callees()
	if err != nil {
		t.Fatal(err)
	}
	step := regexp.MustCompile("(?m)^([0-9]+)\\. `([^`]+)` (\\()?")
	n := 0
	for section := range strings.SplitSeq(clitest.Page(t, "docs/reading.md"), ":\n\n") {
		reached := map[string]bool{} // names of functions that the section has led to
		for i, s := range step.FindAllStringSubmatch(section, -1) {
			if n++; s[1] != fmt.Sprint(n) {
				t.Errorf("step %d is numbered %s", n, s[1])
			}
			name := s[2][strings.LastIndexByte(s[2], '.')+1:]
			if calls[s[2]] == nil {
				t.Errorf("step %s names %s, which is not in the source", s[1], s[2])
			} else if i > 0 && !reached[name] && s[3] == "" {
				t.Errorf("step %s: no step before %s in its section leads to it", s[1], s[2])
			}
			follow(calls, s[2], 3, reached)
		}
	}
	if n < 40 {
		t.Fatalf("%d steps were found: the path is gone, or written otherwise", n)
	}
}

// follow adds the names of the functions that a function reaches by at most depth calls within its package.
func follow(calls map[string]map[string]bool, function string, depth int, reached map[string]bool) {
	room, _, _ := strings.Cut(function, ".")
	now := []string{function}
	for seen := map[string]bool{}; depth > 0; depth-- {
		names := map[string]bool{}
		for _, f := range now {
			for name := range calls[f] {
				names[name], reached[name] = true, true
			}
		}
		now = nil
		for next := range calls {
			if strings.HasPrefix(next, room+".") && names[next[strings.LastIndexByte(next, '.')+1:]] && !seen[next] {
				seen[next] = true
				now = append(now, next)
			}
		}
	}
}

// callees returns the names that the body of each function uses, by package, type and function.
func callees() (map[string]map[string]bool, error) {
	all := map[string]map[string]bool{}
	return all, eachFile(func(path string, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			names := map[string]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				if id, is := n.(*ast.Ident); is {
					names[id.Name] = true
				}
				return true
			})
			all[file.Name.Name+"."+receiver(f)+f.Name.Name] = names
		}
	})
}

// TestMapNamesFunctions: each function of the map of docs/design.md is in the file that stands beside it.
func TestMapNamesFunctions(t *testing.T) {
	t.Parallel()
	there, _ := functions(t)
	rows := regexp.MustCompile("(?m)^\\| [^|]*\\? \\| (`[^|]+) \\| (`[^|]+) \\|$").
		FindAllStringSubmatch(clitest.Page(t, "docs/design.md"), -1)
	if len(rows) < 10 {
		t.Fatalf("%d rows: the map is gone, or written otherwise", len(rows))
	}
	for _, row := range rows {
		names, files := strings.Split(row[1], ", "), strings.Split(row[2], ", ")
		for i, name := range names {
			name, file := strings.Trim(name, "`"), strings.Trim(files[i], "`")
			if !there[name] {
				t.Errorf("the map names %s, which is not in the source", name)
			}
			if text := clitest.Page(t, file); !regexp.MustCompile(`(?m)^func .*\b` + name[strings.LastIndexByte(name, '.')+1:] + `\(`).
				MatchString(text) {
				t.Errorf("%s is not in %s", name, file)
			}
		}
	}
}

// TestPagesNameTests: a page that gives a test as the proof of a claim names one that is there.
func TestPagesNameTests(t *testing.T) {
	t.Parallel()
	_, tests := functions(t)
	pattern, named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*(\([A-Z|\w\\]+\))?`), 0
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, name := range append(pages, "README.md", "CONTRIBUTING.md") {
		for _, test := range pattern.FindAllString(clitest.Page(t, name), -1) {
			named++
			run := regexp.MustCompile("^" + strings.ReplaceAll(test, `\|`, "|")) // as -run, in a table
			found := false
			for have := range tests {
				found = found || run.MatchString(have)
			}
			if !found {
				t.Errorf("%s names %s, which is no test", name, test)
			}
		}
	}
	if named < 20 {
		t.Errorf("%d tests are named: where are the proofs?", named)
	}
}

// TestPagesUpgradeInOneOrder: an administrator may follow either page.
func TestPagesUpgradeInOneOrder(t *testing.T) {
	t.Parallel()
	_, changelog, _ := strings.Cut(clitest.Page(t, "CHANGELOG.md"), "Upgrade in the order ")
	order, _, _ := strings.Cut(changelog, "\n")
	if !strings.Contains(clitest.Page(t, "docs/deploy.md"), "Upgrade in this order: **"+order+"**") {
		t.Errorf("docs/deploy.md has another order than CHANGELOG.md: %s", order)
	}
}

// TestReadmeShowsTheExamples: what the README shows is what TestExamples runs.
func TestReadmeShowsTheExamples(t *testing.T) {
	t.Parallel()
	readme := clitest.Page(t, "README.md")
	for _, name := range []string{"examples/consume.py", "examples/spread.sql"} {
		text := clitest.Page(t, name)
		if doc, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(doc, `"""`) {
			text = rest
		}
		if !strings.Contains(readme, "\n"+text+"```") {
			t.Errorf("the README shows something else than %s", name)
		}
	}
}

// TestPagesLinkToWhatIsThere: links within the repository, and headings in them.
func TestPagesLinkToWhatIsThere(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, from := range pages {
		for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(clitest.Page(t, from), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			name, heading, _ := strings.Cut(link[1], "#")
			to := from
			if name != "" {
				to = filepath.Join(filepath.Dir(from), name)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", from, link[1])
			} else if heading != "" && !slices.Contains(headings(clitest.Page(t, to)), heading) {
				t.Errorf("%s links to %s, and there is no such heading", from, link[1])
			}
		}
	}
}

// headings returns the names by which a page's headings are linked to.
func headings(text string) (names []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(h[1]), "")
		names = append(names, strings.ReplaceAll(plain, " ", "-"))
	}
	return names
}

// functions returns the functions of the repository as package.Function and package.Type.method, and the names of its
// tests.
func functions(t *testing.T) (there, tests map[string]bool) {
	t.Helper()
	all, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	return all[0], all[1]
}

// repository reads the repository once for all tests, since that takes a second.
var repository = sync.OnceValues(func() ([2]map[string]bool, error) {
	there, tests := map[string]bool{}, map[string]bool{}
	err := eachFile(func(path string, file *ast.File) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if strings.HasSuffix(path, "_test.go") {
				tests[f.Name.Name] = true
			} else {
				there[file.Name.Name+"."+receiver(f)+f.Name.Name] = true
			}
		}
	})
	return [2]map[string]bool{there, tests}, err
})

// eachFile parses every Go file of the repository.
func eachFile(visit func(path string, file *ast.File)) error {
	return filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "bin" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(path, file)
		}
		return err
	})
}

// receiver returns the name of a method's type and a full stop; nothing for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}
