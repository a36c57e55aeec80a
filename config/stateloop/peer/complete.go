package peer

import (
	"edgespan/config/stateloop"
)

// Complete returns the configuration to send to a node: its desired parameters as a peer (with, nil for none) and the
// parameters that it may still have and should remove (gone); nil if there are neither. For a node that is no longer a
// peer, the parameters of its effective config count only together with gone ones.
func Complete(name string, with *Configuration, gone []Leftover,
	declared func() []stateloop.DesiredParameter) *Configuration {
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
