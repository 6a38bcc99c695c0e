package metrics

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write ops/METRICS.md")

// reference is the table of all families.
func reference(m *Meter) string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nMade by `go test ./adapters/metrics -run TestReference -update`. In `_stats` a " +
		"metric that CouchDB does not have\nis below `couchrelay`, under its name. Beside these there are those of " +
		"Go (`go_...`) and the process\n(`process_...`).\n\n" +
		"| metric | type | labels | in `_stats` | tells |\n|---|---|---|---|---|\n")
	families := m.Families()
	slices.SortFunc(families, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range families {
		labels, couch := "", ""
		if len(f.Labels) > 0 {
			labels = "`" + strings.Join(f.Labels, "`, `") + "`"
		}
		if f.Couch != "" {
			couch = "`" + f.Couch + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Kind, labels, couch, f.Help)
	}
	return b.String()
}

// TestReference: the reference has every family, as the code has it.
func TestReference(t *testing.T) {
	const path = "../../ops/METRICS.md"
	want := reference(exercised())
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the code says (%v); run this test with -update", path, err)
	}
	told := map[string]bool{}
	for key := range read(t, exercised(), whole()) {
		name, _, _ := strings.Cut(key, "{")
		if told[name] = true; !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") &&
			!strings.Contains(want, "`"+name+"`") {
			t.Errorf("%s is told, and not in the reference", name)
		}
	}
	for _, f := range exercised().Families() {
		if !told[f.Name] {
			t.Errorf("%s is in the reference, and not told", f.Name)
		}
	}
}

var (
	metricName = regexp.MustCompile(`\b(?:couchrelay|couchdb|process|go)_[a-z_]+`)
	selector   = regexp.MustCompile(`\b((?:couchrelay|couchdb)_[a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)(=~|=|!=)"([^"]*)"`)
)

// checkNames reports metrics that a text of PromQL names and that are not told, and selectors that match nothing.
func checkNames(t *testing.T, file, text string) {
	t.Helper()
	m := exercised()
	got := read(t, m, whole())
	for _, name := range metricName.FindAllString(text, -1) {
		family := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if f, is := m.families[strings.TrimSuffix(name, suffix)]; is {
				family = f.Name
			}
		}
		told := func(key string) bool { return key == family || strings.HasPrefix(key, family+"{") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(got)), told) {
			t.Errorf("%s names %s, which is not told", file, name)
		}
	}
	for _, s := range selector.FindAllStringSubmatch(text, -1) {
		for _, match := range matcher.FindAllStringSubmatch(s[2], -1) {
			if match[1] == "instance" {
				continue // Prometheus makes it
			}
			family := m.families[strings.TrimSuffix(s[1], "_bucket")]
			if !slices.Contains(family.Labels, match[1]) {
				t.Errorf("%s selects by %s of %s, which has the labels %q", file, match[1], s[1], family.Labels)
			}
		}
	}
}

// TestAlertsNameWhatIsTold: the metrics of the alerts are told. Whether they fire is a test of adapters/integration.
func TestAlertsNameWhatIsTold(t *testing.T) {
	text, err := os.ReadFile("../../ops/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "- alert: "); n < 15 {
		t.Errorf("%d alerts", n)
	}
	checkNames(t, "alerts.yml", string(text))
}

// dashboard is what Grafana needs of one.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type string }
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ RefID, Expr, LegendFormat string }
	Datasource               struct{ UID string }
}

// TestDashboard: each panel has a place of its own, a title, a description, a unit and expressions whose metrics are
// told.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../ops/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title != "couchrelay" || d.UID == "" || d.SchemaVersion < 36 || len(d.Panels) < 20 {
		t.Errorf("%s %s of version %d with %d panels", d.Title, d.UID, d.SchemaVersion, len(d.Panels))
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q has no number or title of its own", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s is at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if there := cells[[2]int{x, y}]; there != "" {
					t.Fatalf("%s lies on %s", p.Title, there)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" {
			checkPanel(t, p)
		}
	}
}

func checkPanel(t *testing.T, p panel) {
	t.Helper()
	if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 ||
		p.Datasource.UID != "${datasource}" {
		t.Errorf("%s lacks its description, unit, source or expressions: %+v", p.Title, p)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if target.RefID == "" || refs[target.RefID] || target.Expr == "" || target.LegendFormat == "" {
			t.Errorf("%s: %+v", p.Title, target)
		}
		refs[target.RefID] = true
		checkNames(t, "the panel "+p.Title, target.Expr)
	}
}

// TestStatsTellAll: every family of couchrelay is in _stats, at its place.
func TestStatsTellAll(t *testing.T) {
	m := exercised()
	tree, err := m.Stats(whole(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range m.Families() {
		at, path := any(tree), f.Couch
		if path == "" {
			path = "couchrelay/" + strings.TrimPrefix(strings.TrimPrefix(f.Name, "couchrelay_"), "couchdb_")
		}
		for name := range strings.SplitSeq(path, "/") {
			at = Below(at, name)
		}
		if at == nil {
			t.Errorf("%s is not at %s", f.Name, path)
		}
	}
}
