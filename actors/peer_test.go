package actors

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	core "edgespan/config"
	"edgespan/config/confirm"
	"edgespan/config/link"
	"edgespan/config/nodeconf"
	"edgespan/config/peer"
	"edgespan/config/state"
	"edgespan/netinst"
)

// clusterOf are the parameters of a cluster's network on the node: one interface, one tunnel.
func clusterOf(network uuid.UUID, ifName string) []peer.Parameter {
	far := uuid.MustParse("7f000000-0000-4000-8000-000000000002")
	own := peer.InterfaceID(ifName)
	tunnel := peer.TunnelID(network, far)
	ps := []peer.Parameter{
		{ID: own, Kind: peer.KindInterface, Interface: &peer.InterfaceValue{IfName: ifName}},
		{ID: tunnel, Kind: peer.KindTunnel, Tunnel: &peer.TunnelValue{Network: network, Peer: "far", Type: peer.TunnelVXLAN, VNI: 256, Port: peer.VXLANPort, MTU: 1450}},
		{ID: peer.BridgeID(network), Kind: peer.KindBridge, Bridge: &peer.BridgeValue{Network: network, DisplayName: "lab", MTU: 1450}},
		{ID: state.NetworkID(network.String()), Kind: peer.KindNetwork, Dependencies: []string{peer.BridgeID(network)}},
	}
	for _, id := range []string{own, tunnel} {
		ps = append(ps, peer.Parameter{
			ID: peer.JoinedID(network, id), Kind: peer.KindJoined, Dependencies: []string{peer.BridgeID(network), id},
			Joined: &peer.JoinedValue{Network: network, Link: id},
		})
	}
	for i := range ps {
		ps[i].Target = state.ToBePresent
	}
	return ps
}

func encoded(t testing.TB, ps ...peer.Parameter) string {
	t.Helper()
	text, err := peer.Configuration{Parameters: ps}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAPushIsJudgedWithItsPeerConfiguration(t *testing.T) {
	onRig(t, func(r *rig) {
		judge := judgeBy(r.about.Metadata)
		net1 := uuid.MustParse(niID(1))
		config := `{"ports":{"wan":{"ifName":"uplink0","uplink":true},"lan":{"ifName":"lan0"}},"networkInstances":{"` + niID(1) + `":{"type":"switch","port":"lan"}}}`
		fresh := uuid.MustParse(niID(7))
		waits := clusterOf(fresh, "dut0")
		waits[0].Dependencies = []string{waits[4].ID}
		lost := clusterOf(fresh, "dut0")
		lost[0].Dependencies = []string{"bridge/none"}
		for _, c := range []struct {
			name, doc, peers string
			want             []string // in the faults; none for a sound one
		}{
			{"sound", config, encoded(t, clusterOf(fresh, "dut0")...), nil},
			{"none", config, "", nil},
			{"no JSON", config, "{", []string{"peerConfiguration: is no peer configuration"}},
			{"both are faulty", `{"sysParams":{"logLevel":"loud"}}`, "{", []string{"peerConfiguration: ", "sysParams.logLevel: "}},
			{"a cycle names its members", config, encoded(t, waits...), []string{`"interface/dut0" -> "joined/`, "wait for each other"}},
			{"an unknown id names both ends", config, encoded(t, lost...), []string{`"interface/dut0" depends on "bridge/none"`}},
			{"a uuid of the layers", config, encoded(t, clusterOf(net1, "dut0")...), []string{"is network instance " + niID(1) + ", which the config has too"}},
			{"the uplink", config, encoded(t, clusterOf(fresh, "uplink0")...), []string{"is uplink0, which is the uplink wan"}},
			{"a port in use", config, encoded(t, clusterOf(fresh, "lan0")...), []string{"is lan0, which is the port lan of network instance " + niID(1)}},
		} {
			document, faults := core.ParseObject([]byte(c.doc))
			if faults != nil {
				t.Fatal(faults)
			}
			v := judge(document, c.peers, confirm.Push)
			if (len(v.Faults) == 0) != (c.want == nil) {
				t.Errorf("%s: faults %v", c.name, v.Faults)
			}
			for _, w := range c.want {
				if v.Faults == nil || !strings.Contains(v.Faults.Error(), w) {
					t.Errorf("%s: %v, want %q in it", c.name, v.Faults, w)
				}
			}
			if c.name == "sound" {
				n, has := v.Config.(wish).Networks[fresh]
				if !has || len(n.Tunnels) != 1 || !slices.Equal(n.Members, []netinst.IfName{"dut0"}) || len(v.Config.(wish).Networks) != 2 {
					t.Errorf("%s: networks %+v", c.name, v.Config.(wish).Networks)
				}
			}
		}
	})
}

// pushBoth sends a document and its PeerConfiguration as a controller does.
func (r *rig) pushBoth(attempt uint64, text, peers string) {
	r.Helper()
	o, faults := nodeconf.Document([]byte(text))
	if faults != nil {
		r.Fatal(faults)
	}
	r.node.Agent().Received(link.Push{
		Attempt: attempt, Generation: core.Generation{Authority: "c", Counter: attempt}, MD5: core.MD5(o), Document: core.AppendCanonical(nil, o),
		PeerConfiguration: []byte(peers), Managed: true,
	})
	r.settle(0)
}

func (r *rig) networks() []string {
	return slices.Sorted(maps.Keys(r.node.Topics().NetworkConfig.List("")))
}

// One push publishes, confirms and undoes both, and a restart from disk brings both back.
func TestAPeerConfigurationIsPublishedConfirmedAndUndoneWithItsDocument(t *testing.T) {
	onRig(t, func(r *rig) {
		s := &steward{r: r}
		r.node.Agent().Up(s)
		fresh := uuid.MustParse(niID(7))
		both := []string{niID(1), niID(7)}
		r.pushBoth(1, doc(1, 0), encoded(t, clusterOf(fresh, "dut0")...))
		r.settle(40 * time.Second)
		if got := r.networks(); !slices.Equal(got, both) {
			t.Fatalf("published are %v, want %v", got, both)
		}
		if got := s.outcomes(); !slices.Equal(got, []string{"accepted", "applied"}) {
			t.Fatalf("the results are %q", got)
		}
		r.stop()
		r.start()
		if got := r.networks(); !slices.Equal(got, both) {
			t.Errorf("after a restart %v are published, want %v", got, both)
		}
		s = &steward{r: r}
		r.node.Agent().Up(s)
		r.pushBoth(2, doc(1, 0), encoded(t, clusterOf(uuid.MustParse(niID(1)), "dut0")...))
		if got := s.outcomes(); !slices.Equal(got, []string{"rejected"}) || !slices.Equal(r.networks(), both) {
			t.Errorf("a clash is answered with %q, published are %v", got, r.networks())
		}
		r.pushBoth(3, strings.Replace(doc(1, 0), "uplink0", "uplink9", 1), "")
		r.settle(time.Second)
		if got := r.networks(); !slices.Equal(got, both[:1]) {
			t.Errorf("without a peer configuration %v are published", got)
		}
		r.settle(130 * time.Second)
		if got := s.outcomes(); !slices.Contains(got, "unhealthy") || !slices.Equal(r.networks(), both) {
			t.Errorf("the undo came to %q, published are %v, want %v", got, r.networks(), both)
		}
	})
}
