package fleet

import (
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// LearntBase is what a node told of its hardware.
type LearntBase struct {
	Base, Hardware map[string]config.Object // by version
	Metadata       config.Object
}

// ParseBase reads a nodeproto.BaseConfig, its numbers as those of any document.
func ParseBase(data []byte) (*LearntBase, error) {
	o, faults := config.ParseFew(data)
	if len(faults) > 0 {
		return nil, faults
	}
	b := &LearntBase{Base: map[string]config.Object{}, Hardware: map[string]config.Object{}}
	for name, into := range map[string]map[string]config.Object{"base": b.Base, "hardware": b.Hardware} {
		versions, _ := o[name].(config.Object)
		for version, v := range versions {
			doc, is := v.(config.Object)
			if !is {
				faults.Add([]string{name, version}, config.InvalidType(config.KindOf(v)), "must be an object")
			}
			into[version] = doc
		}
	}
	if v, given := o["metadata"]; given {
		doc, is := v.(config.Object)
		if !is {
			faults.Add([]string{"metadata"}, config.InvalidType(config.KindOf(v)), "must be an object")
		}
		b.Metadata = doc
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return b, nil
}

// Library is what there is for a board.
func (b *LearntBase) Library(board string) layers.Library {
	l := layers.Library{Base: slices.Collect(maps.Keys(b.Base)), Boards: map[string]string{board: board},
		Hardware: map[string][]string{}}
	if len(b.Hardware) > 0 {
		l.Hardware[board] = slices.Collect(maps.Keys(b.Hardware))
	}
	return l
}

// Secrets are the places that its metadata calls secret; its faults, where it has any.
func (b *LearntBase) Secrets() (out []string, faults config.Faults) {
	if b.Metadata == nil {
		return nil, nil
	}
	m, faults := metadata.Parse(b.Metadata, metadata.Options{UnknownActions: true})
	if len(faults) > 0 {
		return nil, faults
	}
	for e := range m.All() {
		if e.Secret {
			out = append(out, config.FormatPath(e.Path))
		}
	}
	return out, nil
}
