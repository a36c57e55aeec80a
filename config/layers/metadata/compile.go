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

func (c *compiler) at(key string, do func()) {
	c.path = append(c.path, key)
	do()
	c.path = c.path[:len(c.path)-1]
}

func (c *compiler) fault(problem, expectation string) {
	c.faults.Add(slices.Clone(c.path), problem, expectation)
}

func (c *compiler) faultOf(key, problem, expectation string) {
	c.faults.Add(config.Sub(c.path, key), problem, expectation)
}

func wrongType(v any) string { return config.InvalidType(config.KindOf(v)) }

// level compiles an object above the entries. Its key strict is edgespan's extension.
func (c *compiler) level(o config.Object, from inherited) *param {
	p := &param{kind: Level, known: make(map[string]*param, len(o)), sentence: "an object"}
	if strict, is := o["strict"].(bool); is {
		from.strict = strict
	}
	p.strict = from.strict
	for _, key := range config.Keys(o) {
		v := o[key]
		if _, is := v.(bool); is && key == "strict" {
			continue
		}
		below := from
		below.flag = from.flag || c.opts.E2E && len(c.path) == 0 && key == "flags"
		c.at(key, func() {
			if child := c.child(v, below); child != nil {
				p.known[key] = child
			}
		})
	}
	return p
}

// child compiles a level or an entry. An entry has desc, type and action; an object with only some of them is an
// incomplete entry, since a level has none.
func (c *compiler) child(v any, from inherited) *param {
	o, is := v.(config.Object)
	if !is {
		c.fault(wrongType(v), "must be an entry or a level of entries, each an object")
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
		return c.entry(o, from)
	case len(has) > 0:
		c.fault("entry without "+strings.Join(lacks, " and "), "must have desc, type and action")
		return nil
	}
	return c.level(o, from)
}

func (c *compiler) entry(o config.Object, from inherited) *param {
	p := c.param(o, from)
	p.entry, p.required = true, false
	if p.acts && slices.Contains(propertyOnly, p.action) {
		p.acts = false
		c.warnings.Add(slices.Clone(c.path), "its action "+p.action+" has no effect on an entry",
			"must be on a property of an object")
	}
	return p
}

// param compiles the common part of entries, properties and values of maps.
func (c *compiler) param(o config.Object, from inherited) *param {
	p := &param{desc: c.string(o, "desc"), tag: c.string(o, "tag"), strict: from.strict, flag: from.flag}
	c.action(p, o)
	p.required, _ = c.flag(o, "required")
	p.readOnly, _ = c.flag(o, "readOnly")
	p.deprecated, _ = c.flag(o, "deprecated")
	p.secret, _ = c.flag(o, "secret")
	if strict, given := c.flag(o, "strict"); given {
		p.strict = strict
	}
	if sync, given := c.flag(o, "sync"); given {
		p.sync = &sync
	}
	name, _ := o["type"].(string)
	kind, known := kinds[name]
	if _, given := o["type"]; !given {
		c.faultOf("type", config.Required, "must be INTEGER, FLOAT, STRING, BOOLEAN, MAP or OBJECT")
		return p
	} else if !known {
		c.faultOf("type", shown(o["type"]), "must be INTEGER, FLOAT, STRING, BOOLEAN, MAP or OBJECT")
		return p
	}
	p.kind = kind
	c.constraints(p, o)
	p.sentence = p.describe(limit)
	if def, given := o["default"]; given {
		p.def, p.hasDefault = def, true
		c.byDefault(p)
	}
	return p
}

// byDefault validates the default.
func (c *compiler) byDefault(p *param) {
	v := validator{}
	v.value(p, p.def)
	for _, f := range v.report.Faults {
		c.faults.Add(config.Sub(append(slices.Clone(c.path), "default"), f.Path...), f.Problem, f.Expectation)
	}
}

func (c *compiler) action(p *param, o config.Object) {
	v, given := o["action"]
	if !given {
		return
	}
	name, is := v.(string)
	if !is {
		c.faultOf("action", wrongType(v), "must be the name of an action")
		return
	}
	p.action = name
	switch {
	case c.known(name):
		p.acts = name != noAction
	case !c.opts.UnknownActions:
		c.faultOf("action", config.InvalidValue(config.Printable(name)), config.OneOf(c.actions()))
	}
}

// constraints reads the constraints of the type and ignores those of other types.
func (c *compiler) constraints(p *param, o config.Object) {
	sub := func(key string, read func(config.Object)) {
		v, given := o[key]
		if !given {
			return
		}
		c.at(key, func() {
			if o, is := v.(config.Object); is {
				read(o)
			} else {
				c.fault(wrongType(v), "must be an object")
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
			p.each = c.param(o, below)
			// By the seed, the value of a map has a type and its constraints, nothing else.
			p.each.acts, p.each.required, p.each.readOnly, p.each.deprecated = false, false, false, false
			p.each.sync = nil
		})
	case ObjectKind:
		sub("objVal", func(o config.Object) { c.properties(p, o, below) })
	case Boolean, Level:
	}
}

func (c *compiler) properties(p *param, o config.Object, from inherited) {
	all, is := o["properties"].(config.Object)
	if !is {
		c.faultOf("properties", wrongType(o["properties"]), "must be an object of properties")
		return
	}
	p.known = make(map[string]*param, len(all))
	for _, name := range config.Keys(all) {
		c.path = append(c.path, "properties")
		c.at(name, func() {
			o, is := all[name].(config.Object)
			if !is {
				c.fault(wrongType(all[name]), "must be a property, an object")
				return
			}
			if _, has := o["desc"]; !has {
				c.faultOf("desc", config.Required, "")
			}
			property := c.param(o, from)
			p.known[name] = property
			if property.required {
				p.needs = append(p.needs, name)
			}
		})
		c.path = c.path[:len(c.path)-1]
	}
}

// string reads an optional string.
func (c *compiler) string(o config.Object, key string) string {
	v, given := o[key]
	s, is := v.(string)
	if given && !is {
		c.faultOf(key, wrongType(v), "must be a string")
	}
	return s
}

// flag reads an optional boolean.
func (c *compiler) flag(o config.Object, key string) (value, given bool) {
	v, given := o[key]
	value, is := v.(bool)
	if given && !is {
		c.faultOf(key, wrongType(v), "must be true or false")
	}
	return value, given && is
}
