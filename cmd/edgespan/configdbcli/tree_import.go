package configdbcli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/configdb/hieratree"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/httpapi/rest"
)

// fuel is the default component of data sources.
const fuel = "fuel"

// known is what ConfigDB already has for an import.
type known struct {
	env       *model.Environment // nil: it does not exist yet
	component *model.Component   // gets new data sources; nil: it does not exist yet
	name      string             // of the component
	ids       map[string]int64   // of all resources of the environment
}

// readKnown reads what ConfigDB already has for an import. It reads the environment first: the components that the
// environment then has are in the list that is read after it.
func (c *factsCall) readKnown() (known, error) {
	g := known{name: cmp.Or(c.component, fuel), ids: map[string]int64{}}
	env, err := c.client.Environment(c.ctx, c.env)
	switch {
	case err == nil:
		g.env = &env
	case !errors.Is(err, rest.ErrNotFound):
		return g, err
	}
	all, err := c.client.Components(c.ctx)
	if err == nil && g.env != nil {
		all, err = g.choose(all, c.component)
	}
	if err != nil {
		return g, err
	}
	if i := slices.IndexFunc(all, func(one model.Component) bool { return one.Name == g.name }); i >= 0 {
		g.component = &all[i]
		if g.env == nil {
			all = all[i : i+1] // of the new environment
		}
	} else if g.env == nil {
		all = nil
	}
	for _, one := range all {
		for _, d := range one.Definitions {
			if id, twice := g.ids[d.Name]; !twice || d.ID < id {
				g.ids[d.Name] = d.ID
			}
		}
	}
	return g, nil
}

// choose selects the component of an existing environment and returns all its components. It attaches none: an
// operator decides which resources an environment has, not the files of one node.
func (g *known) choose(all []model.Component, desired string) ([]model.Component, error) {
	all = slices.DeleteFunc(all, func(one model.Component) bool { return !slices.Contains(g.env.Components, one.ID) })
	has := func(name string) bool {
		return slices.ContainsFunc(all, func(one model.Component) bool { return one.Name == name })
	}
	if desired == "" && len(all) == 1 {
		g.name = all[0].Name
	}
	if has(g.name) {
		return all, nil
	}
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.Name
	}
	return all, conflicting("environment %d: no component %s, only %s: give one of these as --component, or run "+
		"'edgespan env update %d --components'",
		g.env.ID, config.Quote(g.name), config.Quote(strings.Join(names, ",")), g.env.ID)
}

// missing returns the resources of a tree that the environment lacks. A new component gets all resources of the
// naming.
func (g known) missing(t tree) []string {
	var names []string
	if g.component == nil {
		names = t.naming.Resources()
	}
	for _, r := range t.resources {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return g.ids[name] != 0 })
}

// importTree uploads a tree. It validates everything before it creates anything; the values are one revision.
func importTree(c *factsCall) error {
	t, err := c.readTree()
	if err != nil {
		return err
	}
	if len(t.resources) == 0 {
		return &rest.Rejected{Faults: []string{fmt.Sprintf("%s: no file *%s: must have at least one", t.dir,
			hieratree.Extension)}}
	}
	g, err := c.readKnown()
	if err != nil {
		return err
	}
	p, err := c.nodePlace(t, g.env)
	if err != nil {
		return err
	}
	lacks := g.env == nil || len(g.missing(t)) > 0
	if lacks && c.dryRun {
		return c.previewImport(t, g)
	}
	made, err := c.createMissing(t, g, p)
	if err == nil && lacks {
		g, err = c.readKnown()
	}
	if err != nil {
		return err
	}
	named, err := c.registerNode(t)
	if err != nil {
		return err
	}
	body, err := g.body(t)
	if err != nil {
		return err
	}
	stored, err := c.client.Bulk(c.ctx, p, body, c.writeOptions())
	if err != nil {
		return err
	}
	return c.imported(stored, made || named)
}

// body returns the values of a tree by the IDs of resources: two resources may have one name while another client
// creates it too.
func (g known) body(t tree) (configdbapi.BulkBody, error) {
	out := configdbapi.BulkBody{Resources: map[string]configdbapi.BulkResource{}}
	for _, r := range t.resources {
		o, err := configdb.ObjectOf(r.Values)
		if err != nil {
			return out, err // Read creates objects only
		}
		id, ok := g.ids[r.Name]
		if !ok {
			return out, conflicting("resource %s: deleted by someone else meanwhile: try again", r.Name)
		}
		values := configdbapi.Document{}
		for _, m := range o.Members() {
			values[m.Key] = m.Value
		}
		out.Resources[fmt.Sprint(id)] = configdbapi.BulkResource{Values: values}
	}
	return out, nil
}

// imported prints what an upload did, or would do.
func (c *factsCall) imported(stored configdbapi.Stored, more bool) error {
	slices.SortStableFunc(stored.Changes, func(a, b model.Change) int {
		return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name)) // a node comes before its values
	})
	for _, ch := range stored.Changes {
		line := c.changeOf(ch) + " would be " + ch.Did
		switch {
		case c.dryRun:
		case ch.What == string(model.Values):
			line = fmt.Sprintf("%s: %s, version %d", ch.Name, ch.Did, ch.Version)
		default:
			line = c.changeOf(ch) + " was " + ch.Did
		}
		if err := c.printTree("%s", line); err != nil {
			return err
		}
	}
	if len(stored.Changes) == 0 && !more {
		return c.printTree("no change")
	}
	return nil
}

