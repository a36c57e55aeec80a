package model

import (
	"maps"
	"slices"
	"strings"
)

// attachedComponents returns the serials of the components to attach to an environment.
func (wc *writeCheck) attachedComponents(refs []Ref) ([]uint64, *RequestError) {
	if len(refs) > MaxLevels {
		return nil, tooLarge("environment: too many components (%d): must be at most %d", len(refs), MaxLevels)
	}
	out := make([]uint64, 0, len(refs))
	for _, r := range refs {
		c, f := wc.componentOf(r)
		if f != nil {
			return nil, f
		}
		if slices.Contains(out, c.serial) {
			return nil, conflict("components of an environment: %d (%q) is there twice: duplicate key value violates unique "+
				"constraint: must be unique", c.ID, c.Name)
		}
		out = append(out, c.serial)
	}
	return out, nil
}

func (wc *writeCheck) componentOf(r Ref) (*component, *RequestError) {
	if r.Name == "" {
		return wc.s.component(r.ID)
	}
	for _, c := range wc.s.components {
		if c.Name == r.Name {
			return c, nil
		}
	}
	return nil, notFound("component %q: is not there", r.Name)
}

// reuseLevels returns levels with the given names; it reuses existing levels with their records.
func (wc *writeCheck) reuseLevels(have []level, names []string) ([]level, *RequestError) {
	if len(names) > MaxLevels {
		return nil, tooLarge("environment: too many levels (%d): must be at most %d", len(names), MaxLevels)
	}
	out := make([]level, 0, len(names))
	for i, name := range names {
		if f := checkLevelName(name); f != nil {
			return nil, f
		}
		if slices.Contains(names[:i], name) {
			return nil, conflict("hierarchy_levels: %q is there twice: duplicate key value violates unique constraint: "+
				"must be unique", name)
		}
		if at := slices.IndexFunc(have, func(l level) bool { return l.Name == name }); at >= 0 {
			out = append(out, have[at])
			continue
		}
		wc.s.head.IDs.Level++
		out = append(out, level{wc.nextSerial(), wc.s.head.IDs.Level, name})
	}
	return out, nil
}

func (wc *writeCheck) createEnvironment(w CreateEnvironment) error {
	if len(wc.s.environments) >= MaxThings {
		return tooLarge("environment: too many: must be at most %d", MaxThings)
	}
	id, f := wc.chooseID("environment", w.ID, &wc.s.head.IDs.Environment, wc.s.byID.environments)
	if f != nil {
		return f
	}
	e := environment{serial: wc.nextSerial(), ID: id, Nodes: w.Nodes}
	if e.Components, f = wc.attachedComponents(w.Components); f != nil {
		return f
	}
	if e.Levels, f = wc.reuseLevels(nil, w.Levels); f != nil {
		return f
	}
	wc.written.ID = id
	wc.addChange(Change{What: "environment", Did: "created", ID: id, Environment: id})
	return wc.put(serialKey(folderEnvironments, e.serial), &e)
}

func (wc *writeCheck) editEnvironment(w EditEnvironment) error {
	was, f := wc.s.environment(w.ID)
	if f != nil {
		return f
	}
	next := *was
	if w.Components != nil {
		if next.Components, f = wc.attachedComponents(*w.Components); f != nil {
			return f
		}
	}
	if w.Levels != nil {
		if next.Levels, f = wc.reuseLevels(was.Levels, *w.Levels); f != nil {
			return f
		}
	}
	if w.SelfRegistration != nil {
		next.SelfRegistration = *w.SelfRegistration
	}
	if w.StrictNodes != nil {
		next.StrictNodes = *w.StrictNodes
	}
	if slices.Equal(next.Components, was.Components) && slices.Equal(next.Levels, was.Levels) && next.Nodes == was.Nodes {
		return nil
	}
	wc.addChange(Change{What: "environment", Did: "changed", ID: was.ID, Environment: was.ID})
	for _, l := range next.Levels {
		if !slices.Contains(was.Levels, l) {
			wc.addChange(Change{What: "level", Did: "created", ID: l.ID, Name: l.Name, Environment: was.ID})
		}
	}
	for _, l := range was.Levels {
		if !slices.Contains(next.Levels, l) {
			wc.addChange(Change{What: "level", Did: "deleted", ID: l.ID, Name: l.Name, Environment: was.ID})
		}
	}
	return wc.put(serialKey(folderEnvironments, was.serial), &next)
}

