package nodeconf

import (
	"errors"
	"maps"
	"slices"

	"edgespan/config"
)

// Sections returns the top-level keys whose entries refer to each other, sorted: ports, networks and apps.
func Sections() []string {
	return slices.DeleteFunc(slices.Clone(schema.keys), func(key string) bool { return schema.below[key].wild == nil })
}

// Check makes the checks of Parse on the sections of an effective config, which may also have another vendor's keys.
// The metadata checks groups of parameters that all vendors share, such as sysParams. Entries that a layer marked
// absent are ignored. Both lists are sorted by path.
func Check(effective config.Object) (warnings, faults config.Faults) {
	cfg, err := Effective(effective)
	errors.As(err, &faults)
	return cfg.Warnings, faults
}

// Effective returns the Config of an effective config's sections, with the checks of Check: its error is of type
// config.Faults. MD5 covers only the sections.
func Effective(effective config.Object) (Config, error) {
	own := config.Object{}
	for _, key := range Sections() {
		if v, has := effective[key]; has {
			own[key] = v
		}
	}
	if len(own) == 0 {
		return Config{}, nil
	}
	return Parse(own)
}

// DropAbsent returns an effective config without the entries that a layer marked absent, and without the "$absent":
// false of others. It copies only what changes. Only entries of maps in edgespan's schema can be absent.
func DropAbsent(effective config.Object) config.Object {
	out, _ := schema.dropAbsent(effective)
	return out
}

func (r *rule) dropAbsent(o config.Object) (out config.Object, changed bool) {
	out = o
	for key, v := range o {
		below := r.below[key]
		if r.wild != nil {
			below = r.wild
		}
		entry, ok := v.(config.Object)
		if below == nil || !ok {
			continue
		}
		gone := r.wild != nil && entry[absentKey] == true
		present, other := below.dropAbsent(entry)
		if r.wild != nil && entry[absentKey] == false {
			present, other = config.Unset(present, []string{absentKey}), true
		}
		if !gone && !other {
			continue
		}
		if !changed {
			out, changed = maps.Clone(o), true
		}
		if gone {
			delete(out, key)
		} else {
			out[key] = present
		}
	}
	return out, changed
}
