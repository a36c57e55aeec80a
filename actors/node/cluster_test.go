package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/actors/node/api"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// shown returns a network as the node's API shows it.
func (r *rig) shown(id string) string {
	r.Helper()
	all, err := r.node.List(context.Background(), "ni")
	if err != nil {
		r.Fatal(err)
	}
	for _, n := range all {
		if n.ID == id {
			text, err := json.Marshal(n)
			if err != nil {
				r.Fatal(err)
			}
			return string(text)
		}
	}
	return ""
}

// memLink is a link that tests change.
type memLink struct {
	mu          sync.Mutex
	key         string
	controllers []netip.Addr
	wake        func()
}

func (l *memLink) ClusterKeys() (key, next string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.key, ""
}

func (l *memLink) Controllers() []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.controllers
}

func (l *memLink) Watch(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake = f
}

func (l *memLink) set(key string, controllers ...netip.Addr) {
	l.mu.Lock()
	l.key, l.controllers = key, controllers
	wake := l.wake
	l.mu.Unlock()
	wake()
}

// A replaced key of the node is another tunnel of each encrypted cluster, at once and with no new config; other networks
// don't notice. It is an event.
func TestAReplacedKeyReachesEachEncryptedCluster(t *testing.T) {
	onHost(t, func(r *rig) {
		keys := &memLink{key: "first"}
		r.about.Link = keys
		r.start()
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		topics := r.node.Topics()
		c, _ := topics.NetworkConfig.Get("", niID(1))
		c.UUID, c.Type, c.Port, c.IPv4, c.MTU = uuid.MustParse(niID(9)), netinst.Switch, "", netinst.IPv4Config{}, 1370
		c.WireGuardPort, c.ClusterKey = 21821, keys.key
		c.Tunnels = []netinst.Tunnel{{Name: "beta", VNI: 256, Local: netip.MustParseAddr("fd12::1"),
			Remote: netip.MustParseAddr("fd12::2"), Port: 23821, MTU: 1370,
			Encrypted: &netinst.TunnelKey{PublicKey: "of beta", Endpoint: netip.MustParseAddrPort("192.0.2.9:21821")}}}
		if err := topics.NetworkConfig.Publisher(api.OwnerConfig).Publish("", niID(9), c); err != nil {
			t.Fatal(err)
		}
		r.settle(time.Second)
		tunnel := func() string {
			n, _ := topics.Numbers.Get("", niID(9))
			v, _ := r.host.State(n)[netstate.ID{Kind: netstate.KindVPN, Name: netstate.VPNName(n)}].(netstate.VPN)
			if v.WireGuard == nil {
				return "none"
			}
			return v.WireGuard.PublicKey
		}
		if got := tunnel(); got != "first" {
			t.Fatalf("the tunnel has the key %q", got)
		}
		r.host.Done()
		keys.set("second")
		r.settle(time.Second)
		if got := tunnel(); got != "second" {
			t.Errorf("the tunnel has the key %q", got)
		}
		for _, op := range r.host.Done() {
			if !strings.Contains(op, "vpn") {
				t.Errorf("%s had nothing to do with it", op)
			}
		}
		found := r.events(nodeapi.EventQuery{Kind: nodeapi.EventSecurity})
		if len(found) != 1 || found[0].Text != "key for encrypted clusters: first -> second" {
			t.Errorf("events: %+v", found)
		}
	})
}

