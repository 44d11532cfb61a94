package commands_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/commands/clitest"
)

var metricName = regexp.MustCompile(`\bweir_[a-z_]+`)

// shownMetrics are the names that docs/metrics.md lists, which TestMetricsAreWhatThePageSays holds to what weir shows.
func shownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for name, kind := range clitest.ListedMetrics(t) {
		names[name] = true
		if kind == "histogram" {
			names[name+"_bucket"] = true
		}
	}
	if len(names) < 40 {
		t.Fatalf("docs/metrics.md lists %d metrics", len(names))
	}
	return names
}

// TestAlertsAskForWhatIsShown: an alert on a metric that nobody shows never fires.
func TestAlertsAskForWhatIsShown(t *testing.T) {
	t.Parallel()
	known := shownMetrics(t)
	var file struct {
		Groups []struct {
			Rules []struct {
				Record, Alert, Expr string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(clitest.Page(t, "deploy/prometheus/weir.rules.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	recorded, alerts := map[string]bool{}, 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			for _, name := range metricName.FindAllString(r.Expr, -1) {
				if !known[name] {
					t.Errorf("%s%s asks for %s, which docs/metrics.md does not list", r.Record, r.Alert, name)
				}
			}
			for _, name := range regexp.MustCompile(`\bweir:[a-z0-9_:]+`).FindAllString(r.Expr, -1) {
				if !recorded[name] {
					t.Errorf("%s%s asks for %s, which no rule before it records", r.Record, r.Alert, name)
				}
			}
			if recorded[r.Record] = true; r.Alert == "" {
				continue
			}
			alerts++
			severity := r.Labels["severity"]
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" ||
				severity != "critical" && severity != "warning" {
				t.Errorf("%s has no summary, no remedy, or no severity", r.Alert)
			}
		}
	}
	if alerts < 10 {
		t.Errorf("%d alerts", alerts)
	}
}

// TestDashboardsAreOfGrafanasSchema: Grafana's own types know every field of the dashboards, their panels and queries.
func TestDashboardsAreOfGrafanasSchema(t *testing.T) {
	t.Parallel()
	plugins.RegisterDefaultPlugins()
	for _, name := range []string{"services", "jobs"} {
		text, err := os.ReadFile("deploy/grafana/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if wrong := outsideGrafanasSchema(text); wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
		for _, field := range []string{"gridPos", "displayMode", "unit"} {
			other := bytes.Replace(text, []byte(`"`+field+`":`), []byte(`"ours":`), 1)
			if outsideGrafanasSchema(other) == "" {
				t.Errorf("%s: a panel may have a field that Grafana does not know in place of %s", name, field)
			}
		}
	}
}

// outsideGrafanasSchema tells which fields of a dashboard Grafana does not know, and which it lacks.
func outsideGrafanasSchema(text []byte) string {
	var board dashboard.Dashboard //nolint:staticcheck // older Grafanas have no other form, and newer ones import it
	said := []error{board.UnmarshalJSONStrict(text), board.Validate()}
	var panels struct {
		Panels []struct{ FieldConfig json.RawMessage } // of which a dashboard is not strict
	}
	said = append(said, json.Unmarshal(text, &panels))
	for _, p := range panels.Panels {
		said = append(said, new(dashboard.FieldConfigSource).UnmarshalJSONStrict(p.FieldConfig))
	}
	for _, err := range said {
		if err != nil && err.Error() != "" { // where all is well, Grafana's types return an empty list
			return err.Error()
		}
	}
	return ""
}

// TestDashboards: each panel has a place of its own, says what it shows, and asks for what there is.
func TestDashboards(t *testing.T) {
	t.Parallel()
	known := shownMetrics(t)
	files, err := filepath.Glob("deploy/grafana/*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("%v: %v", files, err)
	}
	uids := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			UID, Title    string
			SchemaVersion int
			Templating    struct {
				List []struct{ Name, Type, Query string }
			}
			Panels []struct {
				ID                       int
				Type, Title, Description string
				GridPos                  struct{ X, Y, W, H int }
				Targets                  []struct{ RefID, Expr, RawSQL string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if board.UID == "" || uids[board.UID] || board.Title == "" || board.SchemaVersion < 39 {
			t.Errorf("%s: uid %q, title %q, schema version %d", name, board.UID, board.Title, board.SchemaVersion)
		}
		uids[board.UID] = true
		variables := map[string]bool{"__timeFrom": true, "__timeTo": true}
		for _, v := range board.Templating.List {
			variables[v.Name] = true
		}
		for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(string(text), -1) {
			if !variables[m[1]] {
				t.Errorf("%s uses %s, which is no variable of it", name, m[0])
			}
		}
		ids, cells := map[int]bool{}, map[[2]int]string{}
		for _, p := range board.Panels {
			if ids[p.ID] || p.Title == "" || p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
				t.Errorf("%s: panel %d %q: an id of another, no title, no description or no query", name, p.ID, p.Title)
			}
			ids[p.ID] = true
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if other := cells[at]; other != "" || at[0] >= 24 {
						t.Fatalf("%s: panel %q lies on %q at %v", name, p.Title, other, at)
					}
					cells[at] = p.Title
				}
			}
			for _, target := range p.Targets {
				if (target.Expr == "") == (target.RawSQL == "") || target.RefID == "" {
					t.Errorf("%s: %q asks nothing", name, p.Title)
				}
				for _, metric := range metricName.FindAllString(target.Expr, -1) {
					if !known[metric] {
						t.Errorf("%s: %q asks for %s, which docs/metrics.md does not list", name, p.Title, metric)
					}
				}
				// The data source quotes a variable by itself, or not. With :sqlstring it is quoted once anyway.
				if v := regexp.MustCompile(`\$\{\w+\}`).FindString(target.RawSQL); v != "" {
					t.Errorf("%s: %q has %s without :sqlstring", name, p.Title, v)
				}
				if strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") {
					t.Errorf("%s: %q has an open bracket: %s", name, p.Title, target.Expr)
				}
			}
		}
	}
}
