package underlay

import "slices"

// maxOwned bounds the keys that are remembered of one node: it has one, the next one, and those before.
const maxOwned = 16

// Owners are the nodes that keys for encrypted clusters belong to: those that were the first to report them. All
// members of a cluster know each other's keys, the next ones too: one that could report another's would take its place,
// or keep the others from following it. The zero value is empty.
type Owners struct {
	of   map[string]string   // by key
	keys map[string][]string // by node, the oldest first
}

// Set notes the keys that a node has now. Those that it had before remain its own for long: one that it stops to
// announce is often the one that it is about to use.
func (o *Owners) Set(node string, keys []string) {
	if o.of == nil {
		o.of, o.keys = map[string]string{}, map[string][]string{}
	}
	for _, key := range keys {
		if o.of[key] == "" {
			o.of[key] = node
			o.keys[node] = append(o.keys[node], key)
		}
	}
	for len(o.keys[node]) > maxOwned {
		delete(o.of, o.keys[node][0])
		o.keys[node] = slices.Delete(o.keys[node], 0, 1)
	}
}

// Forget forgets a node that is deleted.
func (o *Owners) Forget(node string) {
	for _, key := range o.keys[node] {
		delete(o.of, key)
	}
	delete(o.keys, node)
}

// Of returns the node that a key belongs to, "" for none.
func (o *Owners) Of(key string) string { return o.of[key] }
