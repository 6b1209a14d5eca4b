package metrics

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// panel is one of a dashboard of Grafana.
type panel struct {
	Type, Title string
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ Expr string }
}

var (
	metricNames = regexp.MustCompile(`\bfloe_[a-z0-9_]+`)
	parts       = regexp.MustCompile(`_(bucket|count|sum)$`)
	groupings   = regexp.MustCompile(`\b(?:by|on) \(([a-z, ]+)\)`)
	selectors   = regexp.MustCompile(`(floe_[a-z0-9_]+)\{([^}]*)\}`)
	matchers    = regexp.MustCompile(`([a-z]+)(?:=~|!=|=)"`)
)

// TestMonitoringExamples: the alerts and the dashboard of examples/monitoring are about metrics and
// labels that there are, and each panel has the unit of what it shows.
func TestMonitoringExamples(t *testing.T) {
	labels := map[string][]string{} // by metric
	for _, d := range descriptions {
		text := d.String()
		name, rest, _ := strings.Cut(strings.TrimPrefix(text, `Desc{fqName: "`), `"`)
		_, variable, _ := strings.Cut(rest, "variableLabels: {")
		labels[name] = strings.Split(strings.TrimRight(variable, "}"), ",")
	}
	check := func(where, expr string) {
		t.Helper()
		own := []string{"instance", "job", "le"}
		for _, name := range metricNames.FindAllString(expr, -1) {
			of, known := labels[parts.ReplaceAllString(name, "")]
			if !known {
				t.Errorf("%s: there is no metric %s", where, name)
			}
			own = append(own, of...)
		}
		for _, s := range selectors.FindAllStringSubmatch(expr, -1) {
			of := append([]string{"instance", "job", "le"}, labels[parts.ReplaceAllString(s[1], "")]...)
			for _, m := range matchers.FindAllStringSubmatch(s[2], -1) {
				if !slices.Contains(of, m[1]) {
					t.Errorf("%s: %s has no label %s", where, s[1], m[1])
				}
			}
		}
		for _, g := range groupings.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(g[1], ", ") {
				if !slices.Contains(own, label) {
					t.Errorf("%s: nothing has a label %s: %s", where, label, expr)
				}
			}
		}
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("../../examples/monitoring", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	alerts := regexp.MustCompile(`(?m)^ +expr: (.*)$`).FindAllStringSubmatch(string(read("alerts.yml")), -1)
	if len(alerts) == 0 {
		t.Error("there are no alerts")
	}
	for _, a := range alerts {
		check("alerts.yml", a[1])
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(read("grafana.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			shown++
			check("panel "+p.Title, target.Expr)
			if want := unitOf(target.Expr); p.FieldConfig.Defaults.Unit != want {
				t.Errorf("panel %s: the unit is %q, want %q: %s", p.Title, p.FieldConfig.Defaults.Unit, want, target.Expr)
			}
		}
	}
	if shown == 0 {
		t.Error("the dashboard shows nothing")
	}
}

// unitOf returns the unit, as Grafana calls it, of what an expression gives.
func unitOf(expr string) string {
	has := func(pattern string) bool { return regexp.MustCompile(pattern).MatchString(expr) }
	switch {
	case has(`[})] / `):
		return "percentunit"
	case has(`^60 \* `): // a minute, which Grafana has no unit for
		return "short"
	case has(`rate\([a-z_]+_bytes_total`):
		return "Bps"
	case has(`rate\(`) && !has(`_seconds_bucket`):
		return "ops"
	case has(`_seconds`):
		return "s"
	case has(`_bytes`):
		return "bytes"
	}
	return "short"
}
