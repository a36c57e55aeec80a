package fleetapi

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"edgespan/config/httpapi/rest"
)

// docs/rest.md has the tables that the code has.
func TestDocsHaveTheTables(t *testing.T) {
	text, err := os.ReadFile("../../../docs/rest.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{routesTable(), problemsTable()} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/rest.md lacks this table, as it is:\n%s", want)
		}
	}
}

func routesTable() string {
	var b strings.Builder
	b.WriteString("| route | who | query | what |\n|---|---|---|---|\n")
	for _, r := range table {
		who := string(r.Role)
		if who == "" {
			who = "all"
		}
		var query []string
		for _, p := range r.Query {
			if p.Name == "message" || p.Name == "dryRun" {
				continue // documented once, for all writes
			}
			name := p.Name
			if p.Required {
				name += "!"
			}
			query = append(query, name)
		}
		what := r.Summary
		if r.Own != nil {
			what += " (If-Match)"
		}
		fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s |\n", r.Method, r.Path, who, strings.Join(query, " "), what)
	}
	return b.String()
}

func problemsTable() string {
	var rows []string
	for kind, k := range rest.Kinds {
		rows = append(rows, fmt.Sprintf("| %d | `%s` | %s |\n", k.Status, strings.TrimPrefix(kind, "urn:edgespan:problem:"),
			k.Title))
	}
	slices.Sort(rows)
	return "| status | type | title |\n|---|---|---|\n" + strings.Join(rows, "")
}
