package node

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
)

// portsOf lists the running links of a network, by name.
func (r *rig) portsOf(n int) string {
	var names []string
	for _, id := range r.host.State(n).IDs() {
		if id.Kind == netstate.KindPort {
			names = append(names, id.Name)
		}
	}
	return strings.Join(names, " ")
}

func (r *rig) adapterError(app int) string {
	for _, a := range r.list("app") {
		if a.ID == appID(app) {
			return a.Status.(nodeapi.AppStatus).Adapters[0].Error
		}
	}
	return "no such app"
}

func TestANetworkIsDeactivatedAndActivatedUnderItsApps(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		on := doc(1, 2)
		off := strings.Replace(on, "type: local,", "type: local, activate: false,", 1)
		r.apply(on)
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		r.apply(off)
		r.settle(time.Second)
		if got := r.portsOf(1); got != "es1" {
			t.Errorf("links %q run on a network that is not activated", got)
		}
		if got := r.adapterError(1); got != `network instance "net1" is not activated` {
			t.Errorf("the app says %q", got)
		}
		r.ready(time.Second, "ni/"+niID(1))
		r.stop()
		r.start()
		r.settle(time.Second)
		if got := r.portsOf(1); got != "es1" {
			t.Errorf("links %q run after a restart", got)
		}
		r.apply(on)
		r.ready(2*time.Second, "app/"+appID(1), "app/"+appID(2))
	})
}

func TestASwitchNetworkIsABridgeWithoutServices(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		local := doc(1, 2)
		sw := strings.Replace(local, `type: local, port: wan, ipv4: {subnet: 10.1.0.0/24}, dns: {domain: edge}`,
			`type: switch, port: ""`, 1)
		r.apply(local)
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		// A network changes its type while it has apps, and becomes a local one again.
		for _, d := range []string{sw, local, sw} {
			r.apply(d)
			r.settle(time.Second)
			r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1), "app/"+appID(2))
			if got := r.portsOf(1); got != "es1 es1a1 es1a2" {
				t.Errorf("links %q run", got)
			}
		}
		for _, id := range r.host.State(1).IDs() {
			if id.Kind == netstate.KindProcess || id.Kind == netstate.KindAddress || id.Kind == netstate.KindRule ||
				id.Kind == netstate.KindRoute {
				t.Errorf("a switch network has %s", id)
			}
		}
		r.apply(doc(0, 0))
		r.settle(time.Second)
		if left := r.host.State(1); len(left) > 0 || len(r.host.State(0)) > 0 {
			t.Errorf("left:\n%s%s", left, r.host.State(0))
		}
	})
}

func TestAnExternalLinkIsTakenWheneverItIsThere(t *testing.T) {
	onRig(t, func(r *rig) {
		d := strings.Replace(doc(1, 1), "{kind: veth, netns: ns1}", "{kind: external, hostIfName: vm0}", 1)
		r.apply(d)
		r.settle(time.Second)
		if got := r.adapterError(1); !strings.Contains(got, "interface vm0 does not exist") {
			t.Errorf("the app says %q", got)
		}
		r.ready(time.Second, "ni/"+niID(1))
		r.host.SetLink("vm0", true)
		r.ready(100*time.Millisecond, "app/"+appID(1))
		// Another link of the same name is another link.
		r.host.Done()
		r.host.SetLink("vm0", false)
		r.host.SetLink("vm0", true)
		r.settle(300 * time.Millisecond)
		r.ready(time.Second, "app/"+appID(1))
		if done := strings.Join(r.host.Done(), "\n"); !strings.Contains(done, "add port vm0") {
			t.Errorf("done: %s", done)
		}
		r.apply(doc(1, 0))
		r.settle(time.Second)
		if got := r.portsOf(1); got != "es1" {
			t.Errorf("links %q run", got)
		}
		if done := strings.Join(r.host.Done(), "\n"); strings.Contains(done, "remove link vm0") {
			t.Errorf("done: %s", done)
		}
	})
}

