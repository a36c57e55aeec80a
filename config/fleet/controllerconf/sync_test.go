package controllerconf

import (
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
)

// shares is metadata with every form of sync.
const shares = `{
  "flags": {
    "net": {"desc": "d", "type": "STRING", "action": "UPDATE_GFLAG", "sync": true},
    "host": {"desc": "d", "type": "STRING", "action": "UPDATE_GFLAG", "sync": false},
    "silent": {"desc": "d", "type": "STRING", "action": "UPDATE_GFLAG"}
  },
  "sources": {"desc": "d", "type": "MAP", "action": "NO_ACTION", "sync": true, "mapVal": {"type": "OBJECT", ` +
	`"objVal": {"properties": {
    "enabled": {"desc": "d", "type": "BOOLEAN", "required": true},
    "mine": {"desc": "d", "type": "STRING", "sync": false}
  }}}},
  "box": {"desc": "d", "type": "OBJECT", "action": "NO_ACTION", "objVal": {"properties": {
    "shared": {"desc": "d", "type": "STRING", "sync": true},
    "own": {"desc": "d", "type": "STRING"}
  }}}
}`

// Seed, "Sync": only network-level configuration is synced, host-level configuration is not; entries and properties of
// objects are marked.
func TestSeed_SyncIsPerEntryAndPerProperty(t *testing.T) {
	m := parse(t, object(t, shares))
	for _, c := range []struct{ own, theirs, want string }{
		{ // marked flags come from the sender, the others are the replica's own; what is not described comes from the sender
			`{"flags": {"net": "1", "host": "me", "silent": "me", "unknown": "1"}, "vendor": 1}`,
			`{"flags": {"net": "2", "host": "you", "silent": "you"}}`,
			`{"flags": {"net": "2", "host": "me", "silent": "me"}}`,
		},
		{ // [BUG] of §1.19: a synced map includes its values' properties
			`{"sources": {}}`,
			`{"sources": {"a": {"enabled": true}}}`,
			`{"sources": {"a": {"enabled": true}}}`,
		},
		{ // a property with sync: false is each replica's own
			`{"sources": {"a": {"enabled": true, "mine": "m"}, "b": {"enabled": true, "mine": "m"}}}`,
			`{"sources": {"a": {"enabled": false, "mine": "y"}}}`,
			`{"sources": {"a": {"enabled": false, "mine": "m"}}}`,
		},
		{ // an object that is not synced, with a property that is
			`{"box": {"own": "m", "shared": "1"}}`,
			`{"box": {"own": "y", "shared": "2"}}`,
			`{"box": {"own": "m", "shared": "2"}}`,
		},
		{
			`{"box": {"own": "m", "shared": "1"}}`,
			`{}`,
			`{"box": {"own": "m"}}`,
		},
	} {
		got, faults := Join(m, object(t, c.own), Shared(m, object(t, c.theirs)))
		if faults != nil || !same(got, object(t, c.want)) {
			t.Errorf("%s with %s: %v, faults %v; want %s", c.own, c.theirs, got, faults, c.want)
		}
		if _, _, faults := Check(m, got); faults != nil {
			t.Errorf("%s with %s can't be used: %v", c.own, c.theirs, faults)
		}
	}
	_, faults := Join(m, object(t, `{"box": {"own": "m"}}`), object(t, `{"box": 1}`))
	if faults.Error() != "box: invalid type int64 in what is shared over an object of this replica: "+
		"must be the same kind in both" {
		t.Errorf("a clash: %v", faults)
	}
}

// drawFile draws a valid file.
func drawFile(t *rapid.T, label string) config.Object {
	o := config.Object{}
	word := rapid.SampledFrom([]string{"a", "b", "c"})
	maybe := func(o config.Object, key string, v any) {
		if rapid.Bool().Draw(t, label+" has "+key) {
			o[key] = v
		}
	}
	flags := config.Object{}
	for _, f := range []string{"net", "host", "silent", "unknown"} {
		maybe(flags, f, word.Draw(t, f))
	}
	maybe(o, "flags", flags)
	sources := config.Object{}
	for _, name := range []string{"a", "b"} {
		s := config.Object{"enabled": rapid.Bool().Draw(t, "enabled")}
		maybe(s, "mine", word.Draw(t, "mine"))
		maybe(sources, name, s)
	}
	maybe(o, "sources", sources)
	box := config.Object{}
	maybe(box, "shared", word.Draw(t, "shared"))
	maybe(box, "own", word.Draw(t, "own"))
	maybe(o, "box", box)
	maybe(o, "vendor", config.Object{"k": word.Draw(t, "vendor")})
	return o
}

// After a sync all replicas share the same values, no replica's own value came from another, the file is valid, and a
// second sync changes nothing.
func TestReplicasShareAndKeepTheirOwn(t *testing.T) {
	m := parse(t, object(t, shares))
	rapid.Check(t, func(t *rapid.T) {
		ours, theirs := drawFile(t, "ours"), drawFile(t, "theirs")
		shared := Shared(m, theirs)
		got, faults := Join(m, ours, shared)
		if faults != nil {
			t.Fatal(faults)
		}
		nowShared, own := m.Split(got)
		// An empty object belongs to no one: its content decides once there is any.
		if !same(config.DropEmpty(nowShared), config.DropEmpty(shared)) {
			t.Fatalf("%v is shared, want %v", nowShared, shared)
		}
		_, before := m.Split(ours)
		before, own = config.DropEmpty(before), config.DropEmpty(own)
		if d := config.Diff(before, own); len(d) > 0 {
			t.Fatalf("%v is new of our own", d)
		}
		// Only entries of the map that the sender lacks may be missing.
		gone := config.Diff(own, before)
		entries, _ := gone["sources"].(config.Object)
		for name := range entries {
			if _, has := config.Lookup(shared, []string{"sources", name}); !has {
				gone = config.Unset(gone, []string{"sources", name})
			}
		}
		if gone = config.DropEmpty(gone); len(gone) > 0 {
			t.Fatalf("%v of our own was lost", gone)
		}
		if _, _, faults := Check(m, got); faults != nil {
			t.Fatalf("%v: %v", got, faults)
		}
		if again, _ := Join(m, got, shared); !same(again, got) {
			t.Fatalf("%v, synced again %v", got, again)
		}
		if self, _ := Join(m, ours, Shared(m, ours)); !same(self, ours) {
			t.Fatalf("%v with its own shared part is %v", ours, self)
		}
	})
}
