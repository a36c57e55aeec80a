package verdict

import (
	"fmt"
	"net/netip"
	"testing"

	"edgespan/netinst"
)

func TestARuleWithASetCoversItsEntries(t *testing.T) {
	set := netinst.NewAddressSet("s", []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"),
		netip.MustParsePrefix("10.1.0.1/32")})
	named := netinst.ACLRule{Action: netinst.Allow, Set: set}
	n := &network{}
	for _, c := range []struct {
		rule   netinst.ACLRule
		remote string
		node   bool
		want   string
	}{
		{named, "192.0.2.9", false, "true true"},
		{named, "192.0.3.9", false, "false true"},
		{named, "10.1.0.1", true, "true true"}, // it names the node's own address
		{netinst.ACLRule{Action: netinst.Allow}, "10.1.0.1", true, "false true"},
		{netinst.ACLRule{Action: netinst.Allow, Host: "a.test"}, "192.0.2.9", false, "true false"}, // up to DNS
		{netinst.ACLRule{Action: netinst.Drop, Host: "a.test"}, "192.0.2.9", false, "true false"},
		{netinst.ACLRule{Action: netinst.Allow, Host: "a.test"}, "10.1.0.1", true, "false true"},
	} {
		e := ends{proto: TCP, remote: netip.MustParseAddr(c.remote), node: c.node}
		if got, surely := n.covers(&c.rule, e); fmt.Sprint(got, surely) != c.want {
			t.Errorf("%+v covers %s: %v, surely %v", c.rule, c.remote, got, surely)
		}
	}
}
