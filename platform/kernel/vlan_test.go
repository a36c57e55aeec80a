package kernel

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What is a VLAN, of which parent, and whose.
func TestWhatIsAVLAN(t *testing.T) {
	names := map[int]string{2: "eth0"}
	link := func(name, alias string, parent, netns int, proto netlink.VlanProtocol) netlink.Link {
		return &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: name, Alias: alias, ParentIndex: parent, NetNsID: netns},
			VlanId: 5, VlanProtocol: proto}
	}
	const q, ad = netlink.VLAN_PROTOCOL_8021Q, netlink.VLAN_PROTOCOL_8021AD
	for name, c := range map[string]struct {
		link netlink.Link
		want string
	}{
		"edgespan's":                      {link("a", "edgespan port", 2, -1, q), "vlan 5 of eth0, own"},
		"another program's":               {link("a", "", 2, -1, q), "vlan 5 of eth0"},
		"unfinished":                      {link("es-doomed-vlan", "", 2, -1, q), "vlan 5 of eth0, own"},
		"being removed":                   {link("es-doomed7", "edgespan port", 2, -1, q), "none"},
		"of a parent in another netns":    {link("a", "", 2, 0, q), "vlan 5 of "},
		"of another protocol":             {link("a", "", 2, -1, ad), "vlan 5 of eth0 (802.1ad)"},
		"a bridge with the alias of ours": {&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Alias: "edgespan port"}}, "none"},
	} {
		got := "none"
		if l, ok := vlanOf(c.link, names); ok {
			if got = l.Text(); !l.Unmarked {
				got += ", own"
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if !isUnknownKind(fmt.Errorf("%w: Unknown device type", unix.EOPNOTSUPP)) ||
		isUnknownKind(fmt.Errorf("%w: VLANs not supported on device", unix.EOPNOTSUPP)) || isUnknownKind(nil) {
		t.Error("a kernel without VLANs and an interface without them are not told apart")
	}
}
