package configdbapi

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"edgespan/config"
)

const page = "../../../docs/configdb.md"

var show = flag.Bool("show", false, "print what the examples of docs/configdb.md are answered with")

// docs/configdb.md has the table that the code has.
func TestThePageHasTheTable(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := routesTable(); !strings.Contains(string(text), want) {
		t.Errorf("docs/configdb.md lacks this table, as it is:\n%s", want)
	}
}

func routesTable() string {
	var b strings.Builder
	b.WriteString("| route | who | query | what |\n|---|---|---|---|\n")
	for _, r := range table {
		who := string(r.Role)
		switch r.Own {
		case nodeReads, nodeWrites:
			who += ", node"
		case nodeItself:
			who += ", itself"
		case nodeNot:
		}
		var query []string
		for _, p := range r.Query {
			if p.Name != "message" && p.Name != "dryRun" { // documented once, for all writes
				query = append(query, p.Name)
			}
		}
		method, what := r.Method, r.Summary
		if r.Patch {
			method += ", PATCH"
		}
		if r.Bound {
			what += " (If-Match)"
		}
		fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s |\n", method, r.Path, who, strings.Join(query, " "), what)
	}
	return b.String()
}

// Each example of the page is answered as written there, one after the other, by the ledger. A body of … stands for an
// answer that is too long for the page.
func TestEveryExampleOfThePage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(newReal(t), door{})
	blocks := strings.Split(string(text), "```http\n")[1:]
	if len(blocks) < 10 {
		t.Errorf("there are %d examples", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		question, answer, _ := strings.Cut(strings.TrimRight(block, "\n"), "\n\n")
		first, header, body := message(question)
		method, target, _ := strings.Cut(first, " ")
		r := httptest.NewRequest(method, "https://controller:8443"+target, strings.NewReader(body))
		r.Header = header
		r.Header.Set("X-Auth-Token", "admin")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		status, want, desired := message(answer)
		if *show {
			fmt.Printf("%s\n%d %v\n%s\n\n", question, w.Code, w.Header(), w.Body)
		}
		if fmt.Sprint(w.Code) != status || desired != "…" && w.Body.String() != desired {
			t.Errorf("%s\nis answered with %d %s", question, w.Code, w.Body)
		}
		for name := range want {
			if w.Header().Get(name) != want.Get(name) {
				t.Errorf("%s\nis answered with %s: %s", question, name, w.Header().Get(name))
			}
		}
	}
}

// message reads a first line, header lines, and a body.
func message(text string) (first string, header http.Header, body string) {
	header = http.Header{}
	first, rest, _ := strings.Cut(text, "\n")
	for rest != "" {
		line, more, _ := strings.Cut(rest, "\n")
		name, value, ok := strings.Cut(line, ": ")
		if !ok || strings.ContainsAny(name, `{["`) {
			return first, header, rest
		}
		header.Set(name, value)
		rest = more
	}
	return first, header, ""
}

// The description has each row, with its own parameters, and every reference leads to something.
func TestOpenAPI(t *testing.T) {
	d := describe(table, Prefixes[0], "v1")
	paths := d["paths"].(config.Object)
	ids := map[string]bool{}
	for _, r := range table {
		methods := []string{r.Method}
		if r.Patch {
			methods = append(methods, "PATCH")
		}
		for _, m := range methods {
			o, ok := paths["/"+r.Path].(config.Object)[strings.ToLower(m)].(config.Object)
			if !ok {
				t.Errorf("%s %s: required", m, r.Path)
				continue
			}
			if id := o["operationId"].(string); ids[id] {
				t.Errorf("%s %s: its id %s is another's", m, r.Path, id)
			} else {
				ids[id] = true
			}
			if n := strings.Count(r.Path, "{") + len(r.Query); len(o["parameters"].([]any)) < n {
				t.Errorf("%s %s: has not its %d parameters", m, r.Path, n)
			}
		}
	}
	schemas := d["components"].(config.Object)["schemas"].(config.Object)
	for name, s := range schemas {
		if _, ok := s.(config.Object); !ok {
			t.Errorf("%s: has no schema", name)
		}
	}
	text := string(config.AppendCanonical(nil, d))
	for _, ref := range strings.Split(text, `"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(ref, `"`)
		if _, ok := schemas[name]; !ok {
			t.Errorf("%s: leads nowhere", name)
		}
	}
	for _, name := range []string{"Component", "Definition", "Environment", "Level", "Node", "Version", "Record",
		"Message"} {
		if _, ok := schemas[name]; !ok {
			t.Errorf("%s: is not described", name)
		}
	}
}
