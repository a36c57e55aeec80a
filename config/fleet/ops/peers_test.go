package ops

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/stateloop/peer"
)

func peerDoc(t tester, name string) config.Object {
	return doc(t, fmt.Sprintf(`{"kind":"PeerDescriptor","metadata":{"name":%q},"spec":{"interfaces":{"dut":{"ifName":"eth1"}},"underlays":{"wan":{"port":"wan0"}}}}`, name))
}

func clusterDoc(t tester, name, topology string, members ...string) config.Object {
	var list []string
	for _, m := range members {
		list = append(list, fmt.Sprintf(`%q:{"interfaces":"dut","underlay":"wan"}`, m))
	}
	return doc(t, fmt.Sprintf(`{"kind":"ClusterDescriptor","metadata":{"name":%q},"spec":{"leader":%q,"topology":%q,"members":{%s}}}`,
		name, members[0], topology, strings.Join(list, ",")))
}

func (b *bench) deployment(name string) map[string]uint32 {
	b.Helper()
	f, err := b.Peers()
	if err != nil {
		b.Fatal(err)
	}
	return f.Deployments[name].VNIs
}

func TestAClusterIsDescribedDeployedEditedAndTakenBack(t *testing.T) {
	b := newBench(t, "a", "b", "c")
	o := b.do(Describe{[]config.Object{clusterDoc(t, "lab", "star", "a", "b"), peerDoc(t, "a"), peerDoc(t, "b"),
		peerDoc(t, "c")}})
	if !slices.Equal(o.Peers, []string{"a", "b", "c"}) {
		t.Errorf("described: %q", o.Peers)
	}
	o = b.do(Deploy{[]string{"lab"}})
	if !slices.Equal(o.Peers, []string{"a", "b"}) || !strings.Contains(o.Message, "Parameters may change on a, b.") {
		t.Errorf("deployed: %q %q", o.Peers, o.Message)
	}
	if got := b.deployment("lab"); fmt.Sprint(got) != "map[a b:256]" {
		t.Error(got)
	}
	if o := b.do(Deploy{[]string{"lab"}}); len(o.Change.Layers) != 0 ||
		!slices.Contains(o.Warnings, "cluster lab is deployed already") {
		t.Errorf("again: %+v", o)
	}
	// An edit of a deployed cluster takes its tunnels along.
	o = b.do(Describe{[]config.Object{clusterDoc(t, "lab", "mesh", "c", "a", "b")}})
	if got := b.deployment("lab"); fmt.Sprint(got) != "map[a b:256 a c:257 b c:258]" || len(o.Peers) != 3 {
		t.Error(got, o.Peers)
	}
	// A revision like any other: what one did is taken back.
	b.do(Revert{b.State.Number})
	if got := b.deployment("lab"); fmt.Sprint(got) != "map[a b:256]" {
		t.Error(got)
	}
	if o := b.do(Undeploy{[]string{"lab"}}); !slices.Equal(o.Peers, []string{"a", "b"}) || b.deployment("lab") != nil {
		t.Errorf("undeployed: %+v", o)
	}
	b.do(Undescribe{peer.KindCluster, []string{"lab"}})
	b.do(Undescribe{peer.KindPeer, []string{"a", "b", "c"}})
	f, err := b.Peers()
	if err != nil || len(f.Peers)+len(f.Clusters)+len(f.Deployments) != 0 {
		t.Error(f, err)
	}
}

func TestWhatPeersRefuse(t *testing.T) {
	b := newBench(t, "a", "b", "c")
	b.Nodes["a"] = NodeFact{ID: "6f1c9f0e-0000-4000-8000-000000000001"}
	b.do(Describe{[]config.Object{peerDoc(t, "a"), peerDoc(t, "b"), clusterDoc(t, "lab", "star", "a", "b"),
		clusterDoc(t, "two", "star", "a", "b"), clusterDoc(t, "far", "star", "a", "z")}})
	b.do(Deploy{[]string{"lab"}})
	other := config.Set(peerDoc(t, "a"), []string{"metadata", "id"}, "6f1c9f0e-0000-4000-8000-000000000009")
	b.refuses(Describe{[]config.Object{other}},
		"peer/a.metadata.id: invalid value 6f1c9f0e-0000-4000-8000-000000000009, the node of this name is "+
			"6f1c9f0e-0000-4000-8000-000000000001")
	b.refuses(Describe{}, "has no document")
	b.refuses(Describe{[]config.Object{{"kind": "Pod"}, peerDoc(t, "c"), peerDoc(t, "c")}},
		`documents/1.kind: invalid value "Pod"`,
		"peer/c: duplicate")
	bad := config.Set(peerDoc(t, "b"), []string{"spec", "underlays"}, config.Object{})
	b.refuses(Describe{[]config.Object{bad}},
		`cluster/lab.spec.members.b.underlay: invalid value "wan", which peer b does not have`)
	b.refuses(Deploy{[]string{"two"}}, `cluster/two.spec.members.a.interfaces: has "dut" (eth1), which cluster lab has`)
	b.refuses(Deploy{[]string{"far"}}, "cluster/far.spec.members.z: unknown peer")
	b.refuses(Deploy{}, "names no cluster")
	b.refuses(Undescribe{peer.KindPeer, []string{"b"}}, "cluster/lab.spec.members.b: unknown peer")
	b.refuses(Undescribe{peer.KindCluster, []string{"lab"}}, "cluster/lab: is deployed")
	for _, w := range []Write{Deploy{[]string{"none"}}, Undeploy{[]string{"none"}},
		Undescribe{peer.KindPeer, []string{"none"}}} {
		var no *NotFoundError
		if _, err := b.Validate(w); !errors.As(err, &no) || !strings.Contains(no.Allowed, "must be ") {
			t.Errorf("%T: %v", w, err)
		}
	}
}

