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

// Prefixes are what all routes begin with: that of the seed, and that of Nailgun beside it.
var Prefixes = []string{"/api/v1/config/", "/api/config/"}

// Serves says whether a path is one of the facts API. Who mounts the Handler beside others asks
// this rather than http.ServeMux, which would clean the names of resources.
func Serves(path string) bool {
	for _, p := range Prefixes {
		if strings.HasPrefix(path, p) || path == p[:len(p)-1] {
			return true
		}
	}
	return false
}

// The paths of the rows. {levels} stands for any number of LEVEL/VALUE/, {resource} and the
// names in {} below may have slashes where that is said.
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

// halves are the paths of each half of a record, by what follows it.
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

// spellings are the words for a half. The seed says override, its implementations overrides.
var spellings = map[string]model.Kind{"values": model.Values, "overrides": model.Overrides, "override": model.Overrides}

// target is what a path names.
type target struct {
	path        string // of the rows
	environment int64
	id          int64 // of a component, a definition; the number of a revision
	name        string
	levels      []model.LevelValue
	resource    model.Ref
	kind        model.Kind
	from, to    int // where the resource stands in the escaped path
}

// parse reads an escaped path behind the prefix. It needs no environment to do so: a level
// is a pair of segments, none is called resources, and the last word for a half ends a name.
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

// collection is the path of all, or of one by its number.
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

// number reads the second segment. What is no number can be nobody's.
func (p *parser) number(what string) error {
	id, is := number(p.segments[1])
	if !is {
		return refuse(http.StatusNotFound, "%s not found by %s: must be a number", what, config.Quote(p.segments[1]))
	}
	p.found.id = id
	return nil
}

// within reads what stands behind an environment.
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

// ends reads what stands behind the levels, and says whether anything does.
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

// ofResource reads a resource and what is asked of it; at is the number of its first segment.
func (p *parser) ofResource(s []string, at int) {
	n := len(s)
	named := 0 // segments of the name
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

// offset is where a segment begins in the escaped path.
func (p *parser) offset(segment int) int {
	at := 0
	for range segment {
		at += strings.IndexByte(p.path[at:], '/') + 1
	}
	return at
}

func keysOp(s string) bool { return s == "get" || s == "set" || s == "delete" }

// number reads an id, which is of digits only.
func number(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// refOf is what a segment names: by its id if it is a number.
func refOf(s string) model.Ref {
	if id, is := number(s); is {
		return model.Ref{ID: id}
	}
	return model.Ref{Name: s}
}

// location is an absolute URL of the path of a call with the id of its resource.
func (c *call) location(id int64, proxied bool) string {
	escaped := c.URL.EscapedPath()
	behind := len(escaped) - len(c.behind)
	where := c.base(proxied) + escaped[:behind+c.from] + strconv.FormatInt(id, 10) + escaped[behind+c.to:]
	if c.URL.RawQuery != "" {
		where += "?" + c.URL.RawQuery
	}
	return where
}

// base is scheme and host as the client sees them.
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
	if host == "" { // HTTP/1.0 needs none
		host = "localhost"
		if here, is := c.Context().Value(http.LocalAddrContextKey).(fmt.Stringer); is {
			host = here.String()
		}
	}
	return scheme + "://" + host
}

// hostLike says whether a text can be a host with a port: nothing that would end it in a URL.
func hostLike(s string) bool {
	u, err := url.Parse("//" + s)
	return s != "" && err == nil && u.Host == s && u.User == nil
}
