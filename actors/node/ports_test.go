package node

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/pubsub"
)

// A network follows its ports: it leaves one that is up and leads nowhere, and returns later.
func TestANetworkLeavesAPortThatLeadsNowhere(t *testing.T) {
	onRig(t, func(r *rig) {
		wan := netstate.Interface{Name: "uplink0", Up: true, MTU: 1500,
			Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}}
		lte := netstate.Interface{
			Name: "ppp0", Up: true, MTU: 1492, Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.2/32")},
			DefaultRoutes: []netstate.DefaultRoute{{Metric: 100}},
		}
		good := wan
		good.DefaultRoutes = []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))}
		two := withLTE(doc(1, 0))
		two = strings.Replace(two, "port: wan", "port: uplink", 1)
		r.host.SetInterfaces(good, lte)
		r.apply(two)
		r.ready(5*time.Second, "ni/"+niID(1))
		check := func(what, port, route, explained string) {
			t.Helper()
			r.settle(time.Second)
			s, _ := r.node.d.topics.NetworkStatus.Get("", niID(1))
			o := r.host.State(1)[netstate.Route{Table: 20001, Dst: "0.0.0.0/0"}.ID()]
			if s.State != netinst.Present || s.Port != port || o == nil || o.Text() != route {
				t.Errorf("%s: %s by port %q, the route is %v, want %q by %q", what, s.State, s.Port, o, route, port)
			}
			if x := r.explain("ni", niID(1)); !strings.HasSuffix(x.Summary, explained) {
				t.Errorf("%s: explained as %q", what, x.Summary)
			}
		}
		check("both lead out", "wan", "unicast via 192.0.2.1 dev uplink0", ", uplink port wan via 192.0.2.1")
		r.host.SetInterfaces(wan, lte)
		check("one has lost its default route", "lte", "unicast dev ppp0",
			", uplink port lte without gateway, not port wan: uplink wan (uplink0) has no default route")
		wan.Addresses = nil
		r.host.SetInterfaces(wan, lte)
		check("and its address", "lte", "unicast dev ppp0", ", not port wan: uplink wan (uplink0) has no IPv4 address")
		r.host.SetInterfaces(good, lte)
		check("it has both again, and is held", "lte", "unicast dev ppp0", ", uplink port lte without gateway")
		r.settle(10 * time.Second)
		check("it has both again", "wan", "unicast via 192.0.2.1 dev uplink0", ", uplink port wan via 192.0.2.1")
		good.Up = false
		r.host.SetInterfaces(good, lte)
		check("it has no carrier", "lte", "unicast dev ppp0", ", not port wan: interface uplink0 is down")
	})
}

// A network moves to another port when the far side of the one in use dies, and back after its hold-down; a restart of
// the daemon in between moves it nowhere.
func TestANetworkLeavesAPortWhoseFarSideIsDead(t *testing.T) {
	onRig(t, func(r *rig) {
		dead := r.setUplinks()
		two := withLTE(doc(1, 0))
		r.apply(strings.Replace(two, "port: wan", "port: uplink", 1))
		r.ready(5*time.Second, "ni/"+niID(1))
		uses := func(when, port string) {
			t.Helper()
			if s, _ := r.node.d.topics.NetworkStatus.Get("", niID(1)); s.Port != port {
				choice, _ := r.node.d.topics.Uplinks.Get("", niID(1))
				t.Errorf("%s: by %q, want %q: %+v", when, s.Port, port, choice)
			}
		}
		time.Sleep(30 * time.Second)
		uses("both work", "wan")
		dead.Store("wan", silent)
		time.Sleep(3 * time.Second)
		uses("the far side of wan is dead for 3 s", "lte")
		r.stop()
		r.start()
		r.ready(5*time.Second, "ni/"+niID(1))
		uses("after a restart", "lte")
		dead.Delete("wan")
		time.Sleep(8 * time.Second)
		uses("wan is held", "lte")
		time.Sleep(5 * time.Second)
		uses("wan's hold-down is over", "wan")
	})
}

// A config that selects ports in another way is applied with a choice among them, and not first with the cheapest port,
// whose far side is dead.
func TestAConfigOfAnotherSelectorTakesNoDeadPort(t *testing.T) {
	onUplinks(t, func(r *proberRig) {
		r.configure(1, "")
		r.kill(func(id probe.ID) bool { return id.Port == "wan" && id.Method == probe.DNS })
		r.settle(5 * time.Second)
		if r.uses(1) != "lte" {
			t.Fatalf("by %s", r.uses(1))
		}
		var used []string
		var sub *pubsub.Subscription[netinst.NetworkInstanceStatus]
		see := func() {
			for _, ch := range sub.Drain() {
				used = append(used, ch.New.Port)
			}
		}
		sub = r.node.d.topics.NetworkStatus.Subscribe(pubsub.Selector{Key: niID(1)}, func() {
			if sub != nil { // within Subscribe, what is there is replayed
				see()
			}
		})
		see()
		defer sub.Close()
		used = nil
		text := withLTE(doc(1, 0))
		r.apply(strings.Replace(text, "port: wan", "port: all", 1))
		r.settle(5 * time.Second)
		if len(used) == 0 || slices.ContainsFunc(used, func(p string) bool { return p != "lte" }) {
			t.Errorf("it used %q", used)
		}
	})
}
