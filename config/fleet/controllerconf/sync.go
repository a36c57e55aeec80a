package controllerconf

import (
	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// Shared returns the part of a file that all replicas of a controller share: what the metadata marks "sync": true, with
// everything below it unless marked "sync": false, and keys without metadata (they follow the sender, as in the
// original).
func Shared(m *metadata.Metadata, doc config.Object) config.Object {
	shared, _ := m.Split(doc)
	return shared
}

// Join merges the shared part of another replica's file into this replica's: shared values come from the sender, the
// others do not change. If the sender removed an entry of a map, this replica's own values in that entry go too: an
// incomplete entry would lack required values, which in the original stopped every later sync. The result must be
// checked like any other file.
func Join(m *metadata.Metadata, ours, shared config.Object) (config.Object, config.Faults) {
	before, own := m.Split(ours)
	j := joiner{m: m}
	out, clashes := config.Merge(j.drop(own, before, shared, nil), shared)
	var faults config.Faults
	for _, c := range clashes {
		faults.Add(c.Path, config.InvalidType(config.KindOf(c.Above))+" in what is shared over an object of this replica",
			"must be the same kind in both")
	}
	if faults != nil {
		return nil, faults
	}
	return out, nil
}

type joiner struct{ m *metadata.Metadata }

// drop removes from own the map entries that are in before and not in after, and objects that only had such entries.
func (j joiner) drop(own, before, after config.Object, path []string) config.Object {
	e, found := j.m.Entry(path)
	isMap := found && e.Kind == metadata.Map
	out := own
	for key, v := range own {
		owned, isObject := v.(config.Object)
		had, wasShared := before[key]
		has, isShared := after[key]
		if isMap && wasShared && !isShared {
			out = config.Unset(out, []string{key})
			continue
		}
		if !isObject || !wasShared {
			continue
		}
		was, _ := had.(config.Object)
		now, _ := has.(config.Object)
		left := j.drop(owned, was, now, config.Below(path, key))
		if out = config.Set(out, []string{key}, left); len(left) == 0 && len(owned) > 0 {
			out = config.Unset(out, []string{key}) // the sender decides whether it exists
		}
	}
	return out
}
