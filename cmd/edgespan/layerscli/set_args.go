package layerscli

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

// change returns the change that the arguments request.
func (w *writing) change(a offline, m *metadata.Metadata, layer layers.Layer, args []string) (override.Change, error) {
	c := override.Change{Layer: layer, Op: w.op}
	var err error
	switch {
	case w.op == override.Unset:
		for _, arg := range args {
			path, err := config.ParsePath(arg)
			if err != nil {
				return c, term.Usagef("KEY: %w", err)
			}
			c.Keys = append(c.Keys, w.below(path))
		}
	case strings.Contains(args[0], "="):
		c.Overrides, err = w.assigned(m, args)
	case len(args) > 1:
		err = term.Usagef("FILE: %s and %s: must be one FILE, or KEY=VALUE...", config.Quote(args[0]),
			term.Many(len(args)-1, "more argument"))
	default:
		c.Overrides, err = w.requested(a, args[0])
	}
	return c, err
}

// below returns the path in the layer's document, which is {node: {…}} for the node layer.
func (w *writing) below(path []string) []string {
	if w.layer == "node" && w.nodeName != "" {
		return config.Below([]string{w.nodeName}, path...)
	}
	return path
}

// requested reads the overrides from a file.
func (w *writing) requested(a offline, file string) (config.Object, error) {
	o, err := ReadObject(a.Streams, file)
	if err != nil {
		return nil, err
	}
	if w.layer == "node" && w.nodeName != "" {
		return config.Object{w.nodeName: o}, nil
	}
	return o, nil
}

// Assignments returns the overrides of KEY=VALUE arguments for the network layer, with types from m.
func Assignments(m *metadata.Metadata, args []string) (config.Object, error) {
	w := writing{op: override.Modify, layer: "network"}
	return w.assigned(m, args)
}

// assigned returns the overrides of KEY=VALUE arguments.
func (w *writing) assigned(m *metadata.Metadata, args []string) (config.Object, error) {
	out := config.Object{}
	var faults config.Faults
	for _, arg := range args {
		key, text, found := CutAssignment(arg)
		if !found {
			return nil, term.Invalid("KEY=VALUE", arg, "KEY=VALUE")
		}
		path, err := config.ParsePath(key)
		if err != nil {
			return nil, term.Usagef("KEY: %w", err)
		}
		if !utf8.ValidString(text) {
			return nil, term.Usagef("%s: invalid value: must be UTF-8", config.FormatPath(path))
		}
		path = w.below(path)
		if at := conflictingPath(out, path); at != nil {
			return nil, term.Usagef("%s: overlaps with %s: give each key once", config.FormatPath(path), config.FormatPath(at))
		}
		v, wrong := value(m, w.inConfig(path), text)
		for _, f := range wrong {
			faults.Add(config.Below(path, f.Path...), f.Problem, f.Expectation)
		}
		out = config.Set(out, path, v)
	}
	if faults != nil {
		return nil, faults
	}
	return out, nil
}

// conflictingPath returns an earlier path that equals this one, contains it or is below it.
func conflictingPath(o config.Object, path []string) []string {
	for n := 1; n <= len(path); n++ {
		v, found := config.Lookup(o, path[:n])
		if !found {
			return nil
		}
		if _, ok := v.(config.Object); !ok || n == len(path) {
			return path[:n]
		}
	}
	return nil
}

// inConfig converts a path of the layer's document to a path of the config.
func (w *writing) inConfig(path []string) []string {
	if w.layer == "node" {
		return path[1:]
	}
	return path
}

// CutAssignment cuts KEY=VALUE at the first '=' that is outside of double quotes in the key.
func CutAssignment(arg string) (key, value string, found bool) {
	quoted, start := false, true
	for i := 0; i < len(arg); i++ {
		switch c := arg[i]; {
		case quoted && c == '\\':
			i++
		case c == '"' && (quoted || start):
			quoted = !quoted
		case c == '=' && !quoted:
			return arg[:i], arg[i+1:], true
		}
		start = arg[min(i, len(arg)-1)] == '.'
	}
	return "", "", false
}

// value parses a VALUE. If the metadata has a STRING or a command-line flag at the path, the value is the text, with or
// without double quotes; otherwise it is JSON, or else the text.
func value(m *metadata.Metadata, path []string, text string) (any, config.Faults) {
	isText := false
	if m != nil {
		e, known := m.Entry(path)
		isText = known && (e.Kind == metadata.String || e.Flag)
	}
	if isText {
		s := ""
		if strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &s) == nil {
			return s, nil
		}
		return text, nil
	}
	if !json.Valid([]byte(text)) {
		return text, nil
	}
	return config.Parse([]byte(text))
}

// answer returns the answer of `-o json`.
func (w *writing) answer(r override.Result) map[string]any {
	effects, warnings := []any{}, []any{}
	for _, x := range r.Effects {
		values := []any{}
		for _, v := range x.Values {
			shown := map[string]any{"key": config.FormatPath(v.Path)}
			if v.HadOld {
				shown["old"] = v.Old
			}
			if v.HasNew {
				shown["new"], shown["origin"] = v.New, v.Origin
			}
			values = append(values, shown)
		}
		effects = append(effects, map[string]any{
			"nodes": append([]string{}, x.Nodes...), "values": values, "actions": showActions(x.Actions),
		})
	}
	for _, f := range r.Warnings {
		warnings = append(warnings, map[string]any{
			"nodes": append([]string{}, f.Nodes...), "key": config.FormatPath(f.Path), "rule": f.Rule, "what": f.Problem,
		})
	}
	return map[string]any{
		"layer": w.layer, "file": w.file(), "changed": r.Changed, "written": r.Changed && !w.dryRun,
		"effects": effects, "warnings": warnings,
	}
}

// effectText describes what changes on some nodes.
func effectText(x override.Effect) string {
	var b strings.Builder
	who := "a node without overrides"
	if len(x.Nodes) > 0 {
		who = term.Printable(strings.Join(x.Nodes, ", "))
	}
	fmt.Fprintf(&b, "%s:\n", who)
	for _, v := range x.Values {
		old, now := "none", "none"
		if v.HadOld {
			old = term.OneLine(v.Old)
		}
		if v.HasNew {
			now = term.OneLine(v.New) + " (origin " + v.Origin.String() + ")"
		}
		fmt.Fprintf(&b, "  %s: %s -> %s\n", config.FormatPath(v.Path), old, now)
	}
	for _, act := range showActions(x.Actions) {
		fmt.Fprintf(&b, "  action %s: %s\n", act.Action, strings.Join(act.Keys, ", "))
	}
	return b.String()
}

func showActions(actions []metadata.Action) []shownAction {
	list := []shownAction{}
	for _, x := range actions {
		s := shownAction{Action: x.Name}
		for _, path := range x.Keys {
			s.Keys = append(s.Keys, config.FormatPath(path))
		}
		list = append(list, s)
	}
	return list
}
