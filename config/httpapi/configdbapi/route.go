package configdbapi

import (
	"net/http"
	"strings"

	"edgespan/config/httpapi/rest"
)

// route finds the row of a call and reads its query.
func (a *api) route(c *call) error {
	escaped := c.URL.EscapedPath()
	for _, p := range Prefixes {
		if strings.HasPrefix(escaped, p) {
			c.prefix = p
		}
	}
	if c.prefix == "" {
		return refuse(http.StatusNotFound, "no such route: paths begin with %s", strings.Join(Prefixes, " or "))
	}
	c.behind = escaped[len(c.prefix):]
	t, err := parse(c.behind)
	if err != nil {
		return err
	}
	c.target = t
	method := c.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, r := range a.rows[t.path] {
		if r.Method == method || r.Patch && method == http.MethodPatch {
			c.row, c.Route = r, r.Path
			return c.readQuery()
		}
	}
	if method == http.MethodOptions {
		return nil
	}
	allow := a.allow(t.path)
	p := rest.Refuse(rest.TypeMethod, "%s: method not allowed: must be %s", printableMethod(c.Method),
		strings.Join(allow, ", "))
	p.Allow = allow
	return p
}
