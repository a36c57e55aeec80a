package node

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// vpnDoc is a document with n networks whose tunnels have been assigned their addresses.
func vpnDoc(n int) string {
	text := "ports: {wan: {ifName: uplink0, uplink: true}}\nnetworkInstances:\n"
	for i := 1; i <= n; i++ {
		text += fmt.Sprintf("  %s: {displayName: net%d, type: vpn, port: wan, ipv4: {subnet: 10.%d.0.0/24}, vpn: {method: ipsec, "+
			"nat: true, ipsec: {remote: 192.0.2.7, psk: secret-canary, virtualIP: true}}}\n", niID(i), i, i)
	}
	return text
}

func tunnelOf(n int, up bool, why string) netstate.TunnelStatus {
	s := netstate.TunnelStatus{Number: n, Kind: "ipsec", By: "kernel", Link: netstate.VPNLink(n), Up: up, Error: why,
		Peers: []netstate.TunnelPeer{{Name: "peer", Endpoint: "192.0.2.7:4500", Up: up, Received: 7}}}
	if up {
		s.Addresses = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("172.16.0.%d/32", n))}
	}
	return s
}

// The other end of a tunnel may not take the controller's address for this node: its packets to it would stay here.
func TestATunnelAssignsNoAddressOfTheController(t *testing.T) {
	onHost(t, func(r *rig) {
		link := &memLink{}
		r.about.Link = link
		r.start()
		r.apply(vpnDoc(1))
		r.host.SetTunnel(1, tunnelOf(1, true, "")) // with 172.16.0.1
		r.ready(10*time.Second, "ni/"+niID(1))
		r.settle(5 * time.Second)
		assigned := func() bool {
			return r.host.State(1)[netstate.ID{Kind: netstate.KindAddress, Name: "evpn1 172.16.0.1/32"}] != nil
		}
		if !assigned() {
			t.Error("an address that is nobody's is not taken")
		}
		link.set("", netip.MustParseAddr("172.16.0.1")) // its name is resolved
		r.settle(5 * time.Second)
		if assigned() {
			t.Error("the node cuts itself off from its controller")
		}
		s, _ := r.node.d.topics.NetworkStatus.Get("", niID(1))
		if !strings.Contains(s.Warning, "172.16.0.1 is the controller's") {
			t.Errorf("the warning is %q", s.Warning)
		}
	})
}

// A network of type vpn shows the state of its tunnel, takes the addresses that the other end assigns, and says why it is
// down; a tunnel that hangs holds up no other network.
func TestATunnelIsFollowedAndOneThatHangsHoldsUpNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetTunnel(1, tunnelOf(1, false, "the pre-shared key differs"))
		r.apply(vpnDoc(1))
		r.ready(10*time.Second, "ni/"+niID(1))
		r.settle(5 * time.Second)
		x, err := r.node.Explain(t.Context(), "ni", niID(1))
		if err != nil || !x.Ready || !strings.Contains(x.Warning, "the tunnel is down: the pre-shared key differs") {
			t.Errorf("explain: %+v, %v", x, err)
		}
		address := netstate.ID{Kind: netstate.KindAddress, Name: "evpn1 172.16.0.1/32"}
		if r.host.State(1)[address] != nil {
			t.Error("an address that was not assigned")
		}
		r.host.SetTunnel(1, tunnelOf(1, true, ""))
		r.settle(5 * time.Second)
		if r.host.State(1)[address] == nil {
			t.Error("the assigned address is not on the link")
		}
		list, err := r.node.List(t.Context(), "tunnel")
		if err != nil || len(list) != 1 || list[0].Status.(nodeapi.TunnelStatus).State != nodeapi.TunnelUp {
			t.Errorf("get tunnel: %+v, %v", list, err)
		}

		r.host.HangTunnel(1, true)
		r.apply(vpnDoc(2))
		r.host.SetTunnel(2, tunnelOf(2, true, ""))
		r.ready(10*time.Second, "ni/"+niID(2))
		r.settle(10 * time.Second)
		if r.host.State(2)[netstate.ID{Kind: netstate.KindAddress, Name: "evpn2 172.16.0.2/32"}] == nil {
			t.Error("the tunnel that hangs holds up another")
		}
		if r.host.State(1)[address] == nil {
			t.Error("a tunnel that does not answer loses its address")
		}
		r.host.HangTunnel(1, false)
		r.host.SetTunnel(1, tunnelOf(1, false, "the peer does not answer"))
		r.settle(5 * time.Second)
		var texts []string
		for _, e := range r.node.Topics().Events.All() {
			if e.Value.Kind == nodeapi.EventTunnel && e.Value.Object == "ni/"+niID(1) {
				texts = append(texts, e.Value.Text)
			}
		}
		want := []string{"still down: the pre-shared key differs", "up", "down: the peer does not answer"}
		if fmt.Sprint(texts) != fmt.Sprint(want) {
			t.Errorf("events %q, want %q", texts, want)
		}
		r.apply("ports: {wan: {ifName: uplink0, uplink: true}}\n")
		r.settle(10 * time.Second)
		if list, err := r.node.List(t.Context(), "tunnel"); err != nil || len(list) != 0 || len(r.host.State(1)) != 0 {
			t.Errorf("left: %+v, %v, %v", list, err, r.host.State(1))
		}
		if v := r.host.Violations(); len(v) > 0 {
			t.Errorf("out of order: %v", v)
		}
	})
}

