package peer

import (
	"edgespan/config/stateloop"
)

// Complete is the configuration that a node is given: what it wants as a peer (with, nil for nothing) and all that it
// may still have and that is to be absent (gone); nil where there is neither. What the config of a node declares that
// is no peer any more counts only then.
func Complete(name string, with *Configuration, gone []Gone, declared func() []stateloop.Desired) *Configuration {
	switch {
	case gone == nil:
		return with
	case with != nil:
		all := with.With(gone)
		return &all
	}
	all := Derive(Input{Name: name, Fleet: NewFleet(nil, nil, nil), Declared: declared(), Gone: gone})
	return &all
}
