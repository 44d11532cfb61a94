package metrics_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/kafka/kafkatest"

	"github.com/weirhpc/weir/selection/study"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// madeObservations writes the worked example of docs/selection.md where `make selection-example` writes it. Each is of
// every few metrics, so that a test need not wait.
func madeObservations(t *testing.T, every int) {
	t.Helper()
	t.Chdir(t.TempDir())
	table := study.Example()
	if every > 1 {
		metrics := table.Metrics[:0:0]
		for i := 0; i < len(table.Metrics); i += every {
			metrics = append(metrics, table.Metrics[i])
		}
		table.Metrics = metrics
	}
	if err := os.Mkdir("selection-example", 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create("selection-example/run.csv")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(study.WriteCSV(out, table), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestSelectionExample compares what docs/selection.md shows with what the commands of `make selection-example` print.
// With -update it writes it there; the sentences around it then need a look.
func TestSelectionExample(t *testing.T) {
	if kafkatest.Raced || testing.Short() {
		t.Skip("make test-full runs it")
	}
	file, err := filepath.Abs("docs/selection.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	madeObservations(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	report := func(args, name string) string {
		const example = " --from selection-example/run.csv --response y --report selection-example"
		if status, _, stderr := clitest.Weir(ctx, strings.Fields(args+example)...); status != cli.ExitDone {
			t.Fatalf("%s: status %d: %s", args, status, stderr)
		}
		text, err := os.ReadFile(filepath.Join("selection-example", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	selected := report("metrics select", "report.txt")
	compared := report("metrics compare --model linear", "comparison.txt")
	head, _, _ := strings.Cut(selected, "For coverage")
	_, dropped, _ := strings.Cut(selected, "\nDropped ")
	overview, _, _ := strings.Cut(compared, "\nFigure")
	for begin, part := range map[string]string{
		"8 of 628": head,
		"Dropped ": "Dropped " + strings.Join(strings.Split(dropped, "\n")[:5], "\n"),
		"Selectio": overview,
	} {
		block := "```\n" + strings.TrimRight(part, "\n") + "\n```"
		if *clitest.Update {
			shown := regexp.MustCompile("(?s)```\n" + begin + ".*?\n```")
			page = shown.ReplaceAllLiteralString(page, block)
		}
		if len(block) < 100 || !strings.Contains(page, block) {
			t.Errorf("docs/selection.md does not have this block, which begins with %q:\n%s", begin, block)
		}
	}
	if *clitest.Update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompare compares methods on a part of the example: in text, as JSON, and as pictures.
func TestCompare(t *testing.T) {
	if kafkatest.Raced || testing.Short() {
		t.Skip("make test-full runs it")
	}
	madeObservations(t, 12)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const compare = "metrics compare --from selection-example/run.csv --response y "
	status, stdout, stderr := clitest.Weir(ctx, strings.Fields(compare+"--main m0.00*,link.0 --report out --json")...)
	if status != cli.ExitDone {
		t.Fatalf("status %d: %s", status, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want one for each model", len(lines))
	}
	for i, model := range []string{"linear", "quadratic"} {
		var c struct {
			Model      string           `json:"model"`
			Sweep      []map[string]any `json:"sweep"`
			Contenders []struct {
				Method string           `json:"method"`
				Chunks []map[string]any `json:"chunks"`
			} `json:"contenders"`
		}
		if err := json.Unmarshal([]byte(lines[i]), &c); err != nil {
			t.Fatal(err)
		}
		if c.Model != model || len(c.Sweep) != 21 {
			t.Errorf("model %q with %d thresholds, want %q with 21", c.Model, len(c.Sweep), model)
		}
		seen := map[string]bool{}
		for _, k := range c.Contenders {
			seen[k.Method] = len(k.Chunks) == 6
		}
		for _, method := range []string{"literal", "RAND", "MAIN", "forward"} {
			if !seen[method] {
				t.Errorf("%s: %s is not scored on six chunks", model, method)
			}
		}
		text, err := os.ReadFile(filepath.Join("out", model+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		decoder := xml.NewDecoder(strings.NewReader(string(text)))
		for err == nil {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) || !strings.Contains(string(text), "prefers-color-scheme:dark") {
			t.Errorf("%s.svg: %v", model, err)
		}
		if strings.Contains(string(text), "NaN") {
			t.Errorf("%s.svg has positions that are no numbers", model)
		}
	}
	text, err := os.ReadFile("out/comparison.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range []string{
		"Figure 2: ", "Figure 3: in-sample", "Figure 3: adjusted", "Figure 3: held-out", "Figure 4: ",
		"Figures 5 and 6: ",
	} {
		if !strings.Contains(string(text), head) {
			t.Errorf("the tables lack %q", head)
		}
	}
	for args, says := range map[string]string{
		"":                           "--response must name one",
		"--response y,m0.000":        "--response must name one",
		"--response y --chunks 1":    "--chunks 1",
		"--response y --train 12":    "--train 12",
		"--response y --draws 0":     "--draws 0",
		"--response y --model cubic": "cubic",
		"--response y --main nosuch": "nosuch",
		"--response y --main [":      "no pattern",
	} {
		fields := strings.Fields("metrics compare --from selection-example/run.csv " + args)
		if status, _, stderr := clitest.Weir(ctx, fields...); status != cli.ExitUsage || !strings.Contains(stderr, says) {
			t.Errorf("%s: status %d, %q, want one that has %q", args, status, stderr, says)
		}
	}
	few := strings.Fields("metrics compare --from selection-example/run.csv --response link.0 --chunks 48 " +
		"--until 1970-01-01T01:00:00Z")
	status, _, stderr = clitest.Weir(ctx, few...)
	if status != cli.ExitFailed || !strings.Contains(stderr, "fewer chunks") {
		t.Errorf("few rows: status %d, %q", status, stderr)
	}
}