// A tunnel exists while the underlay's address and the route to its other end do. The rest of its network doesn't
// notice, and no other network is observed.
func TestATunnelComesAndGoesWithItsUnderlay(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(2, 0))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
		topics := r.node.Topics()
		c, _ := topics.NetworkConfig.Get("", niID(1))
		c.UUID, c.Type, c.Port, c.IPv4, c.MTU = uuid.MustParse(niID(9)), netinst.Switch, "", netinst.IPv4Config{}, 1450
		c.Members = []netinst.IfName{"can0"}
		c.Tunnels = []netinst.Tunnel{{Name: "beta", VNI: 256, Local: netip.MustParseAddr("fd00::1"),
			Remote: netip.MustParseAddr("fd00:7::2"), Port: 4789, MTU: 1450}}
		if err := topics.NetworkConfig.Publisher(api.OwnerConfig).Publish("", niID(9), c); err != nil {
			t.Fatal(err)
		}
		seen := func() string {
			s, _ := topics.NetworkStatus.Get("", niID(9))
			words := []string{string(s.State)}
			for _, p := range s.Parts {
				words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s %s", p.Kind, p.State, p.Error)))
			}
			return strings.Join(words, "; ")
		}
		check := func(d time.Duration, want string) {
			t.Helper()
			r.settle(d)
			if got := seen(); got != want {
				t.Fatalf("seen:\n%s\nwant:\n%s", got, want)
			}
		}
		made := func() bool {
			n, _ := topics.Numbers.Get("", niID(9))
			_, ok := r.host.State(n)[netstate.ID{Kind: netstate.KindLink, Name: fmt.Sprintf("es%dv256", n)}]
			return ok
		}
		const noMember = "; member WaitingForDependencies interface can0 does not exist"
		uplink := netstate.Interface{
			Name: "uplink0", Up: true, MTU: 1500,
			Addresses:     []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
			DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))},
		}
		at := func(addrs []netip.Prefix, gateways ...netip.Addr) {
			u0 := netstate.Interface{Name: "u0", Up: true, MTU: 1500, Addresses: addrs}
			for _, g := range gateways {
				u0.DefaultRoutes = append(u0.DefaultRoutes, netstate.DefaultVia(g))
			}
			r.host.SetInterfaces(uplink, u0)
		}
		underlay, gateway := []netip.Prefix{netip.MustParsePrefix("fd00::1/64")}, netip.MustParseAddr("fd00::fe")
		check(time.Second, "Present; bridge Present; tunnel WaitingForDependencies the local address fd00::1 is on no "+
			"interface of the host"+noMember)
		r.host.Done()
		at(underlay)
		check(400*time.Millisecond,
			"Present; bridge Present; tunnel WaitingForDependencies no route leads from fd00::1 to the remote address fd00:7::2"+
				noMember)
		at(underlay, gateway)
		check(400*time.Millisecond, "Present; bridge Present; tunnel Present"+noMember)
		if !made() {
			t.Error("the tunnel is not on the host")
		}
		r.host.SetLink("can0", true)
		check(400*time.Millisecond, "Present; bridge Present; tunnel Present; member Present")
		at(underlay)
		check(400*time.Millisecond,
			"Present; bridge Present; tunnel WaitingForDependencies no route leads from fd00::1 to the remote address "+
				"fd00:7::2; member Present")
		if made() {
			t.Error("the tunnel is on the host")
		}
		at(underlay, gateway)
		check(400*time.Millisecond, "Present; bridge Present; tunnel Present; member Present")
		if text := r.shown(niID(9)); !strings.Contains(text,
			`"parts":[{"kind":"bridge","state":"Present"},{"kind":"tunnel","name":"beta","state":"Present"}`) ||
			!strings.Contains(text, `"remote":"fd00:7::2","to":"beta","vni":256`) {
			t.Errorf("a person is shown %s", text)
		}
		if n, _ := topics.HostChanged.Get("1", api.NetworkKey); n.HostRouting > 0 {
			t.Errorf("a network without tunnels was told %d times", n.HostRouting)
		}
		for _, op := range r.host.Done() {
			if !strings.Contains(op, "v256") && !strings.Contains(op, "can0") {
				t.Errorf("%s had nothing to do with it", op)
			}
		}
		if err := topics.NetworkConfig.Publisher(api.OwnerConfig).Unpublish("", niID(9)); err != nil {
			t.Fatal(err)
		}
		r.settle(time.Second)
		if made() || seen() != "" {
			t.Errorf("it is left: %s", seen())
		}
	})
}
