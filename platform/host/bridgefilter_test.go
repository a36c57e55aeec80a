package host

import (
	"testing"

	"edgespan/netinst/netstate"
)

// Without br_netfilter a bridge's packets come by no chain, although the bridge's own
// attribute still asks for them: that differs from what is wanted, and is mended by an op on
// the bridge, which loads the module.
func TestABridgeWithoutItsModuleIsAFault(t *testing.T) {
	attrs := map[string]uint64{"nf_call_iptables": 1}
	bridge := netstate.Link{Name: "es1", Type: netstate.Bridge, MTU: 1500, Attrs: attrs}
	veth := netstate.Link{Name: "es1a1", Type: netstate.Veth, MTU: 1500}
	want, have := netstate.State{}, netstate.State{}
	want.Add(bridge, veth)
	have.Add(bridge, veth)
	unfiltered(have)
	ops := netstate.Diff(have, want)
	if len(ops) != 1 || ops[0].Verb != netstate.Change || ops[0].Items[0].ID() != bridge.ID() {
		t.Errorf("the plan is %v", ops)
	}
	if attrs["nf_call_iptables"] != 1 {
		t.Error("what was listed for others changed")
	}
}
