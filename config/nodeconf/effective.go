package nodeconf

import (
	"errors"
	"maps"
	"slices"

	"edgespan/config"
)

// Sections are the top-level keys whose entries refer to each other, sorted: ports,
// networks and apps.
func Sections() []string {
	return slices.DeleteFunc(slices.Clone(schema.keys), func(key string) bool { return schema.below[key].wild == nil })
}

// Check makes every check of Parse on the sections of an effective config, which may have
// another vendor's keys beside them. Groups of parameters such as sysParams, which all
// vendors share, are left to the metadata. Entries that a layer made absent are no part of
// it. Both lists are in the order of the paths.
func Check(effective config.Object) (warnings, faults config.Faults) {
	cfg, err := Effective(effective)
	errors.As(err, &faults)
	return cfg.Warnings, faults
}

// Effective is what the sections of an effective config say, with Check's checks: its error
// is of type config.Faults. MD5 is of the sections alone.
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

// Present is an effective config without the entries that a layer made absent, and without
// the "$absent": false of others. What has none is not copied. Only entries of our own free
// keys can be made absent.
func Present(effective config.Object) config.Object {
	out, _ := schema.present(effective)
	return out
}

func (r *rule) present(o config.Object) (out config.Object, changed bool) {
	out = o
	for key, v := range o {
		below := r.below[key]
		if r.wild != nil {
			below = r.wild
		}
		entry, is := v.(config.Object)
		if below == nil || !is {
			continue
		}
		gone := r.wild != nil && entry[absentKey] == true
		present, other := below.present(entry)
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
