package ops

import (
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

// peerMetadata marks the secrets of a descriptor: the environments of executors hold keys and passwords of programs.
var peerMetadata = func() *metadata.Metadata {
	env := config.Object{"type": "MAP", "desc": "The environment.", "secret": true,
		"mapVal": config.Object{"type": "STRING"}}
	executor := config.Object{"type": "OBJECT", "objVal": config.Object{"properties": config.Object{"env": env}}}
	executors := config.Object{"type": "MAP", "desc": "The executors.", "mapVal": executor}
	spec := config.Object{"type": "OBJECT", "desc": "The descriptor.", "action": "NO_ACTION",
		"objVal": config.Object{"properties": config.Object{"executors": executors}}}
	m, faults := metadata.Parse(config.Object{"spec": spec}, metadata.Options{})
	if faults != nil {
		panic("operate: " + faults.Error()) // tests parse it
	}
	return m
}()

// MaskPeer returns the descriptor of a peer with its secrets masked.
func MaskPeer(doc config.Object) config.Object {
	if doc == nil {
		return nil
	}
	shown, _ := override.Mask(peerMetadata, nil, doc)
	out, _ := shown.(config.Object)
	return out
}

// unmaskDescriptor replaces masked environments of a descriptor by the stored ones, so that a descriptor that was read
// can be written back.
func (ck *check) unmaskDescriptor(l history.Layer, doc config.Object) (config.Object, error) {
	executors, _ := config.Lookup(doc, []string{"spec", "executors"})
	all, _ := executors.(config.Object)
	for _, name := range config.Keys(all) {
		path := []string{"spec", "executors", name, "env"}
		if env, _ := config.Lookup(doc, path); !override.IsMasked(env) {
			continue
		}
		v, err := ck.layer(l)
		if err != nil {
			return nil, err
		}
		if old, has := config.Lookup(v.Document, path); has {
			doc = config.Set(doc, path, old)
		}
	}
	return doc, nil
}
