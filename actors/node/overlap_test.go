package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
	"edgespan/pubsub"
)

func foreign(name string, addrs ...string) netstate.Interface {
	i := netstate.Interface{Name: name, Up: true, MTU: 1500}
	for _, a := range addrs {
		i.Addresses = append(i.Addresses, netip.MustParsePrefix(a))
	}
	if name == "uplink0" {
		i.DefaultRoutes = []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))}
	}
	return i
}

// number returns the number of a network.
func (r *rig) number(n int) int {
	got, _ := r.node.d.topics.Numbers.Get("", niID(n))
	return got
}

// owned counts the objects of a network by kind.
func (r *rig) owned(n int) map[netstate.Kind]int {
	by := map[netstate.Kind]int{}
	for id := range r.host.State(r.number(n)) {
		by[id.Kind]++
	}
	return by
}

// Networks that come with one config are numbered in the order in which a plan numbers them.
func TestNewNetworksAreNumberedInOrder(t *testing.T) {
	onRig(t, func(r *rig) {
		const networks = 9
		r.apply(doc(networks, 0))
		for n := 1; n <= networks; n++ {
			r.ready(time.Second, "ni/"+niID(n))
			if got := r.number(n); got != n {
				t.Errorf("network %d has number %d", n, got)
			}
		}
	})
}

func TestAClashAtRunTimeWithdrawsOneNetworkAlone(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.apply(doc(2, 2))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2), "app/"+appID(1), "app/"+appID(2))
		r.host.Done()
		r.host.SetInterfaces(foreign("uplink0", "192.0.2.2/24", "10.1.0.77/24"))
		r.settle(100 * time.Millisecond)
		got, err := r.node.Ready(context.Background(), "ni", niID(1))
		if want := "WaitingForDependencies: subnet 10.1.0.0/24 overlaps 10.1.0.77/24 on uplink0"; err != nil || got.Ready ||
			got.Why != want {
			t.Errorf("ready %v, %q, %v; want %q", got.Ready, got.Why, err, want)
		}
		if by := r.owned(1); by[netstate.KindAddress]+by[netstate.KindRoute]+by[netstate.KindRule]+
			by[netstate.KindProcess] > 0 || by[netstate.KindLink] != 2 || by[netstate.KindPort] != 2 {
			t.Errorf("a withdrawn network has %v", by)
		}
		if why := r.adapterError(1); !strings.Contains(why, "is withdrawn: subnet 10.1.0.0/24 overlaps") {
			t.Errorf("the app says %q", why)
		}
		for _, op := range r.host.Done() {
			if strings.Contains(op, " link ") || strings.HasPrefix(op, fmt.Sprint(r.number(1), ": ")) &&
				strings.Contains(op, " port ") {
				t.Errorf("%s", op)
			}
		}
		r.ready(time.Second, "ni/"+niID(2), "app/"+appID(2))
		r.stop() // a restart keeps it withdrawn
		r.host.Done()
		r.start()
		r.settle(2 * time.Second)
		for _, op := range r.host.Done() {
			if strings.HasPrefix(op, fmt.Sprint(r.number(1), ": ")) {
				t.Errorf("after a restart: %s", op)
			}
		}
		r.host.SetInterfaces(foreign("uplink0", "192.0.2.2/24"))
		r.settle(500 * time.Millisecond)
		if by := r.owned(1); by[netstate.KindAddress] > 0 {
			t.Errorf("it came back without a rest: %v", by)
		}
		r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1))
	})
}

