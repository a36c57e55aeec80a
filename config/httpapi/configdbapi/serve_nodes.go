package configdbapi

import (
	"maps"
	"net/http"

	"edgespan/config/configdb/model"
)

func getNodes(a *api, c *call) (reply, error) {
	all, err := a.backend.Nodes(c.Context(), c.environment)
	return answer(list(all), err)
}

func getNode(a *api, c *call) (reply, error) {
	return answer(a.backend.Node(c.Context(), c.environment, c.name))
}

func putNode(a *api, c *call) (reply, error) {
	return a.edit(c, func() error { return a.environmentExists(c) }, func(f *fields) model.Write {
		n := model.Node{ID: c.name, FQDN: f.textOr("fqdn", ""), Certname: f.textOr("certname", ""),
			Levels: f.textsByName("levels")}
		f.only("id", "fqdn", "certname", "levels")
		if id := f.textOr("id", n.ID); id != n.ID {
			f.wrong("id", "invalid value: must be the same as in the path")
		}
		if c.own {
			if c.node.ID != "" {
				n.ID = c.node.ID // the path may have another of its names
			}
			f.nodeItself(c, n)
			n.Undeclared = true
			n.Levels = nil // nil keeps the levels, even if they change meanwhile
		}
		return model.PutNode{Environment: c.environment, Node: n}
	})
}

// nodeItself checks what a node writes about itself: it may not change its levels or names that an admin gave it, nor
// take a name other than that of its certificate.
func (f *fields) nodeItself(c *call, n model.Node) {
	was := c.node
	kept := func(was, now string) bool { return was == now || was == "" && now == c.caller.Certname }
	if f.err == nil && (!kept(was.FQDN, n.FQDN) || !kept(was.Certname, n.Certname) || c.caller.Certname != "" &&
		n.Certname != c.caller.Certname) {
		f.err = refuse(http.StatusForbidden,
			"node %s: has other names, or none beside that of its certificate: an admin can change them", c.caller.itself())
	}
	if f.err == nil && n.Levels != nil && !maps.Equal(n.Levels, was.Levels) {
		f.err = refuse(http.StatusForbidden, "node %s: levels: are not its own to declare: an admin can", c.caller.itself())
	}
}

func deleteNode(a *api, c *call) (reply, error) {
	return a.remove(c, model.DeleteNode{Environment: c.environment, ID: c.name})
}
