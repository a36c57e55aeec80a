package manager

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// twoUplinks are the ports of a node with two uplinks, of which wan is preferred.
func twoUplinks(wan, lte netinst.PortStatus) []netinst.PortStatus {
	wan.Label, wan.IfName, wan.Uplink = "wan", "eth0", true
	lte.Label, lte.IfName, lte.Uplink, lte.Cost = "lte", "wwan0", true, 10
	for _, p := range []*netinst.PortStatus{&wan, &lte} {
		p.Exists = p.LinkMTU > 0
		if p.Up && p.Addresses == nil {
			p.Addresses, p.DefaultRoutes = testPort()[0].Addresses, testPort()[0].DefaultRoutes
		}
	}
	return []netinst.PortStatus{wan, lte}
}

func up(mtu int) netinst.PortStatus { return netinst.PortStatus{Up: true, LinkMTU: mtu} }
func bare(mtu int) netinst.PortStatus {
	return netinst.PortStatus{Up: true, LinkMTU: mtu, Addresses: []netip.Prefix{}}
}
func down(mtu int) netinst.PortStatus { return netinst.PortStatus{LinkMTU: mtu} }

var gone = netinst.PortStatus{}

// The MTU of a network follows the port in use and nothing else. A port that disappears does not change it; a change
// happens in place and reaches DHCP's clients too.
func TestTheMTUFollowsThePortInUse(t *testing.T) {
	type step struct {
		ports []netinst.PortStatus
		want  int // of the network's links, and of DHCP
	}
	for name, c := range map[string]struct {
		found int // of the existing bridge, 0 without one
		conf  int
		kind  netinst.AttachKind
		steps []step
	}{
		"the uplink goes and comes back": {steps: []step{
			{twoUplinks(up(1400), gone), 1400}, {twoUplinks(down(1400), gone), 1400}, {twoUplinks(gone, gone), 1400},
			{twoUplinks(up(1400), gone), 1400},
		}},
		"the uplink comes back with another MTU": {steps: []step{
			{twoUplinks(up(1492), gone), 1492}, {twoUplinks(down(1500), gone), 1492}, {twoUplinks(up(1500), gone), 1500},
		}},
		"a failover lowers it, and the way back raises it": {steps: []step{
			{twoUplinks(up(1500), up(1420)), 1500}, {twoUplinks(down(1500), up(1420)), 1420},
			{twoUplinks(down(1500), down(1420)), 1420}, {twoUplinks(up(1500), up(1420)), 1500},
		}},
		"a jumbo port that comes up and is not chosen": {steps: []step{
			{twoUplinks(up(1500), gone), 1500}, {twoUplinks(up(1500), up(9000)), 1500},
		}},
		"a port that is up and has no address": {steps: []step{
			{twoUplinks(up(1500), up(1420)), 1500}, {twoUplinks(down(1500), up(1420)), 1420},
			{twoUplinks(bare(1500), down(1420)), 1420}, {twoUplinks(up(1500), down(1420)), 1500},
		}},
		"a daemon that starts while the port is down": {found: 1420, steps: []step{
			{twoUplinks(down(1500), down(1500)), 1420}, {twoUplinks(up(1500), gone), 1500},
		}},
		"a network that has none yet asks the port that it waits for": {steps: []step{
			{twoUplinks(down(1492), down(1420)), 1492},
		}},
		"nothing is known": {steps: []step{{twoUplinks(gone, gone), 1500}}},
		"more than a tap takes": {conf: 65535, kind: netinst.Tap,
			steps: []step{{twoUplinks(up(1500), gone), netinst.MaxTapMTU}, {twoUplinks(gone, gone), netinst.MaxTapMTU}}},
		"a port with more than that": {kind: netinst.Tap,
			steps: []step{{twoUplinks(up(65535), gone), netinst.MaxTapMTU}, {twoUplinks(up(1500), gone), 1500}}},
		"a loopback, and a port too small for IPv4": {steps: []step{{twoUplinks(up(65536), gone), 65535},
			{twoUplinks(up(60), gone), 68}}},
		"no tap": {conf: 65535, steps: []step{{twoUplinks(up(1500), gone), 65535}}},
		"a configured MTU stays": {conf: 1300, found: 1420,
			steps: []step{{twoUplinks(up(1500), up(1420)), 1300}, {twoUplinks(gone, gone), 1300}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
			conf := testNetwork(1)
			conf.Port, conf.MTU = "uplink", c.conf
			var have netstate.State
			app := testAdapter(appW, 1, true)
			if c.kind != "" {
				app.Spec.Kind = c.kind
			}
			for _, e := range []Event{ApplierReady{MTU: c.found}, ConfigChanged{Config: conf}, AdapterChanged{app}, AdaptersKnown{},
				Synchronized{}} {
				m.Step(e)
			}
			for i, s := range c.steps {
				want := appliedState(m.Step(PortsChanged{Ports: s.ports}))
				if want == nil {
					want = have // unchanged
				}
				for _, id := range want.IDs() {
					if l, ok := want[id].(netstate.Link); ok && (l.MTU != s.want || l.Peer != nil && l.Peer.MTU != s.want) {
						t.Errorf("step %d: %s has MTU %d, want %d: %s", i, l.Name, l.MTU, s.want, l.Text())
					}
				}
				opts := want[netstate.ID{Kind: netstate.KindFile, Name: "ni/1/conf/opts"}].Text()
				if line := fmt.Sprintf("option:mtu,%d\n", s.want); !strings.Contains(opts, line) {
					t.Errorf("step %d: DHCP is told %q, want %q", i, opts, line)
				}
				for _, op := range netstate.Diff(have, want) {
					if have != nil && (op.Kind == netstate.KindLink || op.Kind == netstate.KindProcess) &&
						op.Verb != netstate.Change && op.Verb != netstate.Reload ||
						op.Kind == netstate.KindProcess && op.Verb == netstate.Change {
						t.Errorf("step %d: %s", i, op)
					}
				}
				have = want
				m.Step(applied(m.n))
			}
		})
	}
}

// appliedState returns the desired state of the apply among the effects.
func appliedState(effs []Effect) netstate.State {
	for _, e := range effs {
		if a, ok := e.(Apply); ok {
			return a.Want
		}
	}
	return nil
}
