package fleet

import "edgespan/config"

// roots maps each top-level object that holds a node's entries to the members of an entry that hold entries in turn.
var roots = map[string][]string{
	"ports":            nil,
	"networkInstances": nil,
	"appNetworks":      {"adapters"},
}

// RemovedObjects lists the objects that a node runs and that a push of the desired config would remove, as sorted
// paths: entries of ports, networkInstances and appNetworks, and adapters of apps that remain. An entry marked $absent
// counts as missing.
func RemovedObjects(running, desired config.Object) []string {
	var out []string
	for _, root := range config.Keys(running) {
		below, ok := roots[root]
		if !ok {
			continue
		}
		has, want := asObject(running[root]), asObject(desired[root])
		for _, id := range config.Keys(has) {
			switch {
			case isAbsent(has, id):
			case isAbsent(want, id):
				out = append(out, config.FormatPath([]string{root, id}))
			default:
				for _, part := range below {
					out = append(out, removedEntries([]string{root, id, part}, asObject(asObject(has[id])[part]),
						asObject(asObject(want[id])[part]))...)
				}
			}
		}
	}
	return out
}

// removedEntries lists the entries that has contains and want lacks.
func removedEntries(path []string, has, want config.Object) (out []string) {
	for _, id := range config.Keys(has) {
		if !isAbsent(has, id) && isAbsent(want, id) {
			out = append(out, config.FormatPath(append(path[:len(path):len(path)], id)))
		}
	}
	return out
}

// isAbsent reports whether the object has no entry with this name, or one marked $absent.
func isAbsent(o config.Object, id string) bool {
	v, has := o[id]
	mark, _ := asObject(v)["$absent"].(bool)
	return !has || mark
}

func asObject(v any) config.Object {
	o, _ := v.(config.Object)
	return o
}
