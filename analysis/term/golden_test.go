package term

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the texts of testdata anew")

// golden compares a text with a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// styles are the terminals of the golden texts.
var styles = map[string]Style{
	"40": {Width: 40}, "80": {Width: 80}, "120": {Width: 120},
	"80-ascii": {Width: 80, ASCII: true}, "80-color": {Width: 80, Color: true},
}

// TestJobLooksAsItShould: a person has read these texts.
func TestJobLooksAsItShould(t *testing.T) {
	for name, s := range styles {
		var b bytes.Buffer
		if err := Job(&b, made(), s); err != nil {
			t.Fatal(err)
		}
		golden(t, "job-"+name, b.Bytes())
	}
	for name, show := range map[string]func(b *bytes.Buffer, s Style) error{
		"job-empty": func(b *bytes.Buffer, s Style) error { return Job(b, without(), s) },
		"totals":    func(b *bytes.Buffer, s Style) error { return Totals(b, made(), s) },
		"findings":  func(b *bytes.Buffer, s Style) error { return Findings(b, made(), s) },
	} {
		for _, width := range []int{80, 160} {
			var b bytes.Buffer
			if err := show(&b, Style{Width: width}); err != nil {
				t.Fatal(err)
			}
			golden(t, fmt.Sprintf("%s-%d", name, width), b.Bytes())
		}
	}
}
