package rest

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
)

// Route is one row of the table of an API A, whose calls are C. Routing, roles, the checks of queries and bodies, and
// the OpenAPI description follow from it.
type Route[A, C, Own any] struct {
	Method  string
	Path    string // a segment in {} matches any text
	Role    Role   // the least role that may call it; "" is everyone, without authentication
	Summary string
	Query   []Param
	Headers []Param
	Body    reflect.Type // nil: no body
	Answer  reflect.Type // nil: no answer
	Status  int          // on success
	Also    map[string]string
	Effect  Effect
	Whole   bool // its body may be as large as a whole fleet's
	Reveals bool // the answer contains a new secret, such as a token
	Lines   bool // answers with lines of JSON; Answer is the first
	Text    bool // answers with MetricsText
	Zipped  bool // answers with a compressed archive
	Events  bool // answers with server-sent events of type Answer
	Patch   bool // PATCH does the same
	Lenient bool // unknown parameters are ignored
	Bound   bool // accepts If-Match
	Own     Own  // data of the API
	Serve   func(A, C) (Reply, error)
}

// Effect is what a route does besides answering.
type Effect int

const (
	Reads  Effect = iota
	Acts          // changes something that has no revision
	Writes        // has the parameters message and dryRun
)

// Form is the type of a query parameter.
type Form int

// The forms.
const (
	Text Form = iota
	Flag
	Number
	Duration
	List     // repeated, or separated by commas
	PathList // a List of paths
	OnePath
)

// Param is one parameter.
type Param struct {
	Name, Summary string
	Form          Form
	Required      bool
	Enum          []string
}

// ListParams lists the parameters for an error message.
func ListParams(ps []Param) string {
	if len(ps) == 0 {
		return "must be empty"
	}
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.Name
	}
	return config.OneOf(names)
}

// JSONLines is the content type of an answer with one JSON value a line.
const JSONLines = "application/jsonl"

// MetricsText is the content type of metrics for Prometheus.
const MetricsText = "text/plain; version=0.0.4; charset=utf-8"

// ZippedArchive is the content type of a compressed archive (RFC 6713).
const ZippedArchive = "application/gzip"

// Kind returns the content type of a route's answer.
func (r *Route[A, C, Own]) Kind() string {
	switch {
	case r.Lines:
		return JSONLines
	case r.Events:
		return EventStream
	case r.Text:
		return MetricsText
	case r.Zipped:
		return ZippedArchive
	}
	return "application/json"
}

// Description is the part of an OpenAPI document that is not in the table.
type Description struct {
	Info     config.Object
	Servers  []any // nil: left out
	Prefix   string
	Schemas  Schemas
	Errors   string       // name of the response for every error
	Error    reflect.Type // its body
	Kind     string       // its content type
	Wrong    string       // its description
	Schemes  config.Object
	Ways     []string // security schemes, in the order in which a route lists them
	Bodies   []string // content types of bodies
	Integers []string // path segments that are numbers
	Lenient  bool     // queries are parsed when needed: no parameter is required, and a flag may have any text
}

// Describe returns the OpenAPI 3.1 document of a table.
func Describe[A, C, Own any](d Description, rows []Route[A, C, Own]) config.Object {
	components, paths := config.Object{}, config.Object{}
	ref := d.Schemas.Components(components)
	for _, r := range rows {
		at, _ := paths[r.Path].(config.Object)
		if at == nil {
			at = config.Object{}
			paths[r.Path] = at
		}
		at[strings.ToLower(r.Method)] = operation(&d, &r, ref)
		if r.Patch {
			r.Method = "PATCH"
			at["patch"] = operation(&d, &r, ref)
		}
	}
	content := config.Object{d.Kind: config.Object{"schema": ref(d.Error)}}
	out := config.Object{
		"openapi": "3.1.0", "info": d.Info, "paths": paths,
		"components": config.Object{
			"schemas":         components,
			"responses":       config.Object{d.Errors: config.Object{"description": d.Wrong, "content": content}},
			"securitySchemes": d.Schemes,
		},
	}
	if d.Servers != nil {
		out["servers"] = d.Servers
	}
	return out
}

func operation[A, C, Own any](d *Description, r *Route[A, C, Own], ref func(reflect.Type) config.Object) config.Object {
	success := config.Object{"description": "done"}
	if r.Answer != nil {
		success["content"] = config.Object{r.Kind(): config.Object{"schema": d.Schemas.Of(r.Answer, ref)}}
	}
	responses := config.Object{strconv.Itoa(r.Status): success,
		"default": config.Object{"$ref": "#/components/responses/" + d.Errors}}
	for status, text := range r.Also {
		responses[status] = config.Object{"description": text}
	}
	words := strings.FieldsFunc(strings.TrimPrefix(r.Path, d.Prefix),
		func(c rune) bool { return strings.ContainsRune("/{}.-", c) })
	o := config.Object{"operationId": strings.ToLower(r.Method) + "_" + strings.Join(words, "_"), "summary": r.Summary,
		"parameters": parameters(d, r), "responses": responses}
	if r.Role != "" {
		security := []any{}
		for _, scheme := range d.Ways {
			security = append(security, config.Object{scheme: []any{}})
		}
		o["security"], o["description"] = security, "For the role "+string(r.Role)+"."
	}
	if r.Body != nil {
		content := config.Object{}
		for _, kind := range d.Bodies {
			content[kind] = config.Object{"schema": d.Schemas.Of(r.Body, ref)}
		}
		o["requestBody"] = config.Object{"required": true, "content": content}
	}
	return o
}

func parameters[A, C, Own any](d *Description, r *Route[A, C, Own]) []any {
	out := []any{}
	for _, part := range strings.Split(r.Path, "{")[1:] {
		name, _, _ := strings.Cut(part, "}")
		kind := "string"
		if slices.Contains(d.Integers, name) {
			kind = "integer"
		}
		out = append(out, config.Object{"name": name, "in": "path", "required": true, "schema": config.Object{"type": kind}})
	}
	for _, p := range r.Query {
		one := config.Object{"name": p.Name, "in": "query", "description": p.Summary, "schema": p.schema(d.Lenient)}
		if !d.Lenient {
			one["required"] = p.Required
		}
		out = append(out, one)
	}
	for _, p := range r.Headers {
		out = append(out, config.Object{"name": p.Name, "in": "header", "description": p.Summary,
			"schema": config.Object{"type": "string"}})
	}
	return out
}

func (p Param) schema(lenient bool) config.Object {
	switch {
	case p.Form == Flag && !lenient:
		return Enum("0", "1")
	case p.Form == Number:
		return config.Object{"type": "integer", "minimum": int64(0)}
	case p.Form == List, p.Form == PathList:
		return config.Object{"type": "array", "items": config.Object{"type": "string"}}
	case len(p.Enum) > 0:
		return Enum(p.Enum...)
	}
	return config.Object{"type": "string"}
}
