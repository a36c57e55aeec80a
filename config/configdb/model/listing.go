package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"edgespan/config/configdb"
)

// Components returns all components, sorted by id.
func (s *State) Components(b Blobs, reveal bool) ([]Component, error) {
	members := map[uint64][]*definition{}
	for _, d := range s.definitions {
		members[d.Component] = append(members[d.Component], d)
	}
	out := make([]Component, 0, len(s.components))
	for _, c := range sortedValues(s.components, func(a, b *component) int { return cmp.Compare(a.ID, b.ID) }) {
		shown, err := s.showComponent(c, members[c.serial], b, reveal)
		if err != nil {
			return nil, err
		}
		out = append(out, shown)
	}
	return out, nil
}

// Component returns the component with an id.
func (s *State) Component(id int64, b Blobs, reveal bool) (Component, error) {
	c, f := s.component(id)
	if f != nil {
		return Component{}, f
	}
	return s.showComponent(c, s.members(c.serial), b, reveal)
}

// members returns the definitions of a component; 0 means those without a component.
func (s *State) members(component uint64) (out []*definition) {
	for _, d := range s.definitions {
		if d.Component == component {
			out = append(out, d)
		}
	}
	return out
}

func (s *State) showComponent(c *component, members []*definition, b Blobs, reveal bool) (Component, error) {
	defs, err := s.showDefinitions(members, b, reveal)
	return Component{c.ID, c.Name, defs}, err
}

