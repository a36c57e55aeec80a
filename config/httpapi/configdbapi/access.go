package configdbapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// nodeMay says what a node may do with a route.
type nodeMay uint8

const (
	nodeNot    nodeMay = iota
	nodeReads          // reads its own value of a level, in an environment where it is registered
	nodeWrites         // writes to it; that registers the node where nodes may register themselves
	nodeItself         // its own entry in an environment
)

// admit authenticates the caller and checks its role. For a node this needs a read of the facts, which admitNode does
// later.
func (a *api) admit(c *call) (leave func(), err error) {
	if c.caller, err = a.auth.Authenticate(c.Request); err != nil {
		return nil, err
	}
	need := c.row.Role
	if c.ofNode() {
		need = ""
	}
	return a.Begin(c.Call, rest.Caller{Name: c.caller.Name, Role: c.caller.Role, Via: c.caller.Via}, need)
}

// reveals reports whether the caller sees secrets: an admin sees all, a node that an admin registered those at its own
// places.
func (c *call) reveals() bool {
	if c.caller.Node != "" || c.caller.Certname != "" {
		return c.own && c.node.ID != "" && !c.node.Undeclared
	}
	return c.caller.Role == Admin
}

// admitNode restricts a node to its own data. The last level of the path says whose a record is; an entry below a
// node belongs to all. The levels above do not change that (reference §1.3), but their values are merged into the
// result, so they must be the ones declared for the node. Any valid certificate can cause this lookup, so it runs
// within the caller's slots and turns.
func (a *api) admitNode(c *call) error {
	if !c.ofNode() {
		return nil
	}
	name := c.name
	var above []model.LevelValue
	if c.row.Own != nodeItself {
		n := len(c.levels)
		if c.row.Own == nodeNot || n == 0 || c.levels[n-1].Level != "nodes" && c.levels[n-1].Level != "node" {
			return c.notOfNode()
		}
		name, above = c.levels[n-1].Value, c.levels[:n-1]
	}
	n, err := a.backend.Node(c.Context(), c.environment, name)
	var fault *model.RequestError
	switch {
	case err == nil && (c.caller.Node != "" && n.ID == c.caller.Node || c.caller.Certname != "" &&
		n.Certname == c.caller.Certname):
		c.node = n
	case err == nil:
		return c.notOfNode()
	case !errors.As(err, &fault) || fault.Kind != model.NotFound:
		return err
	case c.row.Effect != rest.Writes || c.row.Own == nodeNot || name != c.caller.itself():
		return c.notOfNode()
	default:
		if allowed, err := a.maySelfRegister(c); err != nil || !allowed {
			return cmp.Or(err, c.notOfNode())
		}
		n = model.Node{ID: name, Certname: c.caller.Certname}
	}
	if err := c.declared(n, above); err != nil {
		return err
	}
	c.own = true
	return nil
}

// maySelfRegister reports whether a node may register itself: if the environment allows it, or if the node's own config
// in the fleet names the environment.
func (a *api) maySelfRegister(c *call) (bool, error) {
	e, err := a.backend.Environment(c.Context(), c.environment)
	var fault *model.RequestError
	switch {
	case errors.As(err, &fault) && fault.Kind == model.NotFound:
		return false, nil
	case err != nil || e.SelfRegistration:
		return err == nil, err
	case c.caller.Node == "":
		return false, nil
	}
	done, err := rest.AcquireTurn(c.Context()) // the controller computes a config for it
	if err != nil {
		return false, err
	}
	defer done()
	named, err := a.named(c.Context(), c.caller.Node)
	return err == nil && named == c.environment, err
}

// declared checks the levels of a path against those declared for the node. A node can't declare levels, nor change
// them by an upload: it could choose whose secrets it reads.
func (c *call) declared(n model.Node, above []model.LevelValue) error {
	desired, all := map[string]string{}, true
	var at []string
	for _, l := range above {
		value, ok := n.Levels[l.Level]
		all = all && ok && value == l.Value
		desired[l.Level] = l.Value
		at = append(at, config.Quote(l.Level+"="+l.Value))
	}
	if all {
		return nil
	}
	body, err := json.Marshal(NodeNames{FQDN: n.FQDN, Certname: n.Certname, Levels: desired})
	if err != nil {
		return err
	}
	return refuse(http.StatusForbidden,
		"%s %s: not permitted to node %s at %s, which is not declared of it: an admin can do that: PUT "+
			"%senvironments/%d/nodes/%s %s",
		c.Method, c.row.Path, c.caller.itself(), strings.Join(at, ", "), c.prefix, c.environment, url.PathEscape(n.ID), body)
}

// itself is the id under which an unregistered node registers.
func (c Caller) itself() string {
	if c.Node != "" {
		return c.Node
	}
	return c.Certname
}

func (c *call) notOfNode() error {
	return refuse(http.StatusForbidden,
		"%s %s: not permitted to node %s: it can read and upload what is at its own value of the level nodes, where it is "+
			"registered", c.Method, c.row.Path, c.caller.itself())
}

// register registers a node before its first upload, by its certname, which identifies it, or by its id.
func (a *api) register(c *call) error {
	if !c.own || c.node.ID != "" || c.Entry.DryRun {
		return nil
	}
	n := model.Node{ID: c.caller.itself(), Certname: c.caller.Certname, Undeclared: true}
	_, err := a.written(c, model.PutNode{Environment: c.environment, Node: n})
	return err
}
