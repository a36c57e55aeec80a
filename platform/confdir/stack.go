package confdir

import (
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
)

// Stack combines the base layers embedded in a program with the layers of a folder. If both have a base layer of the
// same name, the embedded one counts.
type Stack struct {
	carried map[string]config.Object
	path    string
}

// NewStack returns a stack of base layers by name and a folder, "" for none.
func NewStack(carried map[string]config.Object, path string) Stack { return Stack{carried, path} }

// Library lists the present layers.
func (s Stack) Library() (layers.Library, error) {
	d, err := s.dir()
	if err != nil {
		return layers.Library{}, err
	}
	l := d.Library
	l.Base = slices.Clone(l.Base)
	for name := range s.carried {
		if !slices.Contains(l.Base, name) {
			l.Base = append(l.Base, name)
		}
	}
	layers.SortNatural(l.Base)
	return l, nil
}

// Hidden returns the folder's base layers that the program also has.
func (s Stack) Hidden() ([]string, error) {
	d, err := s.dir()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.carried)), func(name string) bool {
		return !slices.Contains(d.Library.Base, name)
	}), nil
}

// Read reads only the layers of a choice, and returns all their faults together.
func (s Stack) Read(c layers.Choice) (layers.Set, error) {
	base, carried := s.carried[c.Base]
	if carried {
		c.Base = ""
	}
	set, err := (&Dir{path: s.path}).Read(c)
	if err != nil {
		return layers.Set{}, err
	}
	if carried {
		set[layers.Base] = base
	}
	return set, nil
}

// dir opens the folder; without one it returns an empty Dir.
func (s Stack) dir() (*Dir, error) {
	if s.path == "" {
		return &Dir{}, nil
	}
	return Open(s.path)
}
