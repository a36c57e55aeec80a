package metadata

import (
	"slices"
	"strings"

	"edgespan/config"
)

// The rules that a value can violate.
const (
	RuleType     = "type"     // the value has another type than described
	RuleRange    = "range"    // a number, or the number in a string, is outside of all ranges
	RuleValue    = "value"    // the value is not one of those listed
	RuleRegex    = "regex"    // the value does not match the expression
	RuleRequired = "required" // a required property is missing
	RuleUnknown  = "unknown"  // a key below strict is not described
)

// Violation is one value that violates a rule.
type Violation struct {
	Path        []string
	Value       any    // nil for a missing value, {"$masked": true} for a secret
	Rule        string // one of the above
	Problem     string // "invalid value 70000"
	Expectation string // "must be an integer from 1 to 65535"
}

// ValidationReport holds the results of validating a config, each list sorted by path.
type ValidationReport struct {
	Faults []Violation
	// Unknown are the keys without description, only the topmost ones; those below strict are faults instead.
	Unknown [][]string
	// Deprecated and ReadOnly are the places in the config with these marks. By themselves they are no faults.
	Deprecated, ReadOnly [][]string
}

// Err converts the faults to those of a document; nil if there are none.
func (r ValidationReport) Err() config.Faults {
	var out config.Faults
	for _, f := range r.Faults {
		out.Add(f.Path, f.Problem, f.Expectation)
	}
	return out
}

// Validate checks a complete config and collects all results.
func (m *Metadata) Validate(o config.Object) ValidationReport {
	v := validator{}
	v.value(m.root, o)
	r := v.report
	slices.SortStableFunc(r.Faults, func(a, b Violation) int {
		if c := slices.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Rule, b.Rule)
	})
	for _, paths := range [][][]string{r.Unknown, r.Deprecated, r.ReadOnly} {
		slices.SortFunc(paths, slices.Compare)
	}
	return r
}

type validator struct {
	path   []string
	report ValidationReport
}

func (v *validator) here() []string { return slices.Clone(v.path) }

func (v *validator) fault(p *param, value any, rule string) {
	f := Violation{Path: v.here(), Value: value, Rule: rule, Problem: problem(p, value, rule),
		Expectation: config.MustBe(p.sentence)}
	if p.secret {
		f.Value, f.Problem = config.Object{"$masked": true}, "invalid secret of type "+config.KindOf(value)
	}
	v.report.Faults = append(v.report.Faults, f)
}

// problem formats the problem of a value. A flag's value is always a string, so its text matters and not its type.
func problem(p *param, value any, rule string) string {
	if _, text := value.(string); rule == RuleType && !(p.flag && text) {
		return wrongType(value)
	}
	return shown(value)
}

// value validates the value at the current path.
func (v *validator) value(p *param, value any) {
	if p.deprecated {
		v.report.Deprecated = append(v.report.Deprecated, v.here())
	}
	if p.readOnly {
		v.report.ReadOnly = append(v.report.ReadOnly, v.here())
	}
	if rule := p.violatedRule(value); rule != "" {
		v.fault(p, value, rule)
		return
	}
	o, ok := value.(config.Object)
	switch {
	case !ok:
	case p.each != nil:
		v.mapping(p.each, o)
	case p.known != nil:
		v.object(p, o)
	}
}

func (v *validator) mapping(each *param, o config.Object) {
	for key, value := range o {
		v.path = append(v.path, key)
		v.value(each, value)
		v.path = v.path[:len(v.path)-1]
	}
}

// object validates a level, or an object with described properties.
func (v *validator) object(p *param, o config.Object) {
	for key, value := range o {
		v.path = append(v.path, key)
		switch below, known := p.known[key]; {
		case known:
			v.value(below, value)
		case p.strict:
			v.report.Faults = append(v.report.Faults, Violation{v.here(), value, RuleUnknown, config.UnknownField, p.names()})
		default:
			v.report.Unknown = append(v.report.Unknown, v.here())
		}
		v.path = v.path[:len(v.path)-1]
	}
	for _, name := range p.needs {
		if _, has := o[name]; !has {
			v.report.Faults = append(v.report.Faults, Violation{config.Below(v.path, name),
				nil, RuleRequired, config.Required, config.MustBe(p.known[name].sentence)})
		}
	}
}

// violatedRule returns the rule that a value itself violates, or "".
func (p *param) violatedRule(value any) string {
	if p.flag && p.kind != Level {
		return p.violatedFlagRule(value)
	}
	switch p.kind {
	case Integer:
		if i, ok := value.(int64); !ok {
			return RuleType
		} else if p.ints != nil && !p.ints.has(i) {
			return p.ints.rule()
		}
	case Float:
		if f, ok := asFloat(value); !ok {
			return RuleType
		} else if p.floats != nil && !p.floats.has(f) {
			return p.floats.rule()
		}
	case String:
		if s, ok := p.text.of(value); !ok {
			return RuleType
		} else if p.text != nil && !p.text.has(s) {
			return p.text.rule()
		}
	case Boolean:
		if _, ok := value.(bool); !ok {
			return RuleType
		}
	case Level, Map, ObjectKind:
		if _, ok := value.(config.Object); !ok {
			return RuleType
		}
	}
	return ""
}

// violatedFlagRule is violatedRule for a command-line flag: its value is always a string, which must contain a value of
// the described type.
func (p *param) violatedFlagRule(value any) string {
	s, isString := value.(string)
	if !isString {
		return RuleType
	}
	var parsed any
	ok := true
	switch p.kind {
	case Integer:
		parsed, ok = parseFlagInt(s)
	case Float:
		parsed, ok = parseFloat(s)
	case Boolean:
		parsed, ok = true, slices.Contains(flagBooleans, strings.ToLower(s))
	default:
		parsed = s
	}
	if !ok {
		return RuleType
	}
	plain := *p
	plain.flag = false
	return plain.violatedRule(parsed)
}
