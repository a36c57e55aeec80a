package fleetapi

import (
	"reflect"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
)

func serveOpenAPI(a *api, _ *call) (reply, error) {
	return a.described()
}

// describe is the OpenAPI 3.1 document of a table.
func describe(rows []row, version string) config.Object {
	components := config.Object{}
	ref := schemas.Components(components)
	paths := config.Object{}
	for i := range rows {
		at, _ := paths[rows[i].path].(config.Object)
		if at == nil {
			at = config.Object{}
			paths[rows[i].path] = at
		}
		at[strings.ToLower(rows[i].method)] = operation(&rows[i], ref)
	}
	problem := config.Object{"content": config.Object{
		"application/problem+json": config.Object{"schema": ref(reflect.TypeFor[Problem]())},
	}}
	problem["description"] = "what is wrong (RFC 9457)"
	return config.Object{
		"openapi": "3.1.0",
		"info": config.Object{
			"title": "edgespan-controller", "version": version,
			"description": "The configuration of a fleet. A document's ETag is its revision; a write takes it in If-Match.",
		},
		"paths": paths,
		"components": config.Object{
			"schemas":         components,
			"responses":       config.Object{"Problem": problem},
			"securitySchemes": config.Object{"token": config.Object{"type": "http", "scheme": "bearer"}},
		},
	}
}

func operation(r *row, ref func(reflect.Type) config.Object) config.Object {
	o := config.Object{
		"operationId": operationID(r), "summary": r.summary, "parameters": parameters(r),
		"responses": config.Object{
			strconv.Itoa(r.status): config.Object{
				"description": "done",
				"content":     config.Object{r.kind(): config.Object{"schema": schemas.Of(r.answer, ref)}},
			},
			"default": config.Object{"$ref": "#/components/responses/Problem"},
		},
	}
	if r.role != "" {
		o["security"] = []any{config.Object{"token": []any{}}}
		o["description"] = "For the role " + string(r.role) + "."
	}
	if r.body != nil {
		content := config.Object{"schema": schemas.Of(r.body, ref)}
		o["requestBody"] = config.Object{
			"required": true, "content": config.Object{"application/json": content, "application/yaml": content},
		}
	}
	if r.answer == anObject && r.role != "" {
		o["responses"].(config.Object)["304"] = config.Object{"description": "what If-None-Match names is what there is"}
	}
	return o
}

// kind is the type of what a row answers with.
func (r *row) kind() string {
	switch {
	case r.lines:
		return lines
	case r.events:
		return rest.EventStream
	}
	return "application/json"
}

// operationID is the method and the words of the path: "get_nodes_node_config".
func operationID(r *row) string {
	words := strings.FieldsFunc(strings.TrimPrefix(r.path, Prefix),
		func(c rune) bool { return strings.ContainsRune("/{}.-", c) })
	return strings.ToLower(r.method) + "_" + strings.Join(words, "_")
}

func parameters(r *row) []any {
	out := []any{}
	for _, s := range strings.Split(r.path, "/") {
		if anySegment(s) {
			out = append(out, config.Object{"name": strings.Trim(s, "{}"), "in": "path", "required": true,
				"schema": config.Object{"type": "string"}})
		}
	}
	for _, p := range r.query {
		out = append(out, config.Object{"name": p.name, "in": "query", "required": p.required, "description": p.summary,
			"schema": p.schema()})
	}
	header := func(name, summary string) {
		out = append(out, config.Object{"name": name, "in": "header", "description": summary,
			"schema": config.Object{"type": "string"}})
	}
	if r.bound != nil {
		header("If-Match", `"REVISION", a list of them, or *: what the caller has seen`)
		header("If-None-Match", "*: there must be nothing yet")
	} else if r.answer == anObject && r.role != "" {
		header("If-None-Match", "the ETag of what the caller has")
	}
	return out
}

func (p param) schema() config.Object {
	switch p.form {
	case flag:
		return config.Object{"type": "string", "enum": []any{"0", "1"}}
	case number:
		return config.Object{"type": "integer", "minimum": int64(0)}
	case list, pathList:
		return config.Object{"type": "array", "items": config.Object{"type": "string"}}
	default:
		s := config.Object{"type": "string"}
		if len(p.enum) > 0 {
			values := make([]any, len(p.enum))
			for i, v := range p.enum {
				values[i] = v
			}
			s["enum"] = values
		}
		return s
	}
}