// previewImport prints what a first import would create. The API can't try a write to objects that don't exist.
func (c *factsCall) previewImport(t tree, g known) error {
	var lines []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	add(g.component == nil, "component %s would be created", g.name)
	for _, name := range g.missing(t) {
		add(true, "definition %s would be created", name)
	}
	add(g.env == nil, "environment %d would be created", c.env)
	for _, r := range t.resources {
		add(true, "values of %s would be uploaded for node %s", r.Name, c.node)
	}
	for _, line := range lines {
		if err := c.printTree("%s", line); err != nil {
			return err
		}
	}
	return nil
}

// createMissing creates what an environment lacks for a tree. If another client creates the same at the same time,
// lay uses that.
func (c *factsCall) createMissing(t tree, g known, p configdbapi.Place) (made bool, err error) {
	o := configdbapi.WriteOptions{Message: c.message}
	missing := g.missing(t)
	if g.component == nil {
		n := configdbapi.NewComponent{Name: g.name}
		for _, name := range missing {
			n.Definitions = append(n.Definitions, configdbapi.NewDefinition{Name: name})
		}
		one, err := c.client.CreateComponent(c.ctx, n, o)
		switch {
		case errors.Is(err, rest.ErrConflict):
			return c.retryCreate(t, g, p, err)
		case err != nil:
			return made, err
		}
		g.component, missing, made = &one, nil, true
		if err := c.printTree("Component %s with id %d was created", one.Name, one.ID); err != nil {
			return made, err
		}
	}
	for _, name := range missing {
		if err := c.define(name, g.component.ID, o); err != nil {
			return made, err
		}
		made = true
	}
	if g.env != nil {
		return made, nil
	}
	n := configdbapi.NewEnvironment{ID: &c.env, Components: []configdb.JSON{configdb.JSON(fmt.Sprint(g.component.ID))}}
	for _, l := range p.Levels {
		n.Levels = append(n.Levels, l.Level)
	}
	_, err = c.client.CreateEnvironment(c.ctx, n, o)
	switch {
	case errors.Is(err, rest.ErrConflict):
		return c.retryCreate(t, g, p, err)
	case err != nil:
		return made, err
	}
	return true, c.printTree("Environment with id %d was created", c.env)
}

// retryCreate continues with what another client has created meanwhile. It ends, since each call finds more than the
// one before.
func (c *factsCall) retryCreate(t tree, g known, p configdbapi.Place, cause error) (bool, error) {
	now, err := c.readKnown()
	if err != nil {
		return false, err
	}
	if (now.component != nil) == (g.component != nil) && (now.env != nil) == (g.env != nil) {
		return false, cause
	}
	return c.createMissing(t, now, p)
}

// define creates a data source. Their names are not unique: if two clients create one at the same time, the lower ID
// remains.
func (c *factsCall) define(name string, component int64, o configdbapi.WriteOptions) error {
	d, err := c.client.CreateDefinition(c.ctx, configdbapi.NewDefinition{Name: name, Component: &component}, o)
	if err != nil {
		return err
	}
	of := &component
	all, err := c.client.Definitions(c.ctx, &of)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.Name == name && other.ID < d.ID {
			return c.client.DeleteDefinition(c.ctx, d.ID, o)
		}
	}
	return c.printTree("Resource_definition %s with id %d was created", name, d.ID)
}

// registerNode registers the node's known names that are not registered yet. If the caller may upload but not
// register, it prints that; the upload itself registers the ID.
func (c *factsCall) registerNode(t tree) (bool, error) {
	n := model.Node{ID: c.node}
	was, err := c.client.Node(c.ctx, c.env, c.node)
	switch {
	case err == nil:
		n = was
	case !errors.Is(err, rest.ErrNotFound):
		return false, err
	}
	n.FQDN = cmp.Or(c.fqdn, n.FQDN, t.stringOf("fqdn"))
	n.Certname = cmp.Or(c.certname, n.Certname)
	n.Levels = nil // they remain
	if n.FQDN == was.FQDN && n.Certname == was.Certname {
		return false, nil
	}
	var names []string
	for _, s := range []string{n.FQDN, n.Certname} {
		if s != "" && !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	if c.dryRun {
		return true, c.printTree("node %s would be registered as %s", n.ID, strings.Join(names, ", "))
	}
	err = c.client.PutNode(c.ctx, c.env, n, configdbapi.WriteOptions{Message: c.message})
	switch {
	case errors.Is(err, rest.ErrPermission) && c.fqdn+c.certname == "":
		c.a.Printf("node %s: not registered as %s: an admin can do that with: %s", n.ID, strings.Join(names, ", "),
			term.Printable(err.Error()))
		return false, nil
	case err != nil:
		return false, err
	}
	return true, c.printTree("Node %s was registered as %s", n.ID, strings.Join(names, ", "))
}
