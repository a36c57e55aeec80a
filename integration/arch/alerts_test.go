package arch

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"edgespan/config/httpapi/metrics"
)

// alertRule is a rule of deploy/prometheus/alerts.yaml.
type alertRule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alertRules(t *testing.T) (all []alertRule) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alertRule }
	}
	text, err := os.ReadFile(filepath.Join(root(t), "deploy/prometheus/alerts.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// TestEveryAlertHasItsRunbook compares the alerts with the sections of docs/operations.md, in order.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sections, names []string
	for _, m := range regexp.MustCompile(`(?m)^#### (Edgespan\w+)\n\n([^#\n].+\n)`).FindAllStringSubmatch(string(page), -1) {
		sections = append(sections, m[1])
	}
	for _, r := range alertRules(t) {
		names = append(names, r.Alert)
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["runbook"] != "docs/operations.md#"+strings.ToLower(r.Alert) {
			t.Errorf("%s: annotations %q", r.Alert, r.Annotations)
		}
	}
	if slices.Sort(names); len(names) < 20 {
		t.Errorf("%d alerts", len(names))
	}
	if slices.Sort(sections); !slices.Equal(names, sections) {
		t.Errorf("the alerts are\n%q, and docs/operations.md has\n%q", names, sections)
	}
}

// targetLabels are those that Prometheus adds to each series.
var targetLabels = []string{"job", "instance"}

// measured are the labels of each series by its name, of both programs, and of those that Go, the process and
// Prometheus itself add.
func measured() map[string][]string {
	out := map[string][]string{"up": nil, "process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil,
		"edgespan_metrics_left_out_series": nil}
	for _, table := range metricTables {
		for _, m := range table.Metrics() {
			labels := append(slices.Clone(m.Labels), targetLabels...)
			if m.Kind != metrics.KindHistogram {
				out[m.Name] = append(out[m.Name], labels...)
				continue
			}
			out[m.Name+"_bucket"] = append(labels, "le")
			out[m.Name+"_sum"], out[m.Name+"_count"] = labels, labels
		}
	}
	for name, labels := range out {
		out[name] = append(labels, targetLabels...)
	}
	return out
}

var (
	quotedText = regexp.MustCompile(`"(\\.|[^"\\])*"|'[^']*'`)
	selector   = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?`)
	grouping   = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	matcher    = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)`)
	seriesName = regexp.MustCompile(`^(edgespan|process|go)_|^up$`)
)

// unmeasured returns what a query names that no program measures: series, and labels that none of its series has.
func unmeasured(query string, known map[string][]string) (wrong []string) {
	query = quotedText.ReplaceAllString(query, `""`)
	var has []string
	named := 0
	for _, m := range selector.FindAllStringSubmatch(query, -1) {
		if !seriesName.MatchString(m[1]) {
			continue
		}
		named++
		labels, exists := known[m[1]]
		if !exists {
			wrong = append(wrong, "series "+m[1])
		}
		has = append(has, labels...)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if exists && !slices.Contains(labels, l[1]) {
				wrong = append(wrong, m[1]+" with label "+l[1])
			}
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(query, -1) {
		for _, l := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			if !slices.Contains(has, l) {
				wrong = append(wrong, "label "+l)
			}
		}
	}
	if named == 0 {
		wrong = append(wrong, "no series")
	}
	return wrong
}

func TestAlertsNameWhatIsMeasured(t *testing.T) {
	known := measured()
	variable := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, r := range alertRules(t) {
		for _, w := range unmeasured(r.Expr, known) {
			t.Errorf("%s: %s", r.Alert, w)
		}
		var labels []string
		for name, of := range known {
			if strings.Contains(r.Expr, name) {
				labels = append(labels, of...)
			}
		}
		for _, m := range variable.FindAllStringSubmatch(r.Annotations["summary"], -1) {
			if !slices.Contains(labels, m[1]) {
				t.Errorf("%s: the summary has label %s", r.Alert, m[1])
			}
		}
	}
	for query, want := range map[string]string{
		`sum by (adapter) (rate(edgespan_adapter_receive_bytes_total{instance=~"$node"}[5m])) * on (adapter) group_left (app) ` +
			`edgespan_adapter_info`: "[]",
		`edgespan_adapter_recieve_bytes_total > 0`:             "[series edgespan_adapter_recieve_bytes_total]",
		`sum by (app) (edgespan_node_ready{network="x"}) + up`: "[edgespan_node_ready with label network label app]",
		`edgespan_reconcile_duration_seconds{result="failed"}`: "[series edgespan_reconcile_duration_seconds]",
		`vector(1)`: "[no series]", `process_open_fds{job="x"}`: "[series process_open_fds]",
	} {
		if got := fmt.Sprint(unmeasured(query, known)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// dashboard is what these tests read of a dashboard of Grafana.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Refresh       string
	Time          struct{ From string }
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               map[string]string
		GridPos                  struct{ H, W, X, Y int }
		Targets                  []struct {
			Expr, RefID, LegendFormat string
			Datasource                map[string]string
		}
		FieldConfig struct {
			Defaults struct{ Unit string }
		}
	}
}

// TestDashboardsShowWhatIsMeasured reads the dashboards: each series and label exists, each variable is defined, and
// each panel has a unit, a description and a place of its own.
func TestDashboardsShowWhatIsMeasured(t *testing.T) {
	known := measured()
	files, err := filepath.Glob(filepath.Join(root(t), "deploy/grafana/*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	used := regexp.MustCompile(`\$\{?(\w+)`)
	inLegend := regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, file := range files {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.UID == "" || d.Title == "" || d.SchemaVersion < 38 || len(d.Panels) < 10 || d.Time.From == "" {
			t.Errorf("%s: %q %q, schema %d, %d panels", name, d.UID, d.Title, d.SchemaVersion, len(d.Panels))
		}
		defined := map[string]bool{"__rate_interval": true, "__all": true}
		for _, v := range d.Templating.List {
			defined[v.Name] = true
			if q, ok := v.Query.(map[string]any); ok {
				m := values.FindStringSubmatch(q["query"].(string))
				if m == nil || len(unmeasured(m[1], known)) > 0 || !slices.Contains(known[selector.FindStringSubmatch(m[1])[1]], m[2]) {
					t.Errorf("%s: variable %s: %v", name, v.Name, q)
				}
			}
		}
		for _, m := range used.FindAllStringSubmatch(string(text), -1) {
			if !defined[m[1]] {
				t.Errorf("%s: $%s is not defined", name, m[1])
			}
		}
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if at := [2]int{x, y}; taken[at] != "" || x >= 24 {
						t.Fatalf("%s: %q is where %q is, at %v", name, p.Title, taken[at], at)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: %q has the id %d of another", name, p.Title, p.ID)
			}
			if ids[p.ID] = true; p.Type == "row" {
				continue
			}
			if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 ||
				!maps.Equal(p.Datasource, map[string]string{"type": "prometheus", "uid": "${datasource}"}) {
				t.Errorf("%s: %+v has no title, description, unit or query", name, p)
			}
			for _, q := range p.Targets {
				for _, w := range unmeasured(q.Expr, known) {
					t.Errorf("%s: %s: %s", name, p.Title, w)
				}
				var labels []string
				for series, of := range known {
					if strings.Contains(q.Expr, series) {
						labels = append(labels, of...)
					}
				}
				for _, m := range inLegend.FindAllStringSubmatch(q.LegendFormat, -1) {
					if !slices.Contains(labels, m[1]) {
						t.Errorf("%s: %s: the legend has label %s", name, p.Title, m[1])
					}
				}
			}
		}
	}
}
