package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"edgespan/config/facts"
)

// Components are all, by their ids.
func (s *State) Components(b Blobs) ([]Component, error) {
	members := map[uint64][]*definition{}
	for _, d := range s.definitions {
		members[d.Component] = append(members[d.Component], d)
	}
	out := make([]Component, 0, len(s.components))
	for _, c := range sorted(s.components, func(a, b *component) int { return cmp.Compare(a.ID, b.ID) }) {
		shown, err := s.showComponent(c, members[c.serial], b)
		if err != nil {
			return nil, err
		}
		out = append(out, shown)
	}
	return out, nil
}

// Component is the one of an id.
func (s *State) Component(id int64, b Blobs) (Component, error) {
	c, f := s.component(id)
	if f != nil {
		return Component{}, f
	}
	return s.showComponent(c, s.members(c.serial), b)
}

// members are the definitions of a component, 0 those of none.
func (s *State) members(component uint64) (out []*definition) {
	for _, d := range s.definitions {
		if d.Component == component {
			out = append(out, d)
		}
	}
	return out
}

func (s *State) showComponent(c *component, members []*definition, b Blobs) (Component, error) {
	defs, err := s.showDefinitions(members, b)
	return Component{c.ID, c.Name, defs}, err
}

func (s *State) showDefinitions(ds []*definition, b Blobs) ([]Definition, error) {
	slices.SortFunc(ds, func(a, b *definition) int { return cmp.Compare(a.ID, b.ID) })
	out := make([]Definition, len(ds))
	for i, d := range ds {
		var err error
		if out[i], err = s.showDefinition(d, b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *State) showDefinition(d *definition, b Blobs) (Definition, error) {
	out := Definition{ID: d.ID, Name: d.Name, Content: facts.JSON("null")}
	if c := s.components[d.Component]; c != nil {
		id := c.ID
		out.Component = &id
	}
	if sha := d.content(0).SHA; sha != "" {
		var err error
		if out.Content, err = b.Blob(sha); err != nil {
			return out, fmt.Errorf("content of resource_definition %d: %w", d.ID, err)
		}
	}
	return out, nil
}

// Definitions are all by their ids, or those of one component (*component nil: of none).
func (s *State) Definitions(component **int64, b Blobs) ([]Definition, error) {
	switch {
	case component == nil:
		return s.showDefinitions(slices.Collect(maps.Values(s.definitions)), b)
	case *component == nil:
		return s.showDefinitions(s.members(0), b)
	}
	serial, there := s.byID.components[**component]
	if !there {
		return []Definition{}, nil
	}
	return s.showDefinitions(s.members(serial), b)
}

// Definition is the one of an id.
func (s *State) Definition(id int64, b Blobs) (Definition, error) {
	d, f := s.definition(id)
	if f != nil {
		return Definition{}, f
	}
	return s.showDefinition(d, b)
}

// ResolveResource is the definition that a name or an id means in an environment.
func (s *State) ResolveResource(environment int64, r Ref, b Blobs) (Definition, error) {
	e, f := s.environment(environment)
	if f != nil {
		return Definition{}, f
	}
	d, f := s.resource(e, r)
	if f != nil {
		return Definition{}, f
	}
	return s.showDefinition(d, b)
}

// Secrets are the declared keys of a definition.
func (s *State) Secrets(id int64) ([]string, error) {
	d, f := s.definition(id)
	if f != nil {
		return nil, f
	}
	return append([]string{}, d.Secrets...), nil
}

// Environments are all, by their ids.
func (s *State) Environments() []Environment {
	out := make([]Environment, 0, len(s.environments))
	for _, e := range sorted(s.environments, func(a, b *environment) int { return cmp.Compare(a.ID, b.ID) }) {
		out = append(out, s.showEnvironment(e))
	}
	return out
}

// Environment is the one of an id.
func (s *State) Environment(id int64) (Environment, error) {
	e, f := s.environment(id)
	if f != nil {
		return Environment{}, f
	}
	return s.showEnvironment(e), nil
}

func (s *State) showEnvironment(e *environment) Environment {
	out := Environment{e.ID, make([]int64, len(e.Components)), e.levelNames()}
	for i, c := range e.Components {
		out.Components[i] = s.components[c].ID
	}
	return out
}

// Levels are those of an environment, in their order.
func (s *State) Levels(environment int64) ([]Level, error) {
	e, f := s.environment(environment)
	if f != nil {
		return nil, f
	}
	out := make([]Level, len(e.Levels))
	for i := range e.Levels {
		out[i] = e.showLevel(i)
	}
	return out, nil
}

// Level is one of an environment's.
func (s *State) Level(environment int64, r Ref) (Level, error) {
	e, f := s.environment(environment)
	if f != nil {
		return Level{}, f
	}
	l, f := e.levelOf(r)
	if f != nil {
		return Level{}, f
	}
	return e.showLevel(slices.Index(e.Levels, *l)), nil
}

func (e *environment) showLevel(i int) Level {
	l := e.Levels[i]
	out := Level{ID: l.ID, Name: l.Name, Environment: e.ID, Values: []string{}}
	if i > 0 {
		parent := e.Levels[i-1].Name
		out.Parent = &parent
	}
	prefix := hex16(l.Serial)
	for name := range e.places.all {
		if name[:len(prefix)] == prefix {
			value, err := unescape(name[len(prefix)+1:])
			if err == nil {
				out.Values = append(out.Values, value)
			}
		}
	}
	if ofNodes(l.Name) {
		for id := range e.nodes.all {
			out.Values = append(out.Values, id)
		}
	}
	slices.Sort(out.Values)
	out.Values = slices.Compact(out.Values)
	return out
}

// Nodes are those registered in an environment, by their ids.
func (s *State) Nodes(environment int64) ([]Node, error) {
	e, f := s.environment(environment)
	if f != nil {
		return nil, f
	}
	out := []Node{}
	for id, n := range e.nodes.all {
		out = append(out, e.showNode(id, n))
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// Node finds a node by any of its names.
func (s *State) Node(environment int64, name string) (Node, error) {
	e, f := s.environment(environment)
	if f != nil {
		return Node{}, f
	}
	id, known := e.node(name)
	if !known {
		return Node{}, notFound("node %q: is not registered in environment %d", name, environment)
	}
	n, _ := e.nodes.get(id)
	return e.showNode(id, n), nil
}

func (e *environment) showNode(id string, n nodeValue) Node {
	out := Node{ID: id, FQDN: n.FQDN, Certname: n.Certname}
	for serial, value := range n.Levels {
		l := e.level(serial)
		if l == nil {
			continue
		}
		if out.Levels == nil {
			out.Levels = map[string]string{}
		}
		out.Levels[l.Name] = value
	}
	return out
}

func sorted[K comparable, V any](m map[K]V, by func(a, b V) int) []V {
	return slices.SortedFunc(maps.Values(m), by)
}
