package history

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config/kv"
)

func TestKeysOfTheFleet(t *testing.T) {
	for _, c := range []struct {
		got  kv.Key
		want string
	}{
		{HeadKey(), "head"},
		{RevisionKey(255), "revisions/00000000000000ff"},
		{NodeKey("a-b"), "nodes/a-b"},
		{NameKey("ulm 1/ä"), "names/ulm%201%2F%C3%A4"},
		{TokenKey("n1"), "tokens/n1"},
		{GenerationKey("id"), "generations/id"},
		{OperatorKey("ab"), "operators/ab"},
		{RevokedKey("id"), "revoked/id"},
		{PushKey("id"), "pushes/id"},
		{OwnerKey("id"), "owners/id"},
		{OutboxKey("id", "7"), "mailboxes/id/7"},
		{PreviewKey("p", "id"), "previews/p/id"},
		{AcceptedKey("NXP LS1048A"), "accepted/NXP%20LS1048A"},
		{ProposedKey("a"), "proposed/a"},
		{RolloutKey("r"), "rollouts/r"},
		{AdmissionKey("id"), "gates/id"},
		{ProgressKey("id"), "standings/id"},
		{UnderlayKey("id"), "underlays/id"},
		{ElectionKey("e"), "elections/e"},
		{objectKey("ab"), "objects/ab"},
		{setKey("id", 10), "sets/id/0000000a"},
	} {
		equal(t, "key", string(c.got), c.want)
	}
}

func TestNamesInKeys(t *testing.T) {
	for name, want := range map[string]string{
		"":        "%",
		"%":       "%25",
		".":       "%2E",
		"..":      "%2E.",
		"a.b-c_d": "a.b-c_d",
		"azAZ09":  "azAZ09",
		"`{@[/:":  "%60%7B%40%5B%2F%3A",
		"a/b":     "a%2Fb",
		"\x00":    "%00",
		"zürich":  "z%C3%BCrich",
		"\xff":    "%FF",
	} {
		equal(t, "escaped", Escape(name), want)
		equal(t, "back", ok(Unescape(want))(t), name)
	}
	for _, wrong := range []string{"", "a b", "%2", "%zz", "%2f", "%61", ".", "a/b", "%%", "ä", "%+1"} {
		if text, err := Unescape(wrong); err == nil {
			t.Errorf("%q is %q", wrong, text)
		}
	}
}

func TestLayersHaveNames(t *testing.T) {
	for l, want := range map[Layer]string{
		{Kind: Network}:             "network",
		{Kind: Topology}:            "topology",
		{Kind: Metadata}:            "metadata",
		{Node, "n/1"}:               "node/n%2F1",
		{Auto, ""}:                  "auto/%",
		{E2E, "controller/replica"}: "e2e/controller%2Freplica",
	} {
		equal(t, "name", l.String(), want)
		equal(t, "back", layer(t, want), l)
	}
	for _, wrong := range []string{"", "node", "network/a", "node/", "node/a/b", "base", "Network", "node/ä"} {
		if l, err := ParseLayer(wrong); err == nil {
			t.Errorf("%q is %v", wrong, l)
		}
	}
}

func TestPropertyEveryNameIsOneKeyOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), string(rapid.SliceOf(rapid.Byte()).Draw(t, "b"))
		for _, name := range []string{a, b} {
			k := NameKey(name)
			if err := k.Check(); err != nil && len(k) <= kv.MaxKey {
				t.Fatal(err)
			}
			if strings.Count(string(k), "/") != 1 {
				t.Fatalf("%q has other segments: %s", name, k)
			}
			if back, err := Unescape(Escape(name)); err != nil || back != name {
				t.Fatalf("%q came back as %q: %v", name, back, err)
			}
		}
		if (a == b) != (NameKey(a) == NameKey(b)) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

func FuzzUnescape(f *testing.F) {
	for _, seed := range []string{"%", "a", "%2E", "a%2Fb", "%e4", "%%%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, segment string) {
		text, err := Unescape(segment)
		if err == nil && Escape(text) != segment {
			t.Fatalf("%q and %q are both %q", segment, Escape(text), text)
		}
		if back, err := Unescape(Escape(segment)); err != nil || back != segment {
			t.Fatalf("%q came back as %q: %v", segment, back, err)
		}
		if l, err := ParseLayer(segment); err == nil && l.String() != segment {
			t.Fatalf("%q is spelled %q", segment, l)
		}
	})
}
