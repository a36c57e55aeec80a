package nodeside

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/netinst"
)

// Of each kind a node tells the latest only, by number, and nothing where it has no type for its board.
func TestWhatThereIsToBeLearntOfANode(t *testing.T) {
	t.Parallel()
	m, faults := metadata.Parse(schema.NodeMetadata(), metadata.Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	bases := map[string]config.Object{"V_9": {}, "V_10": {}, "V_2": {}}
	b := BaseConfig(m, bases, nil)
	if got := slices.Collect(maps.Keys(b.Base)); !slices.Equal(got, []string{"V_10"}) || b.Hardware != nil ||
		len(b.Metadata) == 0 {
		t.Errorf("base %q, hardware %v, %d of metadata", got, b.Hardware, len(b.Metadata))
	}
}

// Addresses that lead nowhere but to the link are of no use to others, and neither is a port that is missing.
func TestThePortsThatOthersNeed(t *testing.T) {
	t.Parallel()
	all := map[string]netinst.PortStatus{"b": {Exists: true}, "a": {Exists: true}, "gone": {}}
	for label, s := range all {
		s.Label, s.LinkMTU = label, 1400
		s.Addresses = []netip.Prefix{netip.MustParsePrefix("fe80::1/64"), netip.MustParsePrefix("192.0.2.1/24")}
		all[label] = s
	}
	got := Ports(all)
	for i, label := range []string{"a", "b"} {
		if len(got) != 2 || got[i].Label != label || got[i].MTU != 1400 ||
			strings.Join(got[i].Addresses, " ") != "192.0.2.1" {
			t.Fatalf("ports %+v", got)
		}
	}
	other := got[0]
	for name, c := range map[string]struct {
		change func(*nodeproto.Port)
		same   bool
	}{
		"nothing": {func(*nodeproto.Port) {}, true},
		"label":   {func(p *nodeproto.Port) { p.Label = "x" }, false},
		"MTU":     {func(p *nodeproto.Port) { p.MTU++ }, false},
		"address": {func(p *nodeproto.Port) { p.Addresses = nil }, false},
	} {
		p := other
		if c.change(&p); SamePort(p, other) != c.same {
			t.Errorf("where %s is another the ports are the same: %v", name, !c.same)
		}
	}
}
