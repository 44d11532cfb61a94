package network

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCasesStay: a tree or a list of links that is read and written again is the same text, but for its comments.
func TestCasesStay(t *testing.T) {
	files, err := filepath.Glob("../discover/testdata/cases/*.[te]*")
	if err != nil || len(files) < 15 {
		t.Fatalf("%v: %d cases", err, len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Read(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		form := Edges
		if filepath.Ext(file) == ".tree" {
			form = Parens
		}
		var got strings.Builder
		if err := n.Write(&got, form); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		want := string(text[bytes.IndexByte(text, '\n')+1:])
		if strings.TrimSpace(got.String()) != strings.TrimSpace(want) {
			t.Errorf("%s: %s, want %s", file, got.String(), want)
		}
	}
}

func read(t *testing.T, text string) *Network {
	t.Helper()
	n, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

func TestEqualTrees(t *testing.T) {
	const loop = "0 switch:a\n0 switch:b\n1 switch:a\n1 switch:b\n2 switch:a"
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"((0,1),(2,3))", "(0,1,(2,3))", true},
		{"((0,1),(2,3),(4,5))", "(((0,1),(2,3)),4,5)", true},
		{"((0,1),(2,3))", "(0,1,2,3)", false},
		{"((0,1),(2,3))", "((0,2),(1,3))", false},
		{"((a,b),(c,d))", "(a,((c),d),b)", true},
		{"(0,1)", "0 1", true},
		{"(0,1)", "(1,2)", false},
		{"0 1\n1 2\n2 0", "(0,1,2)", false},
		{"0 1\n1 2\n2 3\n3 0", "0 1\n2 1\n2 3\n0 3", true},
		{"0 1\n1 2\n2 3\n3 0", "0 2\n2 1\n1 3\n3 0", false},
		{loop, "1 switch:y\n0 switch:x\n0 switch:y\n1 switch:x\n2 switch:y", true},
		{loop, "1 switch:y\n0 switch:x\n0 switch:y\n1 switch:x\n2 switch:y\n2 switch:x", false},
	} {
		if got := Equal(read(t, tt.a), read(t, tt.b)); got != tt.same {
			t.Errorf("%s and %s: %v", tt.a, tt.b, got)
		}
	}
}
