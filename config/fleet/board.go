package fleet

import (
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// LearntBase is what a node reported about its hardware: base configs, hardware configs and metadata.
type LearntBase struct {
	Base, Hardware map[string]config.Object // by version
	Metadata       config.Object
}

// ParseBase parses a nodeproto.BaseConfig. Numbers are read as in any config document.
func ParseBase(data []byte) (*LearntBase, error) {
	o, faults := config.ParseBounded(data)
	if len(faults) > 0 {
		return nil, faults
	}
	b := &LearntBase{Base: map[string]config.Object{}, Hardware: map[string]config.Object{}}
	for name, into := range map[string]map[string]config.Object{"base": b.Base, "hardware": b.Hardware} {
		versions, _ := o[name].(config.Object)
		for version, v := range versions {
			doc, ok := v.(config.Object)
			if !ok {
				faults.Add([]string{name, version}, config.InvalidType(config.KindOf(v)), "must be an object")
			}
			into[version] = doc
		}
	}
	if v, given := o["metadata"]; given {
		doc, ok := v.(config.Object)
		if !ok {
			faults.Add([]string{"metadata"}, config.InvalidType(config.KindOf(v)), "must be an object")
		}
		b.Metadata = doc
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return b, nil
}

// Library lists the base and hardware versions of b, for a board.
func (b *LearntBase) Library(board string) layers.Library {
	l := layers.Library{Base: slices.Collect(maps.Keys(b.Base)), Boards: map[string]string{board: board},
		Hardware: map[string][]string{}}
	if len(b.Hardware) > 0 {
		l.Hardware[board] = slices.Collect(maps.Keys(b.Hardware))
	}
	return l
}

// Secrets returns the paths that the metadata marks as secret, or the faults of the metadata.
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
