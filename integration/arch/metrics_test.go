package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	ctlmetrics "edgespan/actors/controller/metrics"
	nodemetrics "edgespan/actors/node/metrics"
	"edgespan/config/httpapi/metrics"
)

// metricTables are the tables of docs/metrics.md, by their headings.
var metricTables = map[string]*metrics.Table{
	"Metrics of a node":       &nodemetrics.Table,
	"Metrics of a controller": &ctlmetrics.Table,
}

// metricName is edgespan_<subsystem>_<what>, with a unit where there is one; a counter ends with _total.
var metricName = regexp.MustCompile(`^edgespan(_[a-z0-9]+){2,}$`)

func TestEveryMetricIsDocumentedAndNamedAsTheOthers(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for heading, table := range metricTables {
		want := "## " + heading + "\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n"
		for _, m := range table.Metrics() {
			if !metricName.MatchString(m.Name) || strings.HasSuffix(m.Name, "_total") != (m.Kind == metrics.KindCounter) {
				t.Errorf("%s: a name is edgespan_<subsystem>_<what>_<unit>, and ends with _total if it is a counter", m.Name)
			}
			if !strings.HasSuffix(m.Help, ".") || len(m.Help) < 15 {
				t.Errorf("%s: the help %q is no sentence", m.Name, m.Help)
			}
			labels := ""
			if len(m.Labels) > 0 {
				labels = "`" + strings.Join(m.Labels, "` `") + "`"
			}
			want += fmt.Sprintf("| `%s` | %s | %s | %s |\n", m.Name, m.Kind, labels, m.Help)
		}
		if len(table.Metrics()) < 10 || !strings.Contains(string(page), want) {
			t.Errorf("docs/metrics.md has not this text:\n%s", want)
		}
	}
}
