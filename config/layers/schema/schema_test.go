package schema

import (
	"slices"
	"strings"
	"testing"

	"edgespan/config"
)

// leaf is a field of the metadata: an entry, a property, or what a map holds.
type leaf struct {
	path  []string
	entry config.Object
	free  bool // below a map with free keys
}

// leaves lists every field that has no fields below it.
func leaves(doc config.Object, path []string, free bool) []leaf {
	switch doc["type"] {
	case nil:
		var out []leaf
		for _, key := range config.Keys(doc) {
			out = append(out, leaves(doc[key].(config.Object), config.Below(path, key), free)...)
		}
		return out
	case "MAP":
		return leaves(doc["mapVal"].(config.Object), config.Below(path, "<key>"), true)
	case "OBJECT":
		v, _ := config.Lookup(doc, []string{"objVal", "properties"})
		properties, _ := v.(config.Object)
		if len(properties) == 0 {
			return []leaf{{path, doc, free}}
		}
		var out []leaf
		for _, key := range config.Keys(properties) {
			out = append(out, leaves(properties[key].(config.Object), config.Below(path, key), free)...)
		}
		return out
	}
	return []leaf{{path, doc, free}}
}

// Every field has an entry with a description, and a default: in the base, or below free
// keys in the metadata. Where it has none its absence must mean something: it is required,
// or the entry says optional, or nothing of it is built.
func TestEveryFieldHasAnEntryAndADefault(t *testing.T) {
	all := leaves(NodeMetadata(), nil, false)
	if len(all) < 50 {
		t.Fatalf("only %d fields were found", len(all))
	}
	for _, l := range all {
		name := config.FormatPath(l.path)
		if d, _ := l.entry["desc"].(string); !strings.HasSuffix(d, ".") && l.path[len(l.path)-1] != "<key>" {
			t.Errorf("%s: description %q", name, d)
		}
		_, hasDefault := l.entry["default"]
		inBase, stands := config.Lookup(NodeBase(), l.path)
		if !l.free {
			if hasDefault || !stands {
				t.Errorf("%s: default in the metadata %v, in the base %v; want it in the base alone", name, hasDefault, inBase)
			}
			continue
		}
		excuses := 0
		for _, excuse := range []string{"default", "required", "requiredWhen", "optional"} {
			if _, has := l.entry[excuse]; has {
				excuses++
			}
		}
		if l.entry["unsupported"] == true {
			excuses = max(excuses, 1)
		}
		if excuses != 1 {
			t.Errorf("%s: %d of default, required, requiredWhen and optional, want one", name, excuses)
		}
	}
}

func TestTheBaseHasNothingWithoutAnEntry(t *testing.T) {
	for version, base := range NodeBases() {
		for _, key := range config.Keys(base) {
			if _, known := NodeMetadata()[key]; !known {
				t.Errorf("%s: %s has no entry", version, key)
			}
			level, _ := NodeMetadata()[key].(config.Object)
			if _, isEntry := level["type"]; isEntry {
				continue
			}
			for _, below := range config.Keys(base[key].(config.Object)) {
				if _, known := level[below]; !known {
					t.Errorf("%s: %s.%s has no entry", version, key, below)
				}
			}
		}
	}
	if NodeBase() == nil || !slices.Contains(config.Keys(NodeBase()), "networkInstances") {
		t.Errorf("no base layer %s", BaseVersion)
	}
}

// A field of a controller's file that this program does not use says so in its description.
func TestWhatNothingReadsSaysSo(t *testing.T) {
	read := map[string]bool{"flags": true, "topologyParams": true} // options of the program; the optimizer
	for name, v := range ControllerMetadata() {
		entry, ok := v.(config.Object)
		if !ok || read[name] {
			continue
		}
		below := config.Object{name: entry}
		if _, own := entry["desc"]; !own { // a level: each of its keys
			below = entry
		}
		for key, v := range below {
			e, _ := v.(config.Object)
			if desc, _ := e["desc"].(string); !strings.Contains(desc, "Stored and shared") {
				t.Errorf("%s.%s says %q", name, key, desc)
			}
		}
	}
}
