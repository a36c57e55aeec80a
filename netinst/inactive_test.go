package netinst

import (
	"slices"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// A deactivated network loses its adapters, its default routes and nothing else: the bridge and dnsmasq keep running,
// and activation restores the rest.
func TestActivationTouchesNeitherBridgeNorServer(t *testing.T) {
	active := input(web())
	inactive := active
	inactive.Config.Inactive = true
	a, i := DesiredState(active).State, DesiredState(inactive).State
	for _, id := range i.IDs() {
		if id.Kind == netstate.KindRoute || id.Kind == netstate.KindRule || id.Kind == netstate.KindSysctl ||
			strings.Contains(i[id].Text(), "MASQUERADE") {
			t.Errorf("an inactive network has %s: %s", id, i[id].Text())
		}
	}
	for name, plan := range map[string]netstate.Plan{"deactivated": netstate.Diff(a, i),
		"activated": netstate.Diff(i, a)} {
		kinds := map[netstate.Kind]bool{}
		for _, op := range plan {
			kinds[op.Kind] = true
			bridge := slices.ContainsFunc(op.Items, func(it netstate.Item) bool { return it.ID().Name == "es1" })
			if bridge || op.Kind == netstate.KindAddress || op.Kind == netstate.KindProcess && op.Verb != netstate.Reload {
				t.Errorf("%s: %s", name, op)
			}
		}
		for _, k := range []netstate.Kind{netstate.KindRoute, netstate.KindRule, netstate.KindSysctl, netstate.KindLink} {
			if !kinds[k] {
				t.Errorf("%s: nothing happens to any %s", name, k)
			}
		}
	}
	ports := []PortConfig{uplink().PortConfig}
	f := netstate.Forwarding{Off: []string{string(ports[0].IfName)}}
	if HostPorts(active.Config, ports, f) == nil || HostPorts(inactive.Config, ports, f) != nil {
		t.Error("the host forwards by a port for a network that is not activated")
	}
}
