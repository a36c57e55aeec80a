package model

import (
	"slices"
	"strconv"
	"strings"
)

func (s *State) environment(id int64) (*environment, *RequestError) {
	if e := s.environments[s.byID.environments[id]]; e != nil {
		return e, nil
	}
	return nil, notFound("environment %d: is not there", id)
}

func (s *State) component(id int64) (*component, *RequestError) {
	if c := s.components[s.byID.components[id]]; c != nil {
		return c, nil
	}
	return nil, notFound("component %d: is not there", id)
}

func (s *State) definition(id int64) (*definition, *RequestError) {
	if d := s.definitions[s.byID.definitions[id]]; d != nil {
		return d, nil
	}
	return nil, notFound("resource_definition %d: is not there", id)
}

// resource returns the definition that a reference names in an environment; only definitions of its components count. A
// name with two definitions is ambiguous and needs an id, since components have no order of precedence.
func (s *State) resource(e *environment, r Ref) (*definition, *RequestError) {
	if r.Name == "" {
		d, f := s.definition(r.ID)
		if f != nil || !e.has(d) {
			return nil, notFound("resource_definition not found by %d in environment %d", r.ID, e.ID)
		}
		return d, nil
	}
	var found []*definition
	for _, d := range s.definitions {
		if d.Name == r.Name && e.has(d) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		return nil, notFound("resource_definition not found by %s in environment %d", r.Name, e.ID)
	case 1:
		return found[0], nil
	}
	slices.SortFunc(found, func(a, b *definition) int { return int(a.ID - b.ID) })
	ids := make([]string, len(found))
	for i, d := range found {
		ids[i] = strconv.FormatInt(d.ID, 10)
	}
	return nil, conflict("resource_definition %q in environment %d: is the name of %s: must be an id", r.Name, e.ID,
		strings.Join(ids, " and of "))
}

// has reports whether a definition belongs to one of the environment's components.
func (e *environment) has(d *definition) bool {
	return d.Component != 0 && slices.Contains(e.Components, d.Component)
}

func (e *environment) levelNames() []string {
	out := make([]string, len(e.Levels))
	for i, l := range e.Levels {
		out[i] = l.Name
	}
	return out
}

func (e *environment) levelOf(r Ref) (*level, *RequestError) {
	for i, l := range e.Levels {
		if r.Name != "" && l.Name == r.Name || r.Name == "" && l.ID == r.ID {
			return &e.Levels[i], nil
		}
	}
	if r.Name != "" {
		return nil, notFound("level %q: is not one of environment %d, whose levels are %s", r.Name, e.ID,
			strings.Join(e.levelNames(), ", "))
	}
	return nil, notFound("level %d: is not one of environment %d", r.ID, e.ID)
}

// isNodeLevel reports whether the values of a level are nodes.
func isNodeLevel(name string) bool { return name == "nodes" || name == "node" }

// node returns the id of a node from any of its names.
func (e *environment) node(name string) (string, bool) {
	if _, there := e.nodes.get(name); there {
		return name, true
	}
	return e.aliases.get(name)
}

// site is a target resolved in a state.
type site struct {
	environment *environment
	levels      []LevelValue // with node ids in place of other names
	places      []place      // the root first
	definition  *definition
	unknownNode string // the unregistered node of the path, if StrictNodes requires registration
	unknown     string // the unregistered node of the path
}

func (t *site) place() place { return t.places[len(t.places)-1] }

// site resolves the places of a target.
func (s *State) site(environment int64, levels []LevelValue) (*site, *RequestError) {
	e, f := s.environment(environment)
	if f != nil {
		return nil, f
	}
	if len(levels) > len(e.Levels) {
		asked := make([]string, len(levels))
		for i, l := range levels {
			asked[i] = l.Level
		}
		return nil, notFound("Levels %s can't be matched with environment %d levels: %s", formatPythonList(asked), e.ID,
			formatPythonList(e.levelNames()))
	}
	t := &site{environment: e, levels: slices.Clone(levels), places: make([]place, 1, len(levels)+1)}
	t.places[0] = placeOf(e.serial, 0, "")
	for i, l := range levels {
		if l.Level != e.Levels[i].Name {
			return nil, notFound("Unexpected level name '%s'. Expected '%s'.", l.Level, e.Levels[i].Name)
		}
		if f := checkValue("value of level "+l.Level, l.Value); f != nil {
			return nil, f
		}
		if isNodeLevel(l.Level) {
			if id, known := e.node(l.Value); known {
				t.levels[i].Value = id
			} else {
				t.unknown = l.Value
			}
		}
		t.places = append(t.places, placeOf(e.serial, e.Levels[i].Serial, t.levels[i].Value))
	}
	if e.StrictNodes {
		t.unknownNode = t.unknown
	}
	return t, nil
}

// otherEnvironment returns the lowest id of an environment that knows a node, or 0.
func (s *State) otherEnvironment(node string) int64 {
	var at int64
	for _, e := range s.environments {
		if _, known := e.node(node); known && (at == 0 || e.ID < at) {
			at = e.ID
		}
	}
	return at
}

// checkKnown returns a fault if the target is below a node that must be registered and is not.
func (s *State) checkKnown(t *site) *RequestError {
	if t.unknownNode == "" {
		return nil
	}
	if at := s.otherEnvironment(t.unknownNode); at != 0 {
		return notFound("node %q: is not assigned to environment %d but to %d", t.unknownNode, t.environment.ID, at)
	}
	return notFound("node %q: is not registered in environment %d", t.unknownNode, t.environment.ID)
}

// target resolves one resource at one place.
func (s *State) target(t Target) (*site, *RequestError) {
	at, f := s.site(t.Environment, t.Levels)
	if f != nil {
		return nil, f
	}
	at.definition, f = s.resource(at.environment, t.Resource)
	return at, f
}

// record returns the present record of a definition at a place.
func (e *environment) record(p place, definition uint64) halves {
	if rs, there := e.places.get(p.name()); there {
		return rs.m[definition]
	}
	return halves{}
}
