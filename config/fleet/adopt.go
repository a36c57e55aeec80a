package fleet

import "edgespan/config"

// roots maps each top-level object that holds a node's entries to the members of an entry that hold entries in turn.
var roots = map[string][]string{
	"ports":            nil,
	"networkInstances": nil,
	"appNetworks":      {"adapters"},
}

// Removes lists the objects that a node runs and that a push of the desired config would remove, as sorted paths:
// entries of ports, networkInstances and appNetworks, and adapters of apps that remain. An entry marked $absent counts
// as missing.
func Removes(running, desired config.Object) []string {
	var out []string
	for _, root := range config.Keys(running) {
		below, is := roots[root]
		if !is {
			continue
		}
		has, want := object(running[root]), object(desired[root])
		for _, id := range config.Keys(has) {
			switch {
			case absent(has, id):
			case absent(want, id):
				out = append(out, config.FormatPath([]string{root, id}))
			default:
				for _, part := range below {
					out = append(out, removed([]string{root, id, part}, object(object(has[id])[part]),
						object(object(want[id])[part]))...)
				}
			}
		}
	}
	return out
}

// removed lists the entries that has contains and want lacks.
func removed(path []string, has, want config.Object) (out []string) {
	for _, id := range config.Keys(has) {
		if !absent(has, id) && absent(want, id) {
			out = append(out, config.FormatPath(append(path[:len(path):len(path)], id)))
		}
	}
	return out
}

// absent reports whether the object has no entry with this name, or one marked $absent.
func absent(o config.Object, id string) bool {
	v, has := o[id]
	mark, _ := object(v)["$absent"].(bool)
	return !has || mark
}

func object(v any) config.Object {
	o, _ := v.(config.Object)
	return o
}
