package metadata

import (
	"slices"
	"strings"

	"edgespan/config"
)

// Kind is the type of a parameter.
type Kind int

// The types of the seed, and the type of the levels above entries.
const (
	Level Kind = iota
	Integer
	Float
	String
	Boolean
	Map
	ObjectKind
)

var kinds = map[string]Kind{"INTEGER": Integer, "FLOAT": Float, "STRING": String, "BOOLEAN": Boolean, "MAP": Map,
	"OBJECT": ObjectKind}

// String returns the type in the spelling of the file.
func (k Kind) String() string {
	for name, kind := range kinds {
		if k == kind {
			return name
		}
	}
	return ""
}

// param is the compiled description of one place of a config: a level, an entry, a property of an object or the value
// of a map.
type param struct {
	kind                                   Kind
	entry                                  bool // a root entry, not a property
	desc, action, tag                      string
	acts                                   bool // the action takes effect
	required, readOnly, deprecated, secret bool
	strict                                 bool
	sync                                   *bool // nil: as the enclosing param
	flag                                   bool  // a command-line flag: the value is a string
	def                                    any
	hasDefault                             bool

	known    map[string]*param // for a level and for an object with described properties
	needs    []string          // required properties, sorted
	each     *param            // for a map with described values
	ints     *numbers[int64]
	floats   *numbers[float64]
	text     *texts
	sentence string // the permitted values, for messages
}

// inherited holds the settings that a place inherits.
type inherited struct {
	strict bool
	flag   bool // below the key flags
}

type compiler struct {
	opts             Options
	path             []string // in the expanded document
	faults, warnings config.Faults
}

func (c *compiler) within(key string, do func()) {
	c.path = append(c.path, key)
	do()
	c.path = c.path[:len(c.path)-1]
}

func (c *compiler) addFault(problem, expectation string) {
	c.faults.Add(slices.Clone(c.path), problem, expectation)
}

func (c *compiler) addKeyFault(key, problem, expectation string) {
	c.faults.Add(config.Below(c.path, key), problem, expectation)
}

func wrongType(v any) string { return config.InvalidType(config.KindOf(v)) }

// compileLevel compiles an object above the entries. Its key strict is edgespan's extension.
func (c *compiler) compileLevel(o config.Object, from inherited) *param {
	p := &param{kind: Level, known: make(map[string]*param, len(o)), sentence: "an object"}
	if strict, ok := o["strict"].(bool); ok {
		from.strict = strict
	}
	p.strict = from.strict
	for _, key := range config.Keys(o) {
		v := o[key]
		if _, ok := v.(bool); ok && key == "strict" {
			continue
		}
		below := from
		below.flag = from.flag || c.opts.E2E && len(c.path) == 0 && key == "flags"
		c.within(key, func() {
			if child := c.compileChild(v, below); child != nil {
				p.known[key] = child
			}
		})
	}
	return p
}

// compileChild compiles a level or an entry. An entry has desc, type and action; an object with only some of them is an
// incomplete entry, since a level has none.
func (c *compiler) compileChild(v any, from inherited) *param {
	o, ok := v.(config.Object)
	if !ok {
		c.addFault(wrongType(v), "must be an entry or a level of entries, each an object")
		return nil
	}
	var has, lacks []string
	for _, key := range []string{"desc", "type", "action"} {
		if v, found := o[key]; !found {
			lacks = append(lacks, key)
		} else if _, below := v.(config.Object); !below {
			has = append(has, key)
		}
	}
	switch {
	case len(lacks) == 0:
		return c.compileEntry(o, from)
	case len(has) > 0:
		c.addFault("entry without "+strings.Join(lacks, " and "), "must have desc, type and action")
		return nil
	}
	return c.compileLevel(o, from)
}

func (c *compiler) compileEntry(o config.Object, from inherited) *param {
	p := c.compileParam(o, from)
	p.entry, p.required = true, false
	if p.acts && slices.Contains(propertyOnly, p.action) {
		p.acts = false
		c.warnings.Add(slices.Clone(c.path), "its action "+p.action+" has no effect on an entry",
			"must be on a property of an object")
	}
	return p
}