func TestATapDeviceIsMadeAndRemoved(t *testing.T) {
	onRig(t, func(r *rig) {
		named := strings.Replace(doc(1, 2), "{kind: veth, netns: ns1}", "{kind: tap, hostIfName: vm0}", 1)
		r.apply(strings.Replace(named, "{kind: veth, netns: ns2}", "{kind: tap}", 1))
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		if got := r.portsOf(1); got != "es1 es1a2 vm0" {
			t.Errorf("links %q run", got)
		}
		r.apply(doc(1, 0))
		r.settle(time.Second)
		for _, id := range r.host.State(1).IDs() {
			if id.Kind == netstate.KindLink && id.Name != "es1" {
				t.Errorf("%s is left", id)
			}
		}
	})
}

func TestASwitchTakesAPortOnlyWhileTheHostDoesNotUseIt(t *testing.T) {
	onRig(t, func(r *rig) {
		up := netstate.Interface{Name: "uplink0", Up: true, MTU: 1500,
			Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}}
		lan := netstate.Interface{Name: "lan0", Up: true, MTU: 1400}
		r.host.SetLink("lan0", true)
		r.host.SetInterfaces(up, lan)
		d := "ports:\n  wan: {ifName: uplink0, uplink: true}\n  lan: {ifName: lan0}\nnetworkInstances:\n  " + niID(1) +
			": {type: switch, port: lan}\n"
		r.apply(d)
		r.ready(time.Second, "ni/"+niID(1))
		if got := r.portsOf(1); got != "es1 lan0" {
			t.Errorf("links %q run", got)
		}
		held := lan
		held.Addresses = []netip.Prefix{netip.MustParsePrefix("198.51.100.7/24"), netip.MustParsePrefix("fe80::1/64")}
		r.host.SetInterfaces(up, held)
		r.settle(time.Second)
		if got := r.portsOf(1); got != "es1" {
			t.Errorf("links %q run, while lan0 holds an address", got)
		}
		got, err := r.node.Ready(context.Background(), "ni", niID(1))
		if err != nil || got.Ready || !strings.Contains(got.Why, "lan0 holds the host's address 198.51.100.7/24,") {
			t.Errorf("ready %v, %q, %v", got.Ready, got.Why, err)
		}
		lan.Up = false // without carrier the host can't use its address: the port remains enslaved
		r.host.SetInterfaces(up, lan)
		r.settle(time.Second)
		if got := r.portsOf(1); got != "es1 lan0" {
			t.Errorf("links %q run, while lan0 has no carrier", got)
		}
		r.apply("{ports: {}}")
		r.settle(time.Second)
		if left := r.host.State(1); len(left) > 0 {
			t.Errorf("left:\n%s", left)
		}
	})
}

func TestTheAddressesOfASwitchAreReportedWhileTheyAreHeard(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		d := strings.Replace(doc(1, 1), `type: local, port: wan, ipv4: {subnet: 10.1.0.0/24}, dns: {domain: edge}`,
			`type: switch, port: ""`, 1)
		r.apply(d)
		r.ready(time.Second, "app/"+appID(1))
		adapter := func() nodeapi.AdapterStatus { return r.list("app")[0].Status.(nodeapi.AppStatus).Adapters[0] }
		hear := func(ip string) bool {
			heard := r.host.Announce(netstate.ObservedAddress{Link: "es1a1", MAC: adapter().MAC, IP: netip.MustParseAddr(ip)})
			r.settle(0)
			return heard
		}
		want := func(ip, all string) {
			r.Helper()
			if a := adapter(); a.IP != ip || a.Addresses != all {
				r.Errorf("the app has %q of %q, want %q of %q", a.IP, a.Addresses, ip, all)
			}
		}
		for _, ip := range []string{"10.9.0.3", "10.9.0.1", "10.9.0.2"} {
			if !hear(ip) {
				t.Fatal("nobody listens")
			}
		}
		want("10.9.0.1", "10.9.0.1,10.9.0.2,10.9.0.3")
		r.settle(8 * time.Minute)
		hear("10.9.0.2")
		r.settle(3 * time.Minute)
		want("10.9.0.2", "10.9.0.2")
		r.ready(time.Second, "app/"+appID(1))
		// After a restart nothing is known, and all messages arrive again.
		r.stop()
		r.start()
		r.settle(time.Second)
		want("", "")
		hear("10.9.0.2")
		want("10.9.0.2", "10.9.0.2")
		r.apply(doc(1, 0))
		r.settle(time.Second)
		if r.host.Announce(netstate.ObservedAddress{Link: "es1a1", IP: netip.MustParseAddr("10.9.0.2")}) {
			t.Error("somebody listens on the link of an app that has gone")
		}
	})
}