// A daemon that starts beside a running tunnel does not take its assigned addresses off.
func TestARestartLeavesAssignedAddresses(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetTunnel(1, tunnelOf(1, true, ""))
		r.apply(vpnDoc(1))
		r.ready(10*time.Second, "ni/"+niID(1))
		r.settle(5 * time.Second)
		r.host.Done()
		r.stop()
		r.start()
		r.ready(10*time.Second, "ni/"+niID(1))
		r.settle(5 * time.Second)
		for _, op := range r.host.Done() {
			if strings.HasPrefix(op, "1: ") {
				t.Errorf("the restart does %s", op)
			}
		}
	})
}

// A tunnel that is not answered by an uplink whose probes are answered leaves by the other one, and people are told why.
func TestATunnelThatIsNotAnsweredLeavesItsUplink(t *testing.T) {
	onRig(t, func(r *rig) {
		r.setUplinks()
		r.host.SetTunnel(1, tunnelOf(1, true, ""))
		r.apply(strings.NewReplacer("port: wan", "port: uplink", "uplink: true}}",
			"uplink: true}, lte: {ifName: ppp0, uplink: true, cost: 10, dnsServers: 198.51.100.54}}").Replace(vpnDoc(1)))
		r.ready(10*time.Second, "ni/"+niID(1))
		r.settle(10 * time.Second)
		r.uses("at first", "wan")
		down := tunnelOf(1, false, "wrong pre-shared key")
		r.host.SetTunnel(1, down)
		r.settle(2 * probe.TunnelSilence)
		r.uses("refused", "wan")
		down.Silent, down.Error = true, "the peer does not answer"
		r.host.SetTunnel(1, down)
		r.settle(probe.TunnelSilence - 10*time.Second)
		r.uses("for less than a minute of silence", "wan")
		r.settle(20 * time.Second)
		r.uses("after a minute of silence", "lte")
		x, err := r.node.Explain(t.Context(), "ni", niID(1))
		if text, _ := json.Marshal(x); err != nil || !strings.Contains(string(text), "the other end of the tunnel did not answer by it") {
			t.Errorf("explain: %s, %v", text, err)
		}
		found := r.events(nodeapi.EventQuery{Of: "ni/" + niID(1), Kind: nodeapi.EventUplink})
		if n := len(found); n == 0 || !strings.HasPrefix(found[n-1].Text, "wan -> lte: lte: works; wan: tunnel not answered (") {
			t.Errorf("events: %+v", found)
		}
		r.host.SetTunnel(1, tunnelOf(1, true, ""))
		r.settle(8 * time.Minute)
		r.uses("answered", "lte")
		r.settle(3 * time.Minute)
		r.uses("after ten minutes", "wan")
	})
}
