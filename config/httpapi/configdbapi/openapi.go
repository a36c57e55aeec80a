package configdbapi

import (
	"reflect"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/httpapi/rest"
)

// schemas are those of the types whose form does not follow from their kind.
var schemas = rest.Schemas{
	reflect.TypeFor[configdb.JSON](): {},
	reflect.TypeFor[Document]():      {"type": "object"},
	reflect.TypeFor[**int64]():       {"type": []any{"integer", "null"}},
	reflect.TypeFor[*int64]():        {"type": []any{"integer", "null"}},
	reflect.TypeFor[*string]():       {"type": []any{"string", "null"}},
}

func getOpenAPI(a *api, c *call) (reply, error) {
	return give(describe(a.all, c.prefix, a.Version), nil)
}

// describe is the OpenAPI 3.1 document of a table, below a prefix.
func describe(rows []row, prefix, version string) config.Object {
	components := config.Object{}
	ref := schemas.Components(components)
	paths := config.Object{}
	for i := range rows {
		path := "/" + rows[i].path
		at, _ := paths[path].(config.Object)
		if at == nil {
			at = config.Object{}
			paths[path] = at
		}
		at[strings.ToLower(rows[i].method)] = operation(&rows[i], rows[i].method, ref)
		if rows[i].patch {
			at["patch"] = operation(&rows[i], "PATCH", ref)
		}
	}
	message := config.Object{"application/json": config.Object{"schema": ref(typeOf[Message]())}}
	return config.Object{
		"openapi": "3.1.0",
		"info": config.Object{
			"title": "ConfigDB of edgespan-controller", "version": version,
			"description": "Serialized facts. {levels} stands for any number of LEVEL/VALUE/, a prefix of the environment's " +
				"levels; it and {resource} may have slashes. " +
				"overrides may be spelled override.",
		},
		"servers": []any{config.Object{"url": strings.TrimSuffix(prefix, "/")}},
		"paths":   paths,
		"components": config.Object{
			"schemas":   components,
			"responses": config.Object{"Error": config.Object{"description": "what is wrong", "content": message}},
			"securitySchemes": config.Object{
				"token":    config.Object{"type": "http", "scheme": "bearer"},
				"basic":    config.Object{"type": "http", "scheme": "basic"},
				"keystone": config.Object{"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
			},
		},
	}
}

func operation(r *row, method string, ref func(reflect.Type) config.Object) config.Object {
	success := config.Object{"description": "done"}
	if r.answer != nil {
		kind := "application/json"
		if r.events {
			kind = rest.EventStream
		}
		success["content"] = config.Object{kind: config.Object{"schema": schemas.Of(r.answer, ref)}}
	}
	none := []any{}
	o := config.Object{
		"operationId": operationID(r, method), "summary": r.summary, "parameters": parameters(r),
		"description": "For the role " + string(r.role) + ".",
		"security":    []any{config.Object{"token": none}, config.Object{"basic": none}, config.Object{"keystone": none}},
		"responses": config.Object{strconv.Itoa(r.status): success,
			"default": config.Object{"$ref": "#/components/responses/Error"}},
	}
	if r.body != nil {
		o["requestBody"] = config.Object{"required": true,
			"content": config.Object{"application/json": config.Object{"schema": schemas.Of(r.body, ref)}}}
	}
	switch {
	case r.method == "GET" && r.answer == document:
		o["responses"].(config.Object)["304"] = config.Object{"description": "what If-None-Match names is what there is"}
	case r.method == "PUT" && r.body == document:
		o["responses"].(config.Object)["308"] = config.Object{"description": "the resource is named: Location has its id"}
	}
	return o
}

// operationID is the method and the words of the path.
func operationID(r *row, method string) string {
	words := strings.FieldsFunc(r.path, func(c rune) bool { return strings.ContainsRune("/{}.-", c) })
	return strings.ToLower(method) + "_" + strings.Join(words, "_")
}

func parameters(r *row) []any {
	out := []any{}
	for left := r.path; ; {
		_, behind, more := strings.Cut(left, "{")
		if !more {
			break
		}
		name, behind, _ := strings.Cut(behind, "}")
		left = behind
		kind := "string"
		if name == "component" || name == "definition" || name == "environment" || name == "revision" {
			kind = "integer"
		}
		out = append(out, config.Object{"name": name, "in": "path", "required": true, "schema": config.Object{"type": kind}})
	}
	for _, p := range r.query {
		s := config.Object{"type": "string"}
		if p.form == aNumber {
			s = config.Object{"type": "integer", "minimum": int64(0)}
		}
		out = append(out, config.Object{"name": p.name, "in": "query", "description": p.summary, "schema": s})
	}
	header := func(name, summary string) {
		out = append(out, config.Object{"name": name, "in": "header", "description": summary,
			"schema": config.Object{"type": "string"}})
	}
	switch {
	case r.bound:
		header("If-Match", "the ETag, a list of them, or *: what the caller has seen")
	case r.method == "GET" && r.answer == document:
		header("If-None-Match", "the ETag of what the caller has")
	case r.events:
		header("Last-Event-ID", "the last event that the caller has had")
	}
	return out
}
