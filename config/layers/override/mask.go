package override

import (
	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// maskKey marks an object that replaces a secret; a write that contains it keeps the stored secret.
const maskKey = "$masked"

func hasMask(o config.Object) bool { return len(o) == 1 && o[maskKey] == true }

// IsMasked reports whether a value is a mask.
func IsMasked(v any) bool {
	o, ok := v.(config.Object)
	return ok && hasMask(o)
}

// Hidden returns a mask.
func Hidden() config.Object { return config.Object{maskKey: true} }

// Mask returns the value at a path of a config with {"$masked": true} in place of each secret, and whether there was
// one. Null is not a secret.
func Mask(m *metadata.Metadata, path []string, v any) (shown any, hidden bool) {
	if m == nil {
		return v, false
	}
	if v != nil && isSecret(m, path) {
		return Hidden(), true
	}
	return maskBelow(m, append(make([]string, 0, len(path)+8), path...), v)
}

// maskBelow is Mask for a value that is neither secret nor inside a secret. It writes to the spare capacity of path.
func maskBelow(m *metadata.Metadata, path []string, v any) (any, bool) {
	o, ok := v.(config.Object)
	if !ok {
		return v, false
	}
	var out config.Object // allocated once it differs
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

// isSecret reports whether a place is secret or inside a secret.
func isSecret(m *metadata.Metadata, path []string) bool {
	return countMarked(m, path, func(e metadata.Entry) bool { return e.Secret }) > 0
}