func (wc *writeCheck) deleteEnvironment(w DeleteEnvironment) error {
	e, f := wc.s.environment(w.ID)
	if f != nil {
		return f
	}
	wc.addChange(Change{What: "environment", Did: "deleted", ID: e.ID, Environment: e.ID})
	return wc.remove(serialKey(folderEnvironments, e.serial))
}

func (wc *writeCheck) renameLevel(w RenameLevel) error {
	was, f := wc.s.environment(w.Environment)
	if f != nil {
		return f
	}
	l, f := was.levelOf(w.Level)
	if f != nil {
		return f
	}
	if f := checkLevelName(w.Name); f != nil {
		return f
	}
	if l.Name == w.Name {
		return nil
	}
	if slices.Contains(was.levelNames(), w.Name) {
		return conflict("level %q: is one of environment %d already: duplicate key value violates unique constraint: "+
			"must be another name", w.Name, was.ID)
	}
	next := *was
	next.Levels = slices.Clone(was.Levels)
	at := slices.Index(was.Levels, *l)
	next.Levels[at].Name = w.Name
	wc.addChange(Change{What: "level", Did: "changed", ID: l.ID, Name: w.Name, Environment: was.ID})
	return wc.put(serialKey(folderEnvironments, was.serial), &next)
}

func (wc *writeCheck) putNode(w PutNode) error {
	e, f := wc.s.environment(w.Environment)
	if f != nil {
		return f
	}
	n := w.Node
	for i, name := range []string{n.ID, n.FQDN, n.Certname} {
		if name == "" && i > 0 {
			continue
		}
		if f := checkValue("name of a node", name); f != nil {
			return f
		}
		if of, known := e.node(name); known && of != n.ID {
			return conflict("node %q: %q is a name of node %q already: must be another one", n.ID, name, of)
		}
		if i > 0 && name != n.ID && e.hasRecords(name) {
			return conflict("node %q: %q has records of its own: must be a name that has none", n.ID, name)
		}
	}
	was, known := e.nodes.get(n.ID)
	next := nodeValue{n.FQDN, n.Certname, was.Levels, byAdmin}
	if n.Undeclared {
		next.By = byUpload
		if known && was.declared(n.ID) {
			next.By = was.By // an earlier release did not record who registered it, and an upload does not decide it
		}
	}
	if n.Levels != nil {
		if next.Levels, f = e.declared(n.Levels); f != nil {
			return f
		}
	}
	if known && (was.By == next.By || !was.declared(n.ID) && next.By == byUpload) && was.FQDN == next.FQDN &&
		was.Certname == next.Certname && maps.Equal(was.Levels, next.Levels) {
		return nil
	}
	did := "created"
	if known {
		did = "changed"
	} else {
		wc.written.Registered = n.ID
	}
	wc.addChange(Change{What: "node", Did: did, Name: n.ID, Environment: e.ID})
	return wc.put(nodeKey(e.serial, n.ID), next)
}

// declared returns the level values to declare for a node, by the serials of the levels.
func (e *environment) declared(levels map[string]string) (map[uint64]string, *RequestError) {
	out := make(map[uint64]string, len(levels))
	for _, name := range sortedKeys(levels) {
		l, f := e.levelOf(Ref{Name: name})
		if name == "" || f != nil {
			return nil, invalid("levels of a node: %q is not a level of environment %d: must be %s", name, e.ID,
				strings.Join(e.levelNames(), ", "))
		}
		if isNodeLevel(name) {
			return nil, invalid("levels of a node: %q is that of the nodes themselves: must be another of environment %d",
				name, e.ID)
		}
		if f := checkValue("value of level "+name, levels[name]); f != nil {
			return nil, f
		}
		out[l.Serial] = levels[name]
	}
	return out, nil
}

// hasRecords reports whether records exist under a node's name.
func (e *environment) hasRecords(node string) bool {
	for _, l := range e.Levels {
		if _, there := e.places.get(placeOf(e.serial, l.Serial, node).name()); there && isNodeLevel(l.Name) {
			return true
		}
	}
	return false
}

// deleteNode removes a node's registration. Its records remain in case it is registered again.
func (wc *writeCheck) deleteNode(w DeleteNode) error {
	e, f := wc.s.environment(w.Environment)
	if f != nil {
		return f
	}
	id, known := e.node(w.ID)
	if !known {
		return notFound("node %q: is not registered in environment %d", w.ID, w.Environment)
	}
	wc.addChange(Change{What: "node", Did: "deleted", Name: id, Environment: e.ID})
	return wc.remove(nodeKey(e.serial, id))
}
