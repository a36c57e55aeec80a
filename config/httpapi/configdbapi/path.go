package configdbapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"edgespan/config"
	"edgespan/config/configdb/model"
)

// Prefixes are the prefixes of all routes: the seed's and Nailgun's.
var Prefixes = []string{"/api/v1/config/", "/api/config/"}

// IsFactsPath reports whether a path belongs to this API. A server with other handlers must use it instead of
// http.ServeMux, which would clean the names of resources.
func IsFactsPath(path string) bool {
	for _, p := range Prefixes {
		if strings.HasPrefix(path, p) || path == p[:len(p)-1] {
			return true
		}
	}
	return false
}

// The paths of the routes. {levels} stands for any number of LEVEL/VALUE/; {levels} and {resource} may contain slashes.
const (
	inEnvironment = "environments/{environment}/"
	inPlace       = inEnvironment + "{levels}"
	inResource    = inPlace + "resources/{resource}/"

	toComponents   = "components"
	toComponent    = "components/{component}"
	toDefinitions  = "resource_definitions"
	toDefinition   = "resource_definitions/{definition}"
	toContentKeys  = "resource_definitions/{definition}/keys/"
	toSecrets      = "resource_definitions/{definition}/secrets"
	toEnvironments = "environments"
	toEnvironment  = "environments/{environment}"
	toLevels       = inEnvironment + "hierarchy_levels"
	toLevel        = inEnvironment + "hierarchy_levels/{level}"
	toNodes        = inEnvironment + "nodes"
	toNode         = inEnvironment + "nodes/{node}"
	toRollback     = inPlace + "rollback"
	toBulk         = inPlace + "bulk"
	toHieraData    = inPlace + "hiera/data"
	toHieraLookup  = inPlace + "hiera/lookup"
	toHieraKey     = inPlace + "hiera/lookup/{key}"
	toHistory      = "history"
	toRevision     = "history/{revision}"
	toWatch        = "watch"
	toOpenAPI      = "openapi.json"
)

// halves maps each half of a record to its paths, by what follows it.
var halves = map[model.Kind]map[string]string{
	model.Values:    halfPaths("values"),
	model.Overrides: halfPaths("overrides"),
}

func halfPaths(half string) map[string]string {
	out := map[string]string{"": inResource + half}
	for _, tail := range []string{"keys/get", "keys/set", "keys/delete", "history", "diff", "rollback"} {
		out[tail] = inResource + half + "/" + tail
	}
	return out
}

// spellings maps the names of a half. The seed uses override, its implementations overrides.
var spellings = map[string]model.Kind{"values": model.Values, "overrides": model.Overrides, "override": model.Overrides}

// target is what a path names.
type target struct {
	path        string // of the route
	environment int64
	id          int64 // of a component, a definition; or the number of a revision
	name        string
	levels      []model.LevelValue
	resource    model.Ref
	kind        model.Kind
	from, to    int // offsets of the resource in the escaped path
}

// parse parses an escaped path after the prefix. It needs no environment for that: a level is a pair of segments, no
// level is called resources, and the last name of a half ends a resource's name.
func parse(path string) (target, error) {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if !strings.Contains(s, "%") {
			continue
		}
		text, err := url.PathUnescape(s)
		if err != nil || !utf8.ValidString(text) {
			return target{}, refuse(http.StatusBadRequest,
				"the path can't be read: invalid value %s: must be UTF-8, escaped as in any URL", config.Quote(s))
		}
		segments[i] = text
	}
	p := parser{path: path, segments: segments}
	if err := p.parse(); err != nil {
		return target{}, err
	}
	if p.found.path == "" {
		return target{}, refuse(http.StatusNotFound, "no such route: %s: openapi.json says which there are",
			config.Quote(path))
	}
	if p.found.kind != "" && p.found.resource == (model.Ref{}) {
		return target{}, refuse(http.StatusNotFound, "resource_definition not found by 0 in environment %d",
			p.found.environment)
	}
	return p.found, nil
}

type parser struct {
	path     string
	segments []string // unescaped
	found    target
}

func (p *parser) parse() error {
	s, n := p.segments, len(p.segments)
	switch s[0] {
	case "components":
		return p.collection(toComponents, toComponent, "component")
	case "resource_definitions", "resource_definition":
		switch {
		case n == 3 && s[2] == "secrets":
			p.found.path = toSecrets
			return p.number("resource_definition")
		case n == 4 && s[2] == "keys" && keysOp(s[3]):
			p.found.path = toContentKeys + s[3]
			return p.number("resource_definition")
		}
		return p.collection(toDefinitions, toDefinition, "resource_definition")
	case "environments", "environment":
		if n <= 2 {
			return p.collection(toEnvironments, toEnvironment, "environment")
		}
		if err := p.number("environment"); err != nil {
			return err
		}
		p.found.environment = p.found.id
		p.within()
	case "history":
		return p.collection(toHistory, toRevision, "revision")
	case "watch", "openapi.json":
		if n == 1 {
			p.found.path = s[0]
		}
	}
	return nil
}

// collection parses the path of all objects of a kind, or of one by its number.
func (p *parser) collection(all, one, what string) error {
	switch len(p.segments) {
	case 1:
		p.found.path = all
	case 2:
		p.found.path = one
		return p.number(what)
	}
	return nil
}

