package confdir

import (
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
)

// Stack is the base layers that a program carries with it and the layers of a folder. Where
// both have a base of one name the program's counts.
type Stack struct {
	carried map[string]config.Object
	path    string
}

// NewStack makes a stack of base layers by name and a folder, "" for none.
func NewStack(carried map[string]config.Object, path string) Stack { return Stack{carried, path} }

// Library lists what there is now.
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

// Hidden are the base layers of the folder that the program has under the same name.
func (s Stack) Hidden() ([]string, error) {
	d, err := s.dir()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.carried)), func(name string) bool {
		return !slices.Contains(d.Library.Base, name)
	}), nil
}

// Read reads the layers of a choice, and no others. All that is wrong with them is told
// together.
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

// dir is the folder; without one it is empty.
func (s Stack) dir() (*Dir, error) {
	if s.path == "" {
		return &Dir{}, nil
	}
	return Open(s.path)
}
