package configdbapi

import (
	"fmt"
	"net/http"
	"strings"

	"edgespan/config/httpapi/rest"
)

// foreign refuses what a page of another site has sent through a browser.
func (a *api) foreign(r *http.Request) error {
	if a.local && !rest.LocalHost(r.Host) {
		return refuse(http.StatusMisdirectedRequest,
			"Host: is %q: localhost and addresses of the loopback are allowed without authentication", r.Host)
	}
	if a.origins.Check(r) != nil {
		return refuse(http.StatusForbidden, "Origin: a request of another site's page is not allowed")
	}
	return nil
}

// route finds the row of a call and reads its query.
func (a *api) route(c *call) error {
	escaped := c.URL.EscapedPath()
	for _, p := range Prefixes {
		if strings.HasPrefix(escaped, p) {
			c.prefix = p
		}
	}
	if c.prefix == "" {
		if !a.root || !strings.HasPrefix(escaped, "/") {
			return refuse(http.StatusNotFound, "no such route: paths begin with %s", strings.Join(Prefixes, " or "))
		}
		c.prefix = "/"
	}
	c.rest = escaped[len(c.prefix):]
	t, err := parse(c.rest)
	if err != nil {
		return err
	}
	c.target = t
	method := c.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, r := range a.rows[t.path] {
		if r.method == method || r.patch && method == http.MethodPatch {
			c.row = r
			return c.readQuery()
		}
	}
	if method == http.MethodOptions {
		return nil
	}
	allow := a.allow(t.path)
	return &refusal{status: http.StatusMethodNotAllowed, allow: allow,
		text: fmt.Sprintf("%s: is not allowed here: %s", spelled(c.Method), strings.Join(allow, ", "))}
}