// compileParam compiles the common part of entries, properties and values of maps.
func (c *compiler) compileParam(o config.Object, from inherited) *param {
	p := &param{desc: c.readString(o, "desc"), tag: c.readString(o, "tag"), strict: from.strict, flag: from.flag}
	c.action(p, o)
	p.required, _ = c.readFlag(o, "required")
	p.readOnly, _ = c.readFlag(o, "readOnly")
	p.deprecated, _ = c.readFlag(o, "deprecated")
	p.secret, _ = c.readFlag(o, "secret")
	if strict, given := c.readFlag(o, "strict"); given {
		p.strict = strict
	}
	if sync, given := c.readFlag(o, "sync"); given {
		p.sync = &sync
	}
	name, _ := o["type"].(string)
	kind, known := kinds[name]
	if _, given := o["type"]; !given {
		c.addKeyFault("type", config.Required, "must be INTEGER, FLOAT, STRING, BOOLEAN, MAP or OBJECT")
		return p
	} else if !known {
		c.addKeyFault("type", shown(o["type"]), "must be INTEGER, FLOAT, STRING, BOOLEAN, MAP or OBJECT")
		return p
	}
	p.kind = kind
	c.readConstraints(p, o)
	p.sentence = p.describe(limit)
	if def, given := o["default"]; given {
		p.def, p.hasDefault = def, true
		c.checkDefault(p)
	}
	return p
}

// checkDefault validates the default.
func (c *compiler) checkDefault(p *param) {
	v := validator{}
	v.value(p, p.def)
	for _, f := range v.report.Faults {
		c.faults.Add(config.Below(append(slices.Clone(c.path), "default"), f.Path...), f.Problem, f.Expectation)
	}
}

func (c *compiler) action(p *param, o config.Object) {
	v, given := o["action"]
	if !given {
		return
	}
	name, ok := v.(string)
	if !ok {
		c.addKeyFault("action", wrongType(v), "must be the name of an action")
		return
	}
	p.action = name
	switch {
	case c.isKnownAction(name):
		p.acts = name != noAction
	case !c.opts.UnknownActions:
		c.addKeyFault("action", config.InvalidValue(config.Printable(name)), config.OneOf(c.actions()))
	}
}

// readConstraints reads the constraints of the type and ignores those of other types.
func (c *compiler) readConstraints(p *param, o config.Object) {
	sub := func(key string, read func(config.Object)) {
		v, given := o[key]
		if !given {
			return
		}
		c.within(key, func() {
			if o, ok := v.(config.Object); ok {
				read(o)
			} else {
				c.addFault(wrongType(v), "must be an object")
			}
		})
	}
	below := inherited{strict: p.strict}
	switch p.kind {
	case Integer:
		sub("intVal", func(o config.Object) { p.ints = constraint(c, o, "allowedRanges", asInt, true) })
	case Float:
		sub("floatVal", func(o config.Object) { p.floats = constraint(c, o, "allowedRanges", asFloat, true) })
	case String:
		sub("strVal", func(o config.Object) { p.text = c.texts(o) })
	case Map:
		sub("mapVal", func(o config.Object) {
			p.each = c.compileParam(o, below)
			// By the seed, the value of a map has a type and its constraints, nothing else.
			p.each.acts, p.each.required, p.each.readOnly, p.each.deprecated = false, false, false, false
			p.each.sync = nil
		})
	case ObjectKind:
		sub("objVal", func(o config.Object) { c.readProperties(p, o, below) })
	case Boolean, Level:
	}
}

func (c *compiler) readProperties(p *param, o config.Object, from inherited) {
	all, ok := o["properties"].(config.Object)
	if !ok {
		c.addKeyFault("properties", wrongType(o["properties"]), "must be an object of properties")
		return
	}
	p.known = make(map[string]*param, len(all))
	for _, name := range config.Keys(all) {
		c.path = append(c.path, "properties")
		c.within(name, func() {
			o, ok := all[name].(config.Object)
			if !ok {
				c.addFault(wrongType(all[name]), "must be a property, an object")
				return
			}
			if _, has := o["desc"]; !has {
				c.addKeyFault("desc", config.Required, "")
			}
			property := c.compileParam(o, from)
			p.known[name] = property
			if property.required {
				p.needs = append(p.needs, name)
			}
		})
		c.path = c.path[:len(c.path)-1]
	}
}

// readString reads an optional string.
func (c *compiler) readString(o config.Object, key string) string {
	v, given := o[key]
	s, ok := v.(string)
	if given && !ok {
		c.addKeyFault(key, wrongType(v), "must be a string")
	}
	return s
}

// readFlag reads an optional boolean.
func (c *compiler) readFlag(o config.Object, key string) (value, given bool) {
	v, given := o[key]
	value, ok := v.(bool)
	if given && !ok {
		c.addKeyFault(key, wrongType(v), "must be true or false")
	}
	return value, given && ok
}
