package metadata

import (
	"testing"

	"edgespan/config"
)

// What one vendor calls secret no other makes public, whichever is merged first.
func TestWhatAnyVendorCallsSecretIsSecret(t *testing.T) {
	t.Parallel()
	entry := func(kind string, more config.Object) config.Object {
		o := config.Object{"desc": "d", "type": kind, "action": "NO_ACTION"}
		for key, v := range more {
			o[key] = v
		}
		return o
	}
	secret := config.Object{"secret": true}
	object := func(of config.Object) config.Object {
		return entry("OBJECT",
			config.Object{"objVal": config.Object{"properties": config.Object{"pw": of, "x": entry("STRING", nil)}}})
	}
	mapOf := func(of config.Object) config.Object { return entry("MAP", config.Object{"mapVal": of}) }
	for name, c := range map[string]struct {
		open, hidden config.Object
		path         []string
		other        []string // that stays as it was
	}{
		"an entry":   {entry("STRING", nil), entry("STRING", secret), nil, nil},
		"a property": {object(entry("STRING", nil)), object(entry("STRING", secret)), []string{"pw"}, []string{"x"}},
		"a value of a map": {mapOf(config.Object{"type": "STRING"}),
			mapOf(config.Object{"type": "STRING", "secret": true}), []string{"any"}, nil},
		"another kind": {entry("STRING", nil), object(entry("STRING", secret)), nil, nil},
		"a level for a text": {config.Object{"a": entry("STRING", nil), "b": entry("STRING", nil)}, entry("STRING", secret),
			[]string{"b"}, nil},
		"deep below a level": {config.Object{"l": config.Object{"a": entry("STRING", nil)}},
			config.Object{"l": config.Object{"a": entry("INTEGER", secret)}}, []string{"l", "a"}, nil},
		"a text for an entry": {entry("OBJECT", nil), entry("STRING", secret), nil, nil},
	} {
		for _, request := range [][2]config.Object{{c.open, c.hidden}, {c.hidden, c.open}} {
			m, faults := Parse(config.Object{}, Options{})
			for _, vendor := range request {
				if faults != nil {
					t.Fatal(name, faults)
				}
				m, _, faults = m.Merge(config.Object{"acme": vendor})
			}
			if faults != nil {
				t.Fatal(name, faults)
			}
			again, faults := Parse(m.Document(), Options{})
			if faults != nil {
				t.Fatal(name, faults)
			}
			for which, m := range map[string]*Metadata{"merged": m, "its document": again} {
				if path := append([]string{"acme"}, c.path...); !masks(m, path) {
					t.Errorf("%s, %s: %v is no secret", name, which, path)
				}
				if c.other != nil && masks(m, append([]string{"acme"}, c.other...)) {
					t.Errorf("%s, %s: %v is secret, too", name, which, c.other)
				}
			}
		}
	}
}

// masks says whether a place, or what it is in, is secret.
func masks(m *Metadata, path []string) bool {
	for n := 1; n <= len(path); n++ {
		if e, _ := m.Entry(path[:n]); e.Secret {
			return true
		}
	}
	return false
}
