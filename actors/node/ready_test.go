package node

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// An apply that changes only a port does not change the network's generation. Until the network has applied the port's
// new config, neither the network nor its app is ready.
func TestReadyAnswersTheNewestConfigOfThePortsToo(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		up := func(name, addr, gw string) netstate.Interface {
			return netstate.Interface{
				Name: name, Up: true, MTU: 1500,
				Addresses:     []netip.Prefix{netip.MustParsePrefix(addr)},
				DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr(gw))},
			}
		}
		r.host.SetInterfaces(up("uplink0", "192.0.2.2/24", "192.0.2.1"), up("lte0", "203.0.113.2/24", "203.0.113.1"))
		both := doc(2, 1)
		both = strings.Replace(both, "networkInstances:\n", "  lte: {ifName: lte0, uplink: true}\nnetworkInstances:\n", 1)
		both = strings.Replace(both, "net2, type: local, port: wan", "net2, type: local, port: lte", 1)
		r.apply(both)
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2), "app/"+appID(1))

		r.host.SetFault(func(netstate.Owner, netstate.Op) *fake.OpFault { return &fake.OpFault{Hang: true} })
		r.apply(strings.Replace(both, "198.51.100.53", "198.51.100.54", 1))
		for _, c := range []struct {
			kind, id string
			want     bool
		}{{"ni", niID(1), false}, {"app", appID(1), false}, {"ni", niID(2), true}} {
			got, err := r.node.Ready(context.Background(), c.kind, c.id)
			if err != nil || got.Ready != c.want {
				t.Errorf("%s/%s: %+v, %v; want ready %v", c.kind, c.id, got, err, c.want)
			}
			if !c.want && !strings.Contains(got.Why, `"wan@2"`) {
				t.Errorf("%s/%s: %q does not name what is wanted of the port", c.kind, c.id, got.Why)
			}
		}
		r.host.SetFault(nil)
		r.ready(10*time.Second, "ni/"+niID(1), "ni/"+niID(2), "app/"+appID(1))
		for id, want := range map[string]uint64{niID(1): 1, niID(2): 1} {
			if s, _ := r.node.Topics().NetworkStatus.Get("", id); s.Generation != want {
				t.Errorf("network %s is at generation %d, want %d: its own content did not change", id, s.Generation, want)
			}
		}
	})
}