func TestAConfigOfTheHostsOwnSubnetIsRefusedOnce(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetInterfaces(foreign("uplink0", "192.0.2.2/24", "10.1.0.77/24"), foreign("docker0", "10.2.0.1/15"))
		r.settle(0)
		_, err := r.node.Apply(context.Background(), []byte(doc(3, 0)), nodeapi.ApplyOptions{})
		var rej *rest.Rejected
		if !errors.As(err, &rej) || len(rej.Faults) != 3 {
			t.Fatalf("apply: %v", err)
		}
		for i, on := range []string{"10.1.0.77/24 on uplink0", "10.2.0.1/15 on docker0", "10.2.0.1/15 on docker0"} {
			if want := "networkInstances." + niID(i+1) + ".ipv4.subnet: overlaps " + on +
				": must be"; !strings.HasPrefix(rej.Faults[i], want) {
				t.Errorf("%q, want %q", rej.Faults[i], want)
			}
		}
		if _, err := r.node.Plan(context.Background(), []byte(doc(3, 0))); !errors.As(err, &rej) {
			t.Errorf("plan: %v", err)
		}
		r.host.SetInterfaces(foreign("uplink0", "192.0.2.2/24"))
		r.settle(time.Second)
		r.apply(doc(3, 0))
		r.ready(time.Second, "ni/"+niID(1))
		r.host.SetInterfaces(foreign("uplink0", "192.0.2.2/24", "10.1.0.77/24"))
		r.settle(time.Second)
		r.apply(doc(2, 0)) // network 1 is withdrawn already
	})
}

// A config of an earlier release may have an MTU that no tap accepts. It runs with the largest MTU that a tap accepts,
// and other changes in the same config are applied.
func TestAnMTUThatNoTapTakesIsRefusedAndAStoredOneGoesOn(t *testing.T) {
	onRig(t, func(r *rig) {
		tap := func(nets, mtu int) string {
			d := strings.Replace(doc(nets, 1), "{kind: veth, netns: ns1}", "{kind: tap}", 1)
			return strings.Replace(d, "type: local,", fmt.Sprintf("type: local, mtu: %d,", mtu), 1)
		}
		refused := func(text string) {
			t.Helper()
			_, err := r.node.Apply(context.Background(), []byte(text), nodeapi.ApplyOptions{})
			var rej *rest.Rejected
			if !errors.As(err, &rej) || len(rej.Faults) != 1 ||
				!strings.Contains(rej.Faults[0], niID(1)+".mtu: invalid value 655") {
				t.Errorf("apply: %v", err)
			}
			if _, err := r.node.Plan(context.Background(), []byte(text)); !errors.As(err, &rej) {
				t.Errorf("plan: %v", err)
			}
		}
		refused(tap(1, 65535))
		r.files.SetConfig(tap(1, 65535))
		r.node.Reload()
		r.settle(0)
		r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1))
		for _, name := range []string{"es1", "es1a1"} {
			l, _ := r.host.State(1)[netstate.ID{Kind: netstate.KindLink, Name: name}].(netstate.Link)
			if l.MTU != netinst.MaxTapMTU {
				t.Errorf("%s has MTU %d", name, l.MTU)
			}
		}
		r.apply(tap(2, 65535))
		r.ready(time.Second, "ni/"+niID(2))
		refused(tap(2, 65530))
	})
}

// Hundreds of foreign interfaces appear and disappear without waking a bridge manager.
func TestForeignAddressesWakeOnlyTheNetworkThatTheyAreIn(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(20, 0))
		for n := 1; n <= 20; n++ {
			r.ready(time.Second, "ni/"+niID(n))
		}
		reported := 0
		sub := r.node.d.topics.SubnetOverlap.Subscribe(pubsub.Selector{}, func() {})
		defer sub.Close()
		sub.Drain()
		r.host.Done()
		all := []netstate.Interface{foreign("uplink0", "192.0.2.2/24")}
		for i := range 300 {
			all = append(all, foreign(fmt.Sprint("br", i), fmt.Sprintf("172.%d.%d.1/24", 16+i/256, i%256)))
			r.host.SetInterfaces(all...)
			r.settle(0)
		}
		r.host.SetInterfaces(append(all, foreign("docker0", "10.7.0.1/16"))...)
		r.settle(time.Second)
		for _, ch := range sub.Drain() {
			if ch.Kind == pubsub.Modified {
				reported++
				if ch.Key != niID(7) ||
					ch.New != (overlap.Overlap{Subnet: netip.MustParsePrefix("10.7.0.0/24"), Clash: "10.7.0.1/16 on docker0"}) {
					t.Errorf("%s: %+v", ch.Key, ch.New)
				}
			}
		}
		if reported != 1 {
			t.Errorf("%d networks were told, want 1", reported)
		}
		for _, op := range r.host.Done() {
			if !strings.HasPrefix(op, fmt.Sprint(r.number(7), ": ")) && !strings.HasPrefix(op, "0: ") {
				t.Errorf("%s", op)
			}
		}
	})
}
