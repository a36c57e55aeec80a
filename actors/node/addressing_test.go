package node

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"
)

const staticWAN = "ports:\n  wan: {ifName: uplink0, uplink: true, addressing: static, address: 192.0.2.2/24, " +
	"gateway: 192.0.2.1}\n"

// A port with addressing static gets its address and default route, without any network too; a restart does nothing,
// drift is repaired, and they are removed with the config.
func TestAStaticPortIsSetUpKeptAndRemoved(t *testing.T) {
	onRig(t, func(r *rig) {
		wan := netstate.Interface{Name: "uplink0", Up: true, MTU: 1500}
		r.host.SetInterfaces(wan)
		r.host.Done()
		r.apply(staticWAN)
		r.settle(time.Second)
		own := func() []string {
			return slices.DeleteFunc(r.host.Done(), func(op string) bool { return !strings.HasPrefix(op, "-1: ") })
		}
		all := "-1: add address uplink0 192.0.2.2/24\n-1: add port uplink0\n-1: add route 0.0.0.0/0 table 254 metric 1000"
		if got := strings.Join(own(), "\n"); got != all {
			t.Errorf("set up by\n%s\nwant\n%s", got, all)
		}
		r.stop()
		r.start()
		r.settle(time.Minute)
		if got := own(); len(got) > 0 {
			t.Errorf("a restart does %v", got)
		}
		address := netstate.Address{Link: "uplink0", Prefix: "192.0.2.2/24", Foreign: true}
		wan.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}
		r.host.SetInterfaces(wan)
		r.settle(5 * time.Second)
		r.host.Break(netstate.PortsNumber, address.ID())
		wan.Addresses = nil
		r.host.SetInterfaces(wan)
		r.settle(time.Second)
		if got := strings.Join(own(), "\n"); got != "-1: add address uplink0 192.0.2.2/24" {
			t.Errorf("drift is repaired by %s", got)
		}
		r.apply("ports:\n  wan: {ifName: uplink0, uplink: true}\n")
		r.settle(time.Second)
		gone := "-1: remove route 0.0.0.0/0 table 254 metric 1000\n-1: remove address uplink0 192.0.2.2/24"
		got := slices.DeleteFunc(own(), func(op string) bool { return strings.HasSuffix(op, "remove port uplink0") })
		if strings.Join(got, "\n") != gone {
			t.Errorf("removed by %v", got)
		}
	})
}

// A port whose interface does not exist yet holds nothing up, and is set up at once when it appears.
func TestAStaticPortWaitsForItsInterface(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetInterfaces()
		both := strings.Replace(doc(1, 0), "  wan: ", "  lan: {ifName: eth7, addressing: static, "+
			"address: 10.7.0.1/24}\n  wan: ", 1)
		r.host.SetInterfaces(netstate.Interface{Name: "uplink0", Up: true, MTU: 1500,
			Addresses:     []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
			DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))}})
		r.apply(both)
		r.ready(5*time.Second, "ni/"+niID(1))
		trouble, _ := r.node.d.topics.Trouble.Get("", netstate.PortsOwner)
		if len(trouble.Failing) == 0 || !trouble.Failing[0].Waiting || trouble.Retry.IsZero() {
			t.Errorf("the trouble is %+v", trouble)
		}
		r.settle(10 * time.Minute)
		r.host.SetInterfaces(append(r.node.d.interfaces(), netstate.Interface{Name: "eth7", MTU: 1500})...)
		r.settle(0)
		address := netstate.Address{Link: "eth7", Prefix: "10.7.0.1/24", Foreign: true}
		if r.host.State(netstate.PortsNumber)[address.ID()] == nil {
			t.Error("eth7 has no address")
		}
		if trouble, _ := r.node.d.topics.Trouble.Get("", netstate.PortsOwner); len(trouble.Failing) > 0 {
			t.Errorf("the trouble is %+v", trouble)
		}
	})
}
