package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/actors/node/api"
	core "edgespan/config"
	"edgespan/config/nodeconf/action"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// The built-in actions repair networks: UPDATE_FIREWALL rewrites what other programs removed, including host's chains;
// RELOAD_TUNNEL_CONFIG does the same for networks with tunnels only; RELOAD_DNS_SERVERS rereads the host's DNS
// servers. None of them waits for the full observation of each minute.
func TestActionsThatLookRepair(t *testing.T) {
	onRig(t, func(r *rig) {
		port := netstate.Interface{
			Name: "uplink0", Up: true, MTU: 1500, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
			DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))},
		}
		learnt := func(server string) netstate.Interface {
			p := port
			p.DNS = []netstate.DNSSource{{Program: "resolv.conf", Path: "/etc/resolv.conf",
				Servers: []netip.Addr{netip.MustParseAddr(server)}}}
			return p
		}
		r.host.SetInterfaces(learnt("198.51.100.1"))
		r.apply(strings.Replace(doc(2, 0), ", dnsServers: 198.51.100.53", "", 1))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
		topics := r.node.Topics()
		c, _ := topics.NetworkConfig.Get("", niID(1))
		c.UUID, c.Type, c.Port, c.IPv4, c.MTU = uuid.MustParse(niID(9)), netinst.Switch, "", netinst.IPv4Config{}, 1450
		c.Tunnels = []netinst.Tunnel{{Name: "beta", VNI: 256, Local: netip.MustParseAddr("192.0.2.2"),
			Remote: netip.MustParseAddr("192.0.2.7"), Port: 4789, MTU: 1450}}
		if err := topics.NetworkConfig.Publisher(api.OwnerConfig).Publish("", niID(9), c); err != nil {
			t.Fatal(err)
		}
		r.settle(time.Second)
		number, _ := topics.Numbers.Get("", niID(9))
		chain := func(name string) netstate.ID {
			return netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: name}.ID()
		}
		type object struct {
			owner int
			id    netstate.ID
		}
		root, first, second := object{0, chain("ES-LINKS-FWD")}, object{1, chain("ES1-FWD")}, object{2, chain("ES2-FWD")}
		tunnel := object{number, netstate.ID{Kind: netstate.KindLink, Name: string(netinst.TunnelIfName(number, 256))}}
		frames := object{number, chain(fmt.Sprintf("ES%d-FWD", number))}
		for i, c := range []struct {
			name     string
			lost     []object
			repaired []object
		}{
			{"UPDATE_FIREWALL", []object{root, first, second, frames}, []object{root, first, second, frames}},
			{"RELOAD_DNS_SERVERS", []object{first, second}, []object{first, second}},
			{"RELOAD_TUNNEL_CONFIG", []object{first, tunnel, frames}, []object{tunnel, frames}},
		} {
			for _, o := range c.lost {
				if r.host.State(o.owner)[o.id] == nil {
					t.Fatalf("%s: there is no %v", c.name, o)
				}
				r.host.RemoveSilently(o.owner, o.id)
			}
			server := fmt.Sprint("198.51.100.", i+2)
			r.host.LearnDNS(learnt(server))
			if err := r.node.newRunner(&r.ran).Do(t.Context(), action.ActionTable{}.Find(c.name), core.Object{}); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			r.settle(time.Second)
			for _, o := range c.lost {
				if there := r.host.State(o.owner)[o.id] != nil; there != slices.Contains(c.repaired, o) {
					t.Errorf("%s: after it %v is there: %v", c.name, o, there)
				}
			}
			if read := strings.Contains(fmt.Sprint(r.host.State(1)), server); read != (c.name == "RELOAD_DNS_SERVERS") {
				t.Errorf("%s: the server that nobody told of is known: %v", c.name, read)
			}
			if fs := r.host.Violations(); fs != nil {
				t.Errorf("%s: out of order: %q", c.name, fs)
			}
		}
	})
}
