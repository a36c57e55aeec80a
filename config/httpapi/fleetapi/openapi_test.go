package fleetapi

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
)

// served returns the description as a caller gets it.
func served(t *testing.T) config.Object {
	t.Helper()
	w := ask(Handler(&fake{}, rest.WithVersion("1.2.3")), asked{method: "GET", target: "/api/v1/openapi.json"})
	o, faults := config.ParseObject(w.Body.Bytes())
	if w.Code != 200 || len(faults) > 0 {
		t.Fatalf("%d %v", w.Code, faults)
	}
	return o
}

func at2(t *testing.T, o config.Object, path ...string) config.Object {
	t.Helper()
	v, _ := config.Lookup(o, path)
	out, ok := v.(config.Object)
	if !ok {
		t.Fatalf("%q: is %v", path, v)
	}
	return out
}

func TestTheDescriptionHasEveryRow(t *testing.T) {
	doc := served(t)
	if doc["openapi"] != "3.1.0" || at2(t, doc, "info")["version"] != "1.2.3" {
		t.Errorf("%v %v", doc["openapi"], doc["info"])
	}
	ids := map[any]bool{}
	for _, r := range table {
		op := at2(t, doc, "paths", r.Path, strings.ToLower(r.Method))
		if ids[op["operationId"]] || op["summary"] == "" {
			t.Errorf("%s %s: %v, %v", r.Method, r.Path, op["operationId"], op["summary"])
		}
		ids[op["operationId"]] = true
		at2(t, op, "responses", strconv.Itoa(r.Status), "content", r.Kind(), "schema")
		at2(t, op, "responses", "default")
		var names []string
		for _, p := range op["parameters"].([]any) {
			p := p.(config.Object)
			names = append(names, fmt.Sprint(p["in"], " ", p["name"]))
			at2(t, p, "schema")
		}
		for _, s := range strings.Split(r.Path, "/") {
			if anySegment(s) && !slices.Contains(names, "path "+strings.Trim(s, "{}")) {
				t.Errorf("%s %s: lacks %s", r.Method, r.Path, s)
			}
		}
		for _, p := range r.Query {
			if !slices.Contains(names, "query "+p.Name) || p.Summary == "" {
				t.Errorf("%s %s: lacks %s", r.Method, r.Path, p.Name)
			}
		}
		if (r.Own != nil) != slices.Contains(names, "header If-Match") ||
			len(names) != len(slices.Compact(slices.Sorted(slices.Values(names)))) {
			t.Errorf("%s %s: %q", r.Method, r.Path, names)
		}
		if _, has := op["security"]; has != (r.Role != "") {
			t.Errorf("%s %s: security %t", r.Method, r.Path, has)
		}
		if _, has := op["requestBody"]; has != (r.Body != nil) {
			t.Errorf("%s %s: body %t", r.Method, r.Path, has)
		}
	}
	count := 0
	for _, p := range at2(t, doc, "paths") {
		count += len(p.(config.Object))
	}
	if count != len(table) {
		t.Errorf("%d operations for %d rows", count, len(table))
	}
}

// Every reference leads to a schema, and every schema is referenced.
func TestTheDescriptionIsWhole(t *testing.T) {
	doc := served(t)
	used := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case config.Object:
			if ref, has := v["$ref"].(string); has {
				used[ref] = true
				at2(t, doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
			for _, one := range v {
				walk(one)
			}
		case []any:
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(doc)
	for name := range at2(t, doc, "components", "schemas") {
		if !used["#/components/schemas/"+name] {
			t.Errorf("schema %s: nobody refers to it", name)
		}
	}
}

// resolved returns a schema of the description with its references replaced, so that answers are checked against the
// served description, not against the code's idea of it.
func resolved(t *testing.T, doc config.Object, v any) any {
	switch v := v.(type) {
	case config.Object:
		if ref, has := v["$ref"].(string); has {
			return resolved(t, doc, at2(t, doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
		}
		out := config.Object{}
		for k, one := range v {
			out[k] = resolved(t, doc, one)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = resolved(t, doc, one)
		}
		return out
	}
	return v
}

// firstLine returns the part of the description that concerns a row.
func firstLine(r *row, text []byte) []byte {
	if r.Events {
		text = bytes.TrimPrefix(text, []byte("event: state\ndata: "))
		text, _, _ = bytes.Cut(text, []byte("\n\n"))
	}
	if r.Lines {
		text, _, _ = bytes.Cut(text, []byte("\n"))
	}
	return text
}

func TestAnswersAreAsDescribed(t *testing.T) {
	doc := served(t)
	h := Handler(&fake{}, WithTokens(fakeHash))
	for _, c := range routeCases {
		method, target, _ := strings.Cut(c.ask, " ")
		if !strings.HasPrefix(target, "/") {
			target = Prefix + target
		}
		path, _, _ := strings.Cut(target, "?")
		r := match(table, method, path).row
		w := ask(h, asked{method: method, target: target, body: c.body, token: "t-admin"})
		op := at2(t, doc, "paths", r.Path, strings.ToLower(method))
		s := resolved(t, doc, at2(t, op, "responses", strconv.Itoa(w.Code), "content", r.Kind(), "schema")).(config.Object)
		v, _ := config.Parse(firstLine(r, w.Body.Bytes()))
		if r.Text || r.Zipped {
			v = w.Body.String()
		}
		if faults := checkSchema(s, v, nil); len(faults) > 0 {
			t.Errorf("%s: %v", c.ask, faults)
		}
		if r.Body != nil {
			s := resolved(t, doc, at2(t, op, "requestBody", "content", "application/json", "schema")).(config.Object)
			v, _ := config.Parse([]byte(c.body))
			if faults := checkSchema(s, v, nil); len(faults) > 0 {
				t.Errorf("%s: body: %v", c.ask, faults)
			}
		}
	}
	w := ask(h, asked{method: http.MethodPut, target: Prefix + "layers/network", body: `{"a":1,"a":1}`, token: "t-admin"})
	s := resolved(t, doc, at2(t,
		doc, "components", "responses", "Problem", "content", "application/problem+json", "schema")).(config.Object)
	v, _ := config.Parse(w.Body.Bytes())
	if faults := checkSchema(s, v, nil); len(faults) > 0 || w.Code != 400 {
		t.Errorf("a problem: %d %v", w.Code, faults)
	}
}

func TestCheckSchema(t *testing.T) {
	s := schemaOf(typeOf[EditionDetail]())
	for text, faults := range map[string]string{
		`{"number":1,"author":"a","time":"2026-01-02T03:04:05Z","layers":["x"],"changes":[]}`: "",
		`{"number":-1,"author":5,"time":"soon","layers":"x","changes":[{}],"more":1}`: "author: invalid type integer: " +
			"must be string\n" +
			"changes.0.after: required\nchanges.0.before: required\nchanges.0.layer: " +
			"required\nchanges.0.values: required\n" +
			"layers: invalid type string: must be array\nmore: unknown field: must be author, changes, layers, message, " +
			"number or time\nnumber: invalid value -1: must be 0 or more\n" +
			"time: invalid value \"soon\": must be a time such as 2006-01-02T15:04:05Z",
		`[]`: "invalid type array: must be object",
	} {
		v, _ := config.Parse([]byte(text))
		got := checkSchema(s, v, nil)
		got.Sort()
		if got.Error() != faults {
			t.Errorf("%s\n got    %s\n wanted %s", text, got.Error(), faults)
		}
	}
}
