package fleet

import "edgespan/config"

// roots are where objects of a node are declared, each with what is declared below one of
// its entries.
var roots = map[string][]string{
	"ports":            nil,
	"networkInstances": nil,
	"appNetworks":      {"adapters"},
}

// Removes are the objects that a node runs and that a push of the wanted config would
// remove, as sorted paths: entries of ports, networkInstances and appNetworks, and adapters
// of apps that stay. An entry that is marked as absent is none.
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

// removed are the entries of one object that another has not.
func removed(path []string, has, want config.Object) (out []string) {
	for _, id := range config.Keys(has) {
		if !absent(has, id) && absent(want, id) {
			out = append(out, config.FormatPath(append(path[:len(path):len(path)], id)))
		}
	}
	return out
}

// absent says whether an object has no entry of that name, or one that is marked so.
func absent(o config.Object, id string) bool {
	v, has := o[id]
	mark, _ := object(v)["$absent"].(bool)
	return !has || mark
}

func object(v any) config.Object {
	o, _ := v.(config.Object)
	return o
}
