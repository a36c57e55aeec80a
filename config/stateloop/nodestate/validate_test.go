package nodestate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
	"edgespan/netinst"
)

func ownMetadata(t *testing.T) *metadata.Metadata {
	t.Helper()
	m, faults := metadata.Parse(schema.NodeMetadata(), metadata.Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	return m
}

func niID(n int) string { return fmt.Sprintf("0a000000-0000-4000-8000-%012d", n) }

// clusterOf are the parameters of a cluster's network on the node: one interface, one tunnel.
func clusterOf(network uuid.UUID, ifName string) []peer.DeclaredParameter {
	far := uuid.MustParse("7f000000-0000-4000-8000-000000000002")
	own := peer.InterfaceID(ifName)
	tunnel := peer.TunnelID(network, far)
	ps := []peer.DeclaredParameter{
		{ID: own, Kind: peer.KindInterface, Interface: &peer.InterfaceValue{IfName: ifName}},
		{ID: tunnel, Kind: peer.KindTunnel, Tunnel: &peer.TunnelValue{Network: network,
			Peer: "far", Type: peer.TunnelVXLAN, VNI: 256, Port: peer.VXLANPort, MTU: 1450}},
		{ID: peer.BridgeID(network), Kind: peer.KindBridge,
			Bridge: &peer.BridgeValue{Network: network, DisplayName: "lab", MTU: 1450}},
		{ID: stateloop.NetworkID(network.String()), Kind: peer.KindNetwork, Dependencies: []string{peer.BridgeID(network)}},
	}
	for _, id := range []string{own, tunnel} {
		ps = append(ps, peer.DeclaredParameter{
			ID: peer.JoinedID(network, id), Kind: peer.KindJoined, Dependencies: []string{peer.BridgeID(network), id},
			Joined: &peer.JoinedValue{Network: network, Link: id},
		})
	}
	for i := range ps {
		ps[i].Target = stateloop.ToBePresent
	}
	return ps
}

func encoded(t testing.TB, ps ...peer.DeclaredParameter) string {
	t.Helper()
	text, err := peer.Configuration{Parameters: ps}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAPushIsJudgedWithItsPeerConfiguration(t *testing.T) {
	validate := Validator(ownMetadata(t))
	net1 := uuid.MustParse(niID(1))
	both := `{"ports":{"wan":{"ifName":"uplink0","uplink":true},"lan":{"ifName":"lan0"}},"networkInstances":{"` +
		niID(1) + `":{"type":"switch","port":"lan"}}}`
	fresh := uuid.MustParse(niID(7))
	waits := clusterOf(fresh, "dut0")
	waits[0].Dependencies = []string{waits[4].ID}
	lost := clusterOf(fresh, "dut0")
	lost[0].Dependencies = []string{"bridge/none"}
	for _, c := range []struct {
		name, doc, peers string
		want             []string // in the faults; none for a sound one
	}{
		{"sound", both, encoded(t, clusterOf(fresh, "dut0")...), nil},
		{"none", both, "", nil},
		{"no JSON", both, "{", []string{"peerConfiguration: invalid peer configuration"}},
		{"both are faulty", `{"sysParams":{"logLevel":"loud"}}`, "{",
			[]string{"peerConfiguration: ", "sysParams.logLevel: "}},
		{"a cycle names its members", both, encoded(t, waits...),
			[]string{`"interface/dut0" -> "joined/`, "wait for each other"}},
		{"an unknown id names both ends", both, encoded(t, lost...),
			[]string{`"interface/dut0" depends on "bridge/none"`}},
		{"a uuid of the layers", both, encoded(t, clusterOf(net1, "dut0")...),
			[]string{"duplicate network instance " + niID(1) + ", also in the config"}},
		{"the uplink", both, encoded(t, clusterOf(fresh, "uplink0")...),
			[]string{"invalid value uplink0, which is the uplink wan"}},
		{"a link of two clusters", both,
			encoded(t, append(clusterOf(fresh, "dut0"), clusterOf(uuid.MustParse(niID(8)), "dut0")[1:]...)...),
			[]string{"invalid value dut0, which is in the bridge of cluster lab"}},
		{"a port in use", both, encoded(t, clusterOf(fresh, "lan0")...),
			[]string{"invalid value lan0, which is the port lan of network instance " + niID(1)}},
	} {
		document, faults := config.ParseObject([]byte(c.doc))
		if faults != nil {
			t.Fatal(faults)
		}
		v := validate(document, c.peers, commitconfirm.Push)
		if (len(v.Faults) == 0) != (c.want == nil) {
			t.Errorf("%s: faults %v", c.name, v.Faults)
		}
		for _, w := range c.want {
			if v.Faults == nil || !strings.Contains(v.Faults.Error(), w) {
				t.Errorf("%s: %v, want %q in it", c.name, v.Faults, w)
			}
		}
		if c.name == "sound" {
			n, has := v.Config.(ValidatedConfig).Networks[fresh]
			if !has || len(n.Tunnels) != 1 || !slices.Equal(n.Members, []netinst.IfName{"dut0"}) ||
				len(v.Config.(ValidatedConfig).Networks) != 2 {
				t.Errorf("%s: networks %+v", c.name, v.Config.(ValidatedConfig).Networks)
			}
		}
	}
}

func TestAPushIsHeldToTheMetadataAndAPersonToTheSchema(t *testing.T) {
	validate := Validator(ownMetadata(t))
	for _, c := range []struct {
		text       string
		push, file string // what the faults contain, "" for none
	}{
		{`{"sysParams":{"logLevel":"warn"}}`, "", ""},
		{`{"vendor":1}`, "", "vendor"},
		{`{"sysParams":{"theirs":1}}`, "", "sysParams.theirs"},
		{`{"sysParams":{"logLevel":"loud"}}`, "sysParams.logLevel", "sysParams.logLevel"},
		{`{"ports":{"wan":{"nonsense":1}}}`, "ports.wan", "ports.wan"},
		{`{"networkInstances":{"` + niID(1) + `":{"type":"local","port":"none"}}}`, "port", "port"},
		{`{"ports":{"wan":{"$absent":true}}}`, "", ""},
	} {
		o, faults := config.ParseObject([]byte(c.text))
		if faults != nil {
			t.Fatal(faults)
		}
		for from, want := range map[commitconfirm.Source]string{commitconfirm.Push: c.push, commitconfirm.File: c.file,
			commitconfirm.Apply: c.file} {
			got := validate(o, "", from)
			if (got.Faults == nil) != (want == "") || want != "" && !strings.Contains(got.Faults.Error(), want) {
				t.Errorf("%s from %s: %v, want %q", c.text, from, got.Faults, want)
			}
		}
	}
	v := validate(config.Object{"vendor": int64(1)}, "", commitconfirm.Push)
	if len(v.Warnings) != 1 || v.Warnings[0].Path[0] != "vendor" {
		t.Errorf("what nobody knows is warned of as %v", v.Warnings)
	}
}