// number parses the second segment. If it is no number, no object can have it: not found.
func (p *parser) number(what string) error {
	id, ok := number(p.segments[1])
	if !ok {
		return refuse(http.StatusNotFound, "%s not found by %s: must be a number", what, config.Quote(p.segments[1]))
	}
	p.found.id = id
	return nil
}

// within parses what follows an environment.
func (p *parser) within() {
	s := p.segments[2:]
	switch {
	case s[0] == "hierarchy_levels" && len(s) == 1:
		p.found.path = toLevels
		return
	case s[0] == "hierarchy_levels" && len(s) == 2 && s[1] != "":
		p.found.path, p.found.name = toLevel, s[1]
		return
	case s[0] == "nodes" && len(s) == 1:
		p.found.path = toNodes
		return
	case s[0] == "nodes" && len(s) == 2 && s[1] != "":
		p.found.path, p.found.name = toNode, s[1]
		return
	}
	p.found.levels = make([]model.LevelValue, 0, len(s)/2)
	for i := 0; i < len(s); i += 2 {
		if p.ends(s[i:], 2+i) {
			return
		}
		if i+1 == len(s) || s[i] == "" || s[i+1] == "" {
			return
		}
		p.found.levels = append(p.found.levels, model.LevelValue{Level: s[i], Value: s[i+1]})
	}
}

// ends parses what follows the levels, and reports whether anything does.
func (p *parser) ends(s []string, at int) bool {
	switch {
	case s[0] == "resources":
		p.ofResource(s[1:], at+1)
		return true
	case len(s) == 1 && s[0] == "rollback":
		p.found.path = toRollback
	case len(s) == 1 && s[0] == "bulk":
		p.found.path = toBulk
	case len(s) == 2 && s[0] == "hiera" && s[1] == "data":
		p.found.path = toHieraData
	case len(s) == 2 && s[0] == "hiera" && s[1] == "lookup":
		p.found.path = toHieraLookup
	case len(s) == 3 && s[0] == "hiera" && s[1] == "lookup" && s[2] != "":
		p.found.path, p.found.name = toHieraKey, s[2]
	default:
		return false
	}
	return true
}

// ofResource parses a resource and what follows it; at is the index of its first segment.
func (p *parser) ofResource(s []string, at int) {
	n := len(s)
	named := 0 // number of segments of the name
	var tail string
	switch {
	case n >= 2 && spellings[s[n-1]] != "":
		named = n - 1
	case n >= 4 && spellings[s[n-3]] != "" && s[n-2] == "keys" && keysOp(s[n-1]):
		named, tail = n-3, "keys/"+s[n-1]
	case n >= 3 && spellings[s[n-2]] != "" && (s[n-1] == "history" || s[n-1] == "diff" || s[n-1] == "rollback"):
		named, tail = n-2, s[n-1]
	}
	if named == 0 || s[0] == "" {
		return
	}
	f := &p.found
	f.kind = spellings[s[named]]
	f.path = halves[f.kind][tail]
	f.resource = refOf(strings.Join(s[:named], "/"))
	f.from = p.offset(at)
	f.to = p.offset(at+named) - 1
}

// offset returns where a segment begins in the escaped path.
func (p *parser) offset(segment int) int {
	at := 0
	for range segment {
		at += strings.IndexByte(p.path[at:], '/') + 1
	}
	return at
}

func keysOp(s string) bool { return s == "get" || s == "set" || s == "delete" }

// number parses an id, which has only digits.
func number(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// refOf returns what a segment names: an id if it is a number.
func refOf(s string) model.Ref {
	if id, ok := number(s); ok {
		return model.Ref{ID: id}
	}
	return model.Ref{Name: s}
}

// location returns the absolute URL of a call's path with the id of its resource instead of its name.
func (c *call) location(id int64, proxied bool) string {
	escaped := c.URL.EscapedPath()
	behind := len(escaped) - len(c.behind)
	where := c.base(proxied) + escaped[:behind+c.from] + strconv.FormatInt(id, 10) + escaped[behind+c.to:]
	if c.URL.RawQuery != "" {
		where += "?" + c.URL.RawQuery
	}
	return where
}

// base returns scheme and host as the client sees them.
func (c *call) base(proxied bool) string {
	scheme, host := "http", c.Host
	if c.TLS != nil {
		scheme = "https"
	}
	if proxied {
		if p := c.Header.Get("X-Forwarded-Proto"); p == "http" || p == "https" {
			scheme = p
		}
		if h := c.Header.Get("X-Forwarded-Host"); hostLike(h) {
			host = h
		}
	}
	if host == "" { // HTTP/1.0 allows that
		host = "localhost"
		if here, ok := c.Context().Value(http.LocalAddrContextKey).(fmt.Stringer); ok {
			host = here.String()
		}
	}
	return scheme + "://" + host
}

// hostLike reports whether a text can be a host with a port, without anything that would end the host in a URL.
func hostLike(s string) bool {
	u, err := url.Parse("//" + s)
	return s != "" && err == nil && u.Host == s && u.User == nil
}
