package layers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"edgespan/config"
)

// Layer is one of the six layers of a node, the lowest first.
type Layer int

// The layers, from lowest to highest.
const (
	Base Layer = iota
	Firmware
	Hardware
	Auto
	Network
	Node

	count = iota
)

var layerNames = [count]string{"base", "firmware", "hardware", "auto", "network", "node"}

func (l Layer) String() string { return layerNames[l] }

// MarshalText encodes a layer as its name in JSON.
func (l Layer) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Set holds the six layers of one node; a missing layer is nil.
type Set [count]config.Object

// Clash is an object of one layer that another layer would replace by another type.
type Clash struct {
	Path  []string
	Below Layer  // the last one before Above that has an object there
	Above Layer  // has a null, a scalar or an array there
	Kind  string // the type of that value, as config.KindOf names it
}

// Error returns the clash in one line.
func (c Clash) Error() string {
	return config.Fault{Path: c.Path, Problem: c.Problem(), Expectation: MustBeObject}.Error()
}

// MustBeObject is the expectation that a clash violates.
const MustBeObject = "must be an object"

// Problem returns the clash without its path.
func (c Clash) Problem() string {
	return fmt.Sprintf("invalid type %s in the %s layer over an object in the %s layer", c.Kind, c.Above, c.Below)
}

// Clashes holds all clashes of a set, sorted by path.
type Clashes []Clash

// Is reports that clashes are errors of the class Rejected.
func (cs Clashes) Is(target error) bool { return target == config.Rejected }

// Error returns one line per clash.
func (cs Clashes) Error() string {
	lines := make([]string, len(cs))
	for i, c := range cs {
		lines[i] = c.Error()
	}
	return strings.Join(lines, "\n")
}

// Effective returns the union of all layers: a higher layer's value overrides a lower one's. With clashes the config is
// incomplete and must not be used.
func (s Set) Effective() (config.Object, Clashes) {
	u := merger{set: &s}
	out := u.objects(&s)
	u.clashes.sort()
	return out, u.clashes
}

// objectBelow returns the last layer before another one that has an object at a path.
func (s Set) objectBelow(path []string, above Layer) Layer {
	for l := above - 1; l > Base; l-- {
		if v, found := config.Lookup(s[l], path); found {
			if _, ok := v.(config.Object); ok {
				return l
			}
		}
	}
	return Base
}

func (cs Clashes) sort() {
	slices.SortFunc(cs, func(a, b Clash) int {
		return cmp.Or(slices.Compare(a.Path, b.Path), cmp.Compare(a.Above, b.Above))
	})
}
