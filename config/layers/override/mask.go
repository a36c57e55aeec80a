package override

import (
	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// maskKey stands in place of a secret where one is shown; who writes it back keeps it.
const maskKey = "$masked"

func masked(o config.Object) bool { return len(o) == 1 && o[maskKey] == true }

// IsMasked says whether a value stands in place of a secret.
func IsMasked(v any) bool {
	o, is := v.(config.Object)
	return is && masked(o)
}

// Hidden is what stands in place of a secret.
func Hidden() config.Object { return config.Object{maskKey: true} }

// Mask is a value at a path of a config with {"$masked": true} in the place of each secret
// in it, and whether there was any. Null is no secret.
func Mask(m *metadata.Metadata, path []string, v any) (shown any, hidden bool) {
	if m == nil {
		return v, false
	}
	if v != nil && secret(m, path) {
		return Hidden(), true
	}
	return maskBelow(m, append(make([]string, 0, len(path)+8), path...), v)
}

// maskBelow is Mask for what is no secret itself, nor in one. It writes to what path has room for.
func maskBelow(m *metadata.Metadata, path []string, v any) (any, bool) {
	o, is := v.(config.Object)
	if !is {
		return v, false
	}
	var out config.Object // once it differs
	for key, below := range o {
		at := append(path, key)
		shown, hidden := any(Hidden()), below != nil
		if e, known := m.Entry(at); !known || !e.Secret || below == nil {
			shown, hidden = maskBelow(m, at, below)
		}
		if !hidden {
			continue
		}
		if out == nil {
			out = make(config.Object, len(o))
			for key, v := range o {
				out[key] = v
			}
		}
		out[key] = shown
	}
	if out == nil {
		return o, false
	}
	return out, true
}

// secret says whether a place, or what it is in, is a secret.
func secret(m *metadata.Metadata, path []string) bool {
	return marked(m, path, func(e metadata.Entry) bool { return e.Secret }) > 0
}
