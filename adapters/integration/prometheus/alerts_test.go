package prometheus

import (
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// rules are the shipped alert rules.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile("../../../ops/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.LegacyValidation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var list []rulefmt.Rule
	for _, g := range groups.Groups {
		list = append(list, g.Rules...)
	}
	return list
}

// story is what happens, a value each minute, and whether an alert fires in the end.
type story struct {
	alert, series string
	fires         bool
}

// hours is how long a story lasts.
const hours = 6 * time.Hour

// TestAlerts: each alert fires in the story that it is for, with what its texts name, and not in its neighbour.
func TestAlerts(t *testing.T) {
	told := map[string][]bool{}
	for _, s := range stories {
		told[s.alert] = append(told[s.alert], s.fires)
	}
	list := rules(t)
	for _, r := range list {
		if got := told[r.Alert]; !slices.Contains(got, true) || !slices.Contains(got, false) {
			t.Errorf("%s: the stories tell %v, and it has to fire in one and not in another", r.Alert, got)
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks its severity, summary or description", r.Alert)
		}
		delete(told, r.Alert)
	}
	for alert := range told {
		t.Errorf("there is no alert %s", alert)
	}
	for _, s := range stories {
		for _, r := range list {
			if r.Alert == s.alert {
				t.Run(s.alert, func(t *testing.T) { play(t, s, r) })
			}
		}
	}
}

// play evaluates the rule of a story at its end, and all through the time for which it has to hold.
func play(t *testing.T, s story, r rulefmt.Rule) {
	storage := promqltest.LoadedStorage(t, "load 1m\n"+s.series)
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	end := time.Unix(0, 0).Add(hours)
	held := map[string]int{}
	steps := 0
	for at := end.Add(-time.Duration(r.For)); !at.After(end); at = at.Add(time.Minute) {
		steps++
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, r.Expr, at)
		if err != nil {
			t.Fatal(err)
		}
		vector, err := query.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatal(err)
		}
		for _, sample := range vector {
			held[sample.Metric.String()]++
			lacking(t, r, sample)
		}
		query.Close()
	}
	fires := false
	for _, n := range held {
		fires = fires || n == steps
	}
	if fires != s.fires {
		t.Errorf("fires: %v, want %v; %d of %d steps: %v", fires, s.fires, len(held), steps, held)
	}
}

// lacking reports labels that the texts of an alert name and the alert has not.
func lacking(t *testing.T, r rulefmt.Rule, sample promql.Sample) {
	for _, text := range r.Annotations {
		for _, part := range strings.Split(text, "$labels.")[1:] {
			name := strings.FieldsFunc(part, func(c rune) bool { return c == ' ' || c == '}' })[0]
			if sample.Metric.Get(name) == "" {
				t.Errorf("%q names the label %s, which %s has not", text, name, sample.Metric)
			}
		}
	}
}

// TestExpressionsOfDashboard: the dashboard's expressions are PromQL, once Grafana has put in what stands for times and
// nodes.
func TestExpressionsOfDashboard(t *testing.T) {
	text, err := os.ReadFile("../../../ops/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	put := strings.NewReplacer("$__rate_interval", "1m", "$instance", "a|b")
	seen := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			seen++
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(put.Replace(target.Expr)); err != nil {
				t.Errorf("%s: %s: %v", p.Title, target.Expr, err)
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d expressions", seen)
	}
}