func (s *State) showDefinitions(ds []*definition, b Blobs, reveal bool) ([]Definition, error) {
	slices.SortFunc(ds, func(a, b *definition) int { return cmp.Compare(a.ID, b.ID) })
	out := make([]Definition, len(ds))
	for i, d := range ds {
		var err error
		if out[i], err = s.showDefinition(d, b, reveal); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// showDefinition returns a definition, with secrets masked unless reveal is set.
func (s *State) showDefinition(d *definition, b Blobs, reveal bool) (Definition, error) {
	out := Definition{ID: d.ID, Name: d.Name, Content: configdb.JSON("null")}
	if err := b.Meter().Spend(512, 1024); err != nil {
		return out, documentError(err, nil)
	}
	if c := s.components[d.Component]; c != nil {
		id := c.ID
		out.Component = &id
	}
	if sha := d.content(0).SHA; sha != "" {
		size := d.content(0).Size
		if err := b.Meter().Spend(4*size, 4*size); err != nil { // the content is unpacked and written
			return out, documentError(err, nil)
		}
		var err error
		if out.Content, err = b.Blob(sha); err != nil {
			return out, fmt.Errorf("content of resource_definition %d: %w", d.ID, err)
		}
		if size == 0 { // an earlier release did not record the size
			err = b.Meter().Spend(4*len(out.Content), 4*len(out.Content))
		}
		out.Secret = len(d.Secrets) > 0
		if err == nil && !reveal {
			hidden := d.secrets()
			for _, s := range d.secrets() {
				hidden = append(hidden, s.Below(templateKey))
			}
			out.Content, err = b.Meter().Mask(out.Content, hidden)
		}
		return out, documentError(err, nil)
	}
	return out, nil
}

// Definitions returns all definitions sorted by id, or those of one component (*component nil: without a component).
func (s *State) Definitions(component **int64, b Blobs, reveal bool) ([]Definition, error) {
	switch {
	case component == nil:
		return s.showDefinitions(slices.Collect(maps.Values(s.definitions)), b, reveal)
	case *component == nil:
		return s.showDefinitions(s.members(0), b, reveal)
	}
	serial, there := s.byID.components[**component]
	if !there {
		return []Definition{}, nil
	}
	return s.showDefinitions(s.members(serial), b, reveal)
}

// Definition returns the definition with an id.
func (s *State) Definition(id int64, b Blobs, reveal bool) (Definition, error) {
	d, f := s.definition(id)
	if f != nil {
		return Definition{}, f
	}
	return s.showDefinition(d, b, reveal)
}

// ResolveResource returns the id and name of the definition that a reference names in an environment.
func (s *State) ResolveResource(environment int64, r Ref) (Definition, error) {
	e, f := s.environment(environment)
	if f != nil {
		return Definition{}, f
	}
	d, f := s.resource(e, r)
	if f != nil {
		return Definition{}, f
	}
	return Definition{ID: d.ID, Name: d.Name}, nil
}

// Secrets returns the declared secret keys of a definition.
func (s *State) Secrets(id int64) ([]string, error) {
	d, f := s.definition(id)
	if f != nil {
		return nil, f
	}
	return append([]string{}, d.Secrets...), nil
}

// Environments returns all environments, sorted by id.
func (s *State) Environments() []Environment {
	out := make([]Environment, 0, len(s.environments))
	for _, e := range sortedValues(s.environments, func(a, b *environment) int { return cmp.Compare(a.ID, b.ID) }) {
		out = append(out, s.showEnvironment(e))
	}
	return out
}

// Environment returns the environment with an id.
func (s *State) Environment(id int64) (Environment, error) {
	e, f := s.environment(id)
	if f != nil {
		return Environment{}, f
	}
	return s.showEnvironment(e), nil
}

func (s *State) showEnvironment(e *environment) Environment {
	out := Environment{e.ID, make([]int64, len(e.Components)), e.levelNames(), e.Nodes}
	for i, c := range e.Components {
		out.Components[i] = s.components[c].ID
	}
	return out
}

// Levels returns the levels of an environment, in their order.
func (s *State) Levels(environment int64, m *configdb.Meter) ([]Level, error) {
	e, f := s.environment(environment)
	if f != nil {
		return nil, f
	}
	return e.showLevels(m, e.Levels)
}

// Level returns one level of an environment.
func (s *State) Level(environment int64, r Ref, m *configdb.Meter) (Level, error) {
	e, f := s.environment(environment)
	if f != nil {
		return Level{}, f
	}
	l, f := e.levelOf(r)
	if f != nil {
		return Level{}, f
	}
	out, err := e.showLevels(m, []level{*l})
	if err != nil {
		return Level{}, err
	}
	return out[0], nil
}

// prefixOfPlace is the length of the level in the name of a place.
const prefixOfPlace = 16

// showLevels returns some levels with their values, collected in one pass over the places.
func (e *environment) showLevels(m *configdb.Meter, levels []level) ([]Level, error) {
	out := make([]Level, len(levels))
	desired := map[string]int{}
	for i, l := range levels {
		desired[hex16(l.Serial)] = i
		out[i] = Level{ID: l.ID, Name: l.Name, Environment: e.ID, Values: []string{}}
		if at := slices.Index(e.Levels, l); at > 0 {
			parent := e.Levels[at-1].Name
			out[i].Parent = &parent
		}
		if isNodeLevel(l.Name) {
			for id := range e.nodes.all {
				if err := m.Spend(4*len(id)+64, 2*len(id)+64); err != nil {
					return nil, documentError(err, nil)
				}
				out[i].Values = append(out[i].Values, id)
			}
		}
	}
	add := func(name string) error {
		i, ok := desired[name[:prefixOfPlace]]
		if !ok {
			return nil
		}
		if err := m.Spend(4*len(name)+64, 2*len(name)+64); err != nil {
			return documentError(err, nil)
		}
		if value, err := unescape(name[prefixOfPlace+1:]); err == nil {
			out[i].Values = append(out[i].Values, value)
		}
		return nil
	}
	for name := range e.places.all {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	for name := range e.paths.all {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	for i := range out {
		slices.Sort(out[i].Values)
		out[i].Values = slices.Compact(out[i].Values)
	}
	return out, nil
}

// Nodes returns the nodes registered in an environment, sorted by id.
func (s *State) Nodes(environment int64, m *configdb.Meter) ([]Node, error) {
	e, f := s.environment(environment)
	if f != nil {
		return nil, f
	}
	out := []Node{}
	for id, n := range e.nodes.all {
		size := 128 + len(id) + len(n.FQDN) + len(n.Certname)
		for _, value := range n.Levels {
			size += 128 + len(value)
		}
		if err := m.Spend(3*size, size); err != nil {
			return nil, documentError(err, nil)
		}
		out = append(out, e.showNode(id, n))
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// Node returns a node by any of its names.
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
	out := Node{ID: id, FQDN: n.FQDN, Certname: n.Certname, Undeclared: !n.declared(id), Former: n.By == "" &&
		n.declared(id)}
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

func sortedValues[K comparable, V any](m map[K]V, by func(a, b V) int) []V {
	return slices.SortedFunc(maps.Values(m), by)
}
