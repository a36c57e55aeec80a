package model

import (
	"maps"

	"edgespan/config/kv"
)

func first[V any](v V, _ bool) V { return v }

func (d *draft) applyComponent(k kv.Key, value []byte) error {
	serial, err := parseHex(string(k[len(folderComponents):]))
	if err != nil {
		return err
	}
	d.cloneModel()
	if was := d.s.components[serial]; was != nil {
		delete(d.s.components, serial)
		delete(d.s.byID.components, was.ID)
	}
	if value == nil {
		return d.removeComponent(serial)
	}
	c, err := decode[component](k, value)
	c.serial = serial
	d.s.components[serial], d.s.byID.components[c.ID] = &c, serial
	return err
}

// removeComponent hides the definitions of a component that no longer exists and removes it from environments.
func (d *draft) removeComponent(serial uint64) error {
	for _, def := range d.s.definitions {
		if def.Component == serial {
			d.removeDefinition(def)
		}
	}
	for _, e := range d.s.environments {
		for i, c := range e.Components {
			if c == serial {
				own := d.environment(e.serial)
				own.Components = append(own.Components[:i:i], own.Components[i+1:]...)
				break
			}
		}
	}
	return nil
}

func (d *draft) applyDefinition(k kv.Key, value []byte) error {
	serial, err := parseHex(string(k[len(folderDefinitions):]))
	if err != nil {
		return err
	}
	d.cloneModel()
	was := d.s.definitions[serial]
	if value == nil {
		if was != nil {
			d.removeDefinition(was)
		}
		return nil
	}
	def, err := decode[definition](k, value)
	if err != nil {
		return err
	}
	if len(def.Secrets) > 0 {
		def.masks = shaOf(encode(def.Secrets))
	}
	if def.serial = serial; def.Component != 0 && d.s.components[def.Component] == nil {
		return nil // invisible without its component
	}
	d.s.definitions[serial], d.s.byID.definitions[def.ID] = &def, serial
	return nil
}

// removeDefinition hides a definition and its records.
func (d *draft) removeDefinition(def *definition) {
	delete(d.s.definitions, def.serial)
	delete(d.s.byID.definitions, def.ID)
	for _, e := range d.s.environments {
		for name, rs := range e.places.all {
			if _, there := rs.m[def.serial]; there {
				d.putRecord(d.environment(e.serial), name, def.serial, nil)
			}
		}
	}
}

func (d *draft) applyEnvironment(k kv.Key, value []byte) error {
	serial, err := parseHex(string(k[len(folderEnvironments):]))
	if err != nil {
		return err
	}
	d.cloneModel()
	was := d.s.environments[serial]
	if value == nil {
		if was != nil {
			delete(d.s.environments, serial)
			delete(d.s.byID.environments, was.ID)
		}
		return nil
	}
	e, err := decode[environment](k, value)
	if err != nil {
		return err
	}
	e.serial, e.by = serial, d.by
	var there []uint64
	for _, c := range e.Components {
		if d.s.components[c] != nil {
			there = append(there, c)
		}
	}
	if e.Components = there; was != nil {
		e.records, e.own, e.places, e.paths, e.nodes, e.aliases = was.records, was.own, was.places, was.paths, was.nodes,
			was.aliases
	}
	d.s.environments[serial], d.s.byID.environments[e.ID] = &e, serial
	if was != nil {
		d.removeLevels(&e)
	}
	return nil
}

// removeLevels hides the records and paths at levels that an environment no longer has.
func (d *draft) removeLevels(e *environment) {
	have := map[string]bool{hex16(0): true}
	for _, l := range e.Levels {
		have[hex16(l.Serial)] = true
	}
	for name, rs := range e.places.all {
		if !have[name[:16]] {
			e.records, e.own = e.records-len(rs.m), e.own-rs.uploadedBytes()
			e.places.remove(d.by, name)
		}
	}
	for name := range e.paths.all {
		if !have[name[:16]] {
			e.paths.remove(d.by, name)
		}
	}
}

// applyPath records a level value below which something was written.
func (d *draft) applyPath(k kv.Key, value []byte) error {
	s := segments(k, folderPaths, 3)
	if s == nil {
		return nil
	}
	serial, err := parseHex(s[0])
	if err != nil {
		return err
	}
	level, err := parseHex(s[1])
	if err != nil {
		return err
	}
	e := d.environment(serial)
	switch name := s[1] + "/" + s[2]; {
	case e == nil || e.level(level) == nil: // invisible
	case value == nil:
		e.paths.remove(d.by, name)
	default:
		e.paths.put(d.by, name, struct{}{})
	}
	return nil
}

func (d *draft) applyNode(k kv.Key, value []byte) error {
	s := segments(k, folderNodes, 2)
	if s == nil {
		return nil
	}
	serial, err := parseHex(s[0])
	if err != nil {
		return err
	}
	id, err := unescape(s[1])
	if err != nil {
		return err
	}
	e := d.environment(serial)
	if e == nil {
		return nil
	}
	if was, there := e.nodes.get(id); there {
		e.nodes.remove(d.by, id)
		for _, alias := range []string{was.FQDN, was.Certname} {
			if id == first(e.aliases.get(alias)) {
				e.aliases.remove(d.by, alias)
			}
		}
	}
	if value == nil {
		return nil
	}
	n, err := decode[nodeValue](k, value)
	e.nodes.put(d.by, id, n)
	for _, alias := range []string{n.FQDN, n.Certname} {
		if alias != "" && alias != id {
			e.aliases.put(d.by, alias, id)
		}
	}
	return err
}

func (d *draft) applyNow(k kv.Key, value []byte) error {
	s := segments(k, folderNow, 4)
	if s == nil {
		return nil
	}
	environment, err := parseHex(s[0])
	if err != nil {
		return err
	}
	level, err := parseHex(s[1])
	if err != nil {
		return err
	}
	definition, err := parseHex(s[3])
	if err != nil {
		return err
	}
	e := d.environment(environment)
	if e == nil || d.s.definitions[definition] == nil || level != 0 && e.level(level) == nil {
		return nil // invisible
	}
	name := s[1] + "/" + s[2]
	if value == nil {
		d.putRecord(e, name, definition, nil)
		return nil
	}
	n, err := decode[halves](k, value)
	d.putRecord(e, name, definition, &n)
	return err
}

// putRecord writes a record of an environment that the draft may change; nil removes the record.
func (d *draft) putRecord(e *environment, name string, definition uint64, n *halves) {
	rs, there := e.places.get(name)
	if !there {
		if n == nil {
			return
		}
		rs = &records{by: d.by, m: map[uint64]halves{}}
		e.places.put(d.by, name, rs)
	}
	if rs.by != d.by {
		rs = &records{by: d.by, m: maps.Clone(rs.m)}
		e.places.put(d.by, name, rs)
	}
	e.records, e.own = e.records-len(rs.m), e.own-rs.m[definition].uploadedBytes()
	if n == nil {
		delete(rs.m, definition)
	} else {
		rs.m[definition] = *n
	}
	e.own += rs.m[definition].uploadedBytes()
	if e.records += len(rs.m); len(rs.m) == 0 {
		e.places.remove(d.by, name)
	}
}

// level returns the level with a serial, or nil.
func (e *environment) level(serial uint64) *level {
	for i := range e.Levels {
		if e.Levels[i].Serial == serial {
			return &e.Levels[i]
		}
	}
	return nil
}
