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

// The layers, in the order in which they are laid over each other.
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

// MarshalText makes a layer its name in JSON.
func (l Layer) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Set is the six layers of one node; nil is a layer that there is not.
type Set [count]config.Object

// Clash is an object of one layer over which another layer has something else.
type Clash struct {
	Path  []string
	Below Layer  // the last one before Above that has an object there
	Above Layer  // has a null, a scalar or an array there
	Kind  string // what that is, as config.KindOf names it
}

// Error is the clash in one line.
func (c Clash) Error() string {
	return config.Fault{Path: c.Path, Problem: c.Problem(), Expectation: MustBeObject}.Error()
}

// MustBeObject is what a clash lacks.
const MustBeObject = "must be an object"

// Problem is the clash without its place.
func (c Clash) Problem() string {
	return fmt.Sprintf("invalid type %s in the %s layer over an object in the %s layer", c.Kind, c.Above, c.Below)
}

// Clashes are all clashes of a set, in the order of their paths.
type Clashes []Clash

// Is says that the layers are rejected.
func (cs Clashes) Is(target error) bool { return target == config.Rejected }

// Error is one line for each clash.
func (cs Clashes) Error() string {
	lines := make([]string, len(cs))
	for i, c := range cs {
		lines[i] = c.Error()
	}
	return strings.Join(lines, "\n")
}

// Effective is the union of all layers: what a later one sets goes before what an earlier
// one has. With clashes it is what could be merged, and nobody may use it.
func (s Set) Effective() (config.Object, Clashes) {
	u := union{set: &s}
	out := u.objects(&s)
	u.clashes.sort()
	return out, u.clashes
}

// objectBelow is the last layer before another one that has an object at a path.
func (s Set) objectBelow(path []string, above Layer) Layer {
	for l := above - 1; l > Base; l-- {
		if v, found := config.Lookup(s[l], path); found {
			if _, is := v.(config.Object); is {
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
