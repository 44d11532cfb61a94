package commands_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/commands/clitest"
)

// TestDependenciesWorkWhereTheReadmeSays: each of the six packages that weir was asked to use is imported by the files
// that the README names, at least one of them of the product. Each command for a number runs a benchmark that exists.
func TestDependenciesWorkWhereTheReadmeSays(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(clitest.Page(t, "README.md"), "| library | works in | left to weir |")
	section, _, _ = strings.Cut(section, "\n## ")
	file := regexp.MustCompile("`([^` ]+\\.go)`")
	command := regexp.MustCompile("`go test (\\S+) -run XX -bench (\\w+)`")
	want := []string{
		"hodgesds/perf-utils", "linkedin/goavro", "prometheus/procfs", "spf13/viper",
		"testcontainers/testcontainers-go", "twmb/franz-go",
	}
	var got []string
	benchmarks := 0
	for row := range strings.Lines(section) {
		cells := strings.Split(row, " | ")
		if len(cells) != 3 || strings.HasPrefix(row, "|---") {
			continue
		}
		name := strings.TrimPrefix(cells[0], "| ")
		got = append(got, name)
		product := 0
		for _, f := range file.FindAllStringSubmatch(cells[1], -1) {
			if !imports(t, f[1], "github.com/"+name) {
				t.Errorf("%s does not import %s", f[1], name)
			}
			if !strings.HasSuffix(f[1], "_test.go") {
				product++
			}
		}
		if product == 0 {
			t.Errorf("%s works in no file but tests", name)
		}
		for _, c := range command.FindAllStringSubmatch(cells[2], -1) {
			if benchmarks++; !benchmarked(t, c[1], c[2]) {
				t.Errorf("package %s has no %s", c[1], c[2])
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || benchmarks < 3 {
		t.Errorf("the README has files of %q and %d benchmarks, want files of %q", got, benchmarks, want)
	}
}

// imports reports whether a file imports a module, or a package of it.
func imports(t *testing.T, path, module string) bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return false
	}
	for _, i := range f.Imports {
		if p := strings.Trim(i.Path.Value, `"`); p == module || strings.HasPrefix(p, module+"/") {
			return true
		}
	}
	return false
}

// benchmarked reports whether the tests of a package have a benchmark.
func benchmarked(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(b *testing.B) {\n") {
			return true
		}
	}
	return false
}
