package layers

import (
	"fmt"

	"edgespan/config"
)

// ValueOrigin is one value of the effective config and its origin.
type ValueOrigin struct {
	Path     []string
	Value    any
	Origin   Layer
	Shadowed []ShadowedValue // the values of lower layers, the highest first
}

// ShadowedValue is a layer's value at a path, or on the way to it, that a higher layer hides.
type ShadowedValue struct {
	Layer Layer
	Path  []string // shorter than the explained path if the layer has a scalar on the way to it
	Value any
}

// Origins returns the layers that set the values of the effective config, by dotted path (config.FormatPath). A scalar,
// null, an array and an empty object are values; a non-empty object has no origin of its own.
func (s Set) Origins() map[string]Layer {
	out := map[string]Layer{}
	effective, _ := s.Effective()
	walkLeaves(effective, nil, func(path []string, _ any) {
		out[config.FormatPath(path)] = s.Origin(path)
	})
	return out
}

// Explain returns the origin of each value at or below a path, or nothing if there is none. The empty path explains the
// complete config.
func (s Set) Explain(path []string) []ValueOrigin {
	effective, _ := s.Effective()
	v, found := config.Lookup(effective, path)
	if !found {
		return nil
	}
	var out []ValueOrigin
	explain := func(path []string, v any) {
		origin := s.Origin(path)
		out = append(out, ValueOrigin{config.Below(path), v, origin, s.shadowed(path, origin)})
	}
	if o, ok := v.(config.Object); ok && len(o) > 0 {
		walkLeaves(o, path, explain)
	} else {
		explain(path, v)
	}
	return out
}

// Origin returns the highest layer with a value at a path. Without clashes no lower layer has an object there, and no
// higher one has any value.
func (s Set) Origin(path []string) Layer {
	for l := Node; l > Base; l-- {
		if _, found := config.Lookup(s[l], path); found {
			return l
		}
	}
	return Base
}

func (s Set) shadowed(path []string, origin Layer) []ShadowedValue {
	var out []ShadowedValue
	for l := origin - 1; l >= Base; l-- {
		if at, v, found := findValue(s[l], path); found {
			out = append(out, ShadowedValue{l, config.Below(at), v})
		}
	}
	return out
}

// findValue returns the value at a path, or the first value on the way that is not an object.
func findValue(o config.Object, path []string) (at []string, v any, found bool) {
	v = o
	for i, key := range path {
		below, ok := v.(config.Object)
		if !ok {
			return path[:i], v, true
		}
		if v, ok = below[key]; !ok {
			return nil, nil, false
		}
	}
	return path, v, true
}

// walkLeaves calls do for each value below an object, sorted by path. The path is valid only during the call.
func walkLeaves(o config.Object, path []string, do func(path []string, v any)) {
	for _, key := range config.Keys(o) {
		v := o[key]
		at := append(path[:len(path):len(path)], key)
		if below, ok := v.(config.Object); ok && len(below) > 0 {
			walkLeaves(below, at, do)
			continue
		}
		do(at, v)
	}
}

// NodeLayers splits an auto or node file: {node: {…}}.
func NodeLayers(o config.Object) (map[string]config.Object, config.Faults) {
	out := make(map[string]config.Object, len(o))
	var faults config.Faults
	for _, node := range config.Keys(o) {
		layer, ok := o[node].(config.Object)
		if !ok {
			faults.Add([]string{node}, fmt.Sprintf("invalid type %s", config.KindOf(o[node])), "must be {node: {…}}")
			continue
		}
		out[node] = layer
	}
	return out, faults
}