func TestARenamedPeerStaysInItsCluster(t *testing.T) {
	b := newBench(t, "a", "b")
	b.do(SetTopology{doc(t,
		`{"name":"t","nodes":[{"name":"a","mac_addr":"02:00:00:00:00:01","site_name":"s"}],"links":[],"sites":[{"name":"s"}]}`)})
	b.do(Describe{[]config.Object{peerDoc(t, "a"), peerDoc(t, "b"), clusterDoc(t, "lab", "star", "a", "b")}})
	b.do(Deploy{[]string{"lab"}})
	b.do(EditTopology{Object: "node", Op: "rename", Name: "a", To: "y"})
	f, err := b.Peers()
	if err != nil {
		t.Fatal(err)
	}
	if c := f.Clusters["lab"]; c.Leader != "y" || f.Deployments["lab"].VNIs["b y"] != 256 || len(f.Check("lab")) > 0 {
		t.Errorf("%+v %+v", c, f.Deployments)
	}
	if v, err := b.State.Layer(history.Layer{Kind: history.Peer, Name: "y"}); err != nil || v.Document == nil {
		t.Error(v, err)
	}
}

// TestTheEnvironmentOfAnExecutorIsASecret looks for one in all that shows a descriptor, and writes
// back what was shown.
func TestTheEnvironmentOfAnExecutorIsASecret(t *testing.T) {
	b := newBench(t, "a")
	peerOf := func(env, command string) config.Object {
		return doc(t, `{"kind":"PeerDescriptor","metadata":{"name":"a"},"spec":{"interfaces":{"dut":{"ifName":"eth1"}},"underlays":{"wan":{"port":"wan0"}},"executors":{"x":{"command":["`+command+`"],"env":`+env+`}}}}`)
	}
	layer := history.Layer{Kind: history.Peer, Name: "a"}
	stored := func() string {
		v, err := b.State.Layer(layer)
		if err != nil {
			t.Fatal(err)
		}
		return string(config.AppendCanonical(nil, v.Document))
	}
	b.do(Describe{[]config.Object{peerOf(`{"API_KEY":"s3cret"}`, "/bin/a")}})
	first := b.State.Number
	shown := MaskPeer(peerOf(`{"API_KEY":"s3cret"}`, "/bin/b"))
	text := string(config.AppendCanonical(nil, shown))
	if strings.Contains(text, "s3cret") || !strings.Contains(text, `"$masked": true`) ||
		!strings.Contains(text, "/bin/b") {
		t.Errorf("shown: %s", text)
	}
	b.do(Describe{[]config.Object{shown}}) // read, edited, written
	if got := stored(); !strings.Contains(got, "s3cret") || !strings.Contains(got, "/bin/b") {
		t.Errorf("stored: %s", got)
	}
	b.do(Describe{[]config.Object{peerOf(`{"API_KEY":"0ther"}`, "/bin/b")}})
	before, err := history.At(b.store, first-1)
	if err != nil {
		t.Fatal(err)
	}
	diffs, err := history.Diff(before, b.State)
	if err != nil {
		t.Fatal(err)
	}
	masked, err := b.MaskDiffs(diffs)
	if err != nil {
		t.Fatal(err)
	}
	if all := fmt.Sprintf("%v", masked); strings.Contains(all, "s3cret") || strings.Contains(all, "0ther") ||
		!strings.Contains(all, "/bin/b") {
		t.Errorf("history: %s", all)
	}
	if _, err := b.Validate(Describe{[]config.Object{doc(t,
		`{"kind":"PeerDescriptor","metadata":{"name":"b"},"spec":{"interfaces":{"dut":{"ifName":"eth1"}},"underlays":{"wan":{"port":"wan0"}},"executors":{"x":{"command":["/bin/a"],"env":{"$masked":true}}}}}`)}}); err == nil {
		t.Error("a masked environment of a peer that has none is stored")
	}
}
