package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

const peersPage = "../../docs/peers.md"

// TestEveryExampleOfThePeersPage runs the console blocks of docs/peers.md from the first to the
// last, with examples/fleet/cluster.yaml; stdout comes before stderr.
func TestEveryExampleOfThePeersPage(t *testing.T) {
	text, err := os.ReadFile(peersPage)
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../examples/fleet/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env := clitest.ServeFleet(t, newPeersBackend(t))
	t.Chdir(t.TempDir())
	if err := os.WriteFile("cluster.yaml", example, 0o600); err != nil {
		t.Fatal(err)
	}
	var ran []string
	for _, e := range clitest.ConsoleExamples(string(text)) {
		words := clitest.ShellWords(e.Command)
		if words[0] == "cat" && len(words) == 2 {
			if err := os.WriteFile(words[1], []byte(e.Output), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		ran = append(ran, strings.Join(words[1:min(3, len(words))], " "))
		if got := cli(t, env, "", words[1:]...); !clitest.MatchElided(got.Out+got.Err, e.Output) {
			t.Errorf("%s\nexit %d and\n%s%swant\n%s", e.Command, got.Code, got.Out, got.Err, e.Output)
		}
	}
	for _, c := range []string{"apply -f", "peers list", "peers get", "clusters deploy", "clusters status", "peers status",
		"peers explain", "wait cluster/lab", "clusters undeploy", "clusters delete"} {
		if !slices.Contains(ran, c) {
			t.Errorf("%s has no example of %s, but of %v", peersPage, c, ran)
		}
	}
}

// peersBackend is a controller whose writes, parameters and states are the real ones. Its nodes
// are made up: what they find they say when a test lets them.
type peersBackend struct {
	*clitest.LayersBackend

	at      time.Time
	ids     map[string]uuid.UUID
	has     map[string]map[string]peer.Leftover // what may be on each node
	said    map[string][]stateloop.Reported     // of each node
	applied map[string]uint64                   // revision that it said them of
	trouble bool                                // edge-3 has no route to edge-1, and no collector
}

func newPeersBackend(t *testing.T) *peersBackend {
	b := &peersBackend{
		LayersBackend: clitest.NewWorld(t), at: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC), ids: map[string]uuid.UUID{},
		has:  map[string]map[string]peer.Leftover{},
		said: map[string][]stateloop.Reported{}, applied: map[string]uint64{}, trouble: true,
	}
	b.Operations.Nodes = map[string]ops.NodeFact{}
	for i, name := range []string{"edge-1", "edge-2", "edge-3"} {
		b.has[name] = map[string]peer.Leftover{}
		b.ids[name] = uuid.MustParse(fmt.Sprintf("e%07d-0000-4000-8000-000000000001", i+1))
		b.Operations.Nodes[name] = ops.NodeFact{Alive: true, ID: b.ids[name].String()}
	}
	return b
}

// Write lets the nodes say what they find of a deployment, but not yet of what is to go.
func (b *peersBackend) Write(ctx context.Context, r fleetapi.WriteRequest) (fleetapi.Written, error) {
	w, err := b.LayersBackend.Write(ctx, r)
	if _, away := r.Write.(ops.Undeploy); err != nil || r.DryRun || away {
		return w, err
	}
	return w, b.report()
}

// Changed mends what was in the way, and lets the nodes say what they find then.
func (b *peersBackend) Changed(ctx context.Context, mark uint64) (uint64, error) {
	if mark == 0 {
		return 1, nil
	}
	if mark > 3 {
		<-ctx.Done()
		return mark, ctx.Err()
	}
	b.trouble = false
	return mark + 1, b.report()
}

// fleet is the descriptors of now, and their revision.
func (b *peersBackend) fleet() (*peer.Inventory, history.State, error) {
	var s history.State
	f, err := clitest.Read(b.LayersBackend,
		func(w *ops.Snapshot) (*peer.Inventory, error) { s = w.State; return w.Peers() })
	return f, s, err
}

// configuration is what a node is to be, and what it was and still may be.
func (b *peersBackend) configuration(f *peer.Inventory, name string) peer.Configuration {
	in := peer.Input{Name: name, Nodes: map[string]peer.Node{}, Fleet: f}
	for i, other := range slices.Sorted(maps.Keys(b.ids)) {
		in.Nodes[other] = peer.Node{ID: b.ids[other],
			Ports: map[string]peer.Port{"wan0": {Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})},
				MTU: 1500}}}
	}
	now := peer.Derive(in)
	for _, r := range b.said[name] {
		if r.State == stateloop.Absent {
			delete(b.has[name], r.ID)
		}
	}
	for _, p := range now.Parameters {
		if p.Target == stateloop.ToBePresent {
			b.has[name][p.ID] = peer.Leftover{ID: p.ID, Kind: p.Kind, Needs: p.Dependencies}
		}
	}
	has := fleet.Memory{Has: slices.Collect(maps.Values(b.has[name]))}
	in.Gone = has.Leftovers(&now)
	return peer.Derive(in)
}

// report lets all nodes say what they find.
func (b *peersBackend) report() error {
	f, s, err := b.fleet()
	for name := range b.ids {
		b.said[name], b.applied[name] = nil, s.Number
		c := b.configuration(f, name)
		for _, p := range c.Parameters {
			r := stateloop.Reported{ID: p.ID, Kind: p.Kind, State: stateloop.Present, Generation: generation(s.Number),
				Since: b.at}
			switch {
			case p.Target == stateloop.ToBeAbsent:
				r.State = stateloop.Absent
			case b.trouble && name == "edge-3" && p.Kind == peer.KindTunnel:
				r.State, r.Message = stateloop.WaitingForDependencies, "no route to 192.0.2.1, where edge-1 is"
			case b.trouble && name == "edge-3" &&
				(p.Kind == peer.KindJoined && strings.Contains(p.ID, "tunnel") || p.Kind == peer.KindCheck):
				r.State = stateloop.WaitingForDependencies
			case b.trouble && p.Kind == peer.KindExecutor:
				r.State, r.Message = stateloop.CreatingFailed, "start /usr/bin/collector: no such file"
			}
			b.said[name] = append(b.said[name], r)
		}
	}
	return err
}

func generation(n uint64) config.Generation { return config.Generation{Authority: "a", Counter: n} }

// of is a peer, and the derivation that it is from.
func (b *peersBackend) of(f *peer.Inventory, s history.State, name string) (fleetapi.PeerDetail,
	stateloop.PeerStatusReport) {
	c := b.configuration(f, name)
	want := stateloop.Config{Generation: generation(s.Number), Since: b.at}
	by := map[string]peer.DeclaredParameter{}
	for _, p := range c.Parameters {
		want.Parameters = append(want.Parameters,
			stateloop.DesiredParameter{ID: p.ID, Kind: p.Kind, Target: p.Target, Dependencies: p.Dependencies})
		by[p.ID] = p
	}
	r := stateloop.Summarize(stateloop.Peer{Name: name, Online: true, Clusters: f.ClustersOf(name), LastReport: b.at},
		want, stateloop.EdgePeerConfigurationState{Generation: generation(b.applied[name]), Parameters: b.said[name]})
	age := 2.0
	d := fleetapi.PeerDetail{Peer: fleetapi.Peer{
		Name: name, ID: b.ids[name].String(), Clusters: r.Clusters, Online: true, Health: string(r.Health), Ready: r.Ready,
		Why: r.Why, Counts: map[string]int{},
		Desired: r.Desired.String(), Applied: r.Applied.String(), LastReport: &b.at, AgeSeconds: &age,
	}}
	_, d.Described = f.Peers[name]
	for _, p := range r.Parameters {
		d.Counts[string(p.State)]++
		one := fleetapi.PeerParameter{
			ID: p.ID, Kind: p.Kind, Target: string(p.Target), State: string(p.State), Review: string(p.Review), Reason: p.Reason,
			Since: &b.at, Dependencies: by[p.ID].Dependencies,
		}
		for _, said := range b.said[name] {
			if said.ID == p.ID {
				one.Reported = string(said.State)
			}
		}
		if t := by[p.ID].Tunnel; t != nil {
			one.Describes = fmt.Sprintf("%s %d %s > %s", t.Type, t.VNI, t.Local, t.Remote)
		}
		d.Parameters = append(d.Parameters, one)
	}
	return d, r
}

func (b *peersBackend) Peers(context.Context) ([]fleetapi.Peer, error) {
	f, s, err := b.fleet()
	var out []fleetapi.Peer
	for _, name := range slices.Sorted(maps.Keys(b.ids)) {
		d, _ := b.of(f, s, name)
		out = append(out, d.Peer)
	}
	return out, err
}

func (b *peersBackend) Peer(_ context.Context, name string) (fleetapi.PeerDetail, error) {
	f, s, err := b.fleet()
	if err != nil {
		return fleetapi.PeerDetail{}, err
	}
	d, _ := b.of(f, s, name)
	v, err := s.Layer(history.Layer{Kind: history.Peer, Name: name})
	d.Descriptor, d.Revision = v.Document, v.Revision
	return d, err
}

func (b *peersBackend) Clusters(ctx context.Context) ([]fleetapi.Cluster, error) {
	f, _, err := b.fleet()
	if err != nil {
		return nil, err
	}
	var out []fleetapi.Cluster
	for _, name := range slices.Sorted(maps.Keys(f.Clusters)) {
		d, err := b.Cluster(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, d.Cluster)
	}
	return out, nil
}

func (b *peersBackend) Cluster(_ context.Context, name string) (fleetapi.ClusterDetail, error) {
	f, s, err := b.fleet()
	if err != nil {
		return fleetapi.ClusterDetail{}, err
	}
	now, known := f.Clusters[name]
	if !known {
		return fleetapi.ClusterDetail{}, &ops.NotFoundError{What: fmt.Sprintf("cluster %q", name)}
	}
	v, err := s.Layer(history.Layer{Kind: history.Cluster, Name: name})
	d := fleetapi.ClusterDetail{Cluster: fleetapi.Cluster{
		Name: name, ID: now.ID.String(), Leader: now.Leader, Topology: string(now.Topology),
		Members: slices.Sorted(maps.Keys(now.Members)), State: "undeployed", Health: "unknown", Why: "not deployed",
	}, Descriptor: v.Document, Revision: v.Revision}
	var members []stateloop.ClusterMember
	states := map[string]string{} // of tunnels by their two names
	reasons := map[string]string{}
	left := "" // a member that still has a part
	for _, name := range d.Members {
		p, r := b.of(f, s, name)
		d.Peers = append(d.Peers, p.Peer)
		m := stateloop.ClusterMember{Report: r}
		for _, one := range b.configuration(f, name).Parameters {
			switch one.Kind {
			case peer.KindExecutor:
				continue // the descriptor's own
			case peer.KindTunnel:
				if one.Tunnel != nil {
					at := slices.IndexFunc(r.Parameters, func(x stateloop.DerivedParameter) bool { return x.ID == one.ID })
					states[name+" "+one.Tunnel.Peer], reasons[name+" "+one.Tunnel.Peer] = string(r.Parameters[at].State),
						r.Parameters[at].Reason
				}
			}
			if m.Parameters = append(m.Parameters, one.ID); one.Target == stateloop.ToBeAbsent {
				left = name
			}
		}
		members = append(members, m)
	}
	deployed, is2 := f.Deployments[name]
	switch d.Deployed = is2; {
	case d.Deployed:
		sum := stateloop.SummarizeCluster(name, members)
		d.Ready, d.Why, d.Health, d.State = sum.Ready, sum.Why, string(sum.Health), "deploying"
		if d.Ready {
			d.State = "deployed"
		}
	case left != "":
		d.State, d.Why = "undeploying", left+" has not yet reported that its part is removed"
	}
	for _, pair := range slices.Sorted(maps.Keys(deployed.VNIs)) {
		x, y, _ := strings.Cut(pair, " ")
		d.Tunnels = append(d.Tunnels, fleetapi.Tunnel{Between: [2]string{x, y}, VNI: deployed.VNIs[pair],
			States: [2]string{states[pair], states[y+" "+x]}, Reason: reasons[pair] + reasons[y+" "+x]})
	}
	return d, err
}

// TestWhatIsNotBuiltIsRefusedByName gives descriptors with an underlay and with tunnels of types
// that there are none of to the real operations, by the command and by the route: both name the
// place and what is allowed there, all at once, and nothing is written.
func TestWhatIsNotBuiltIsRefusedByName(t *testing.T) {
	env := clitest.ServeFleet(t, newPeersBackend(t))
	const text = `kind: PeerDescriptor
metadata: {name: edge-1}
spec: {underlays: {office: {port: wan0, vpn: office}, wan: {port: wan0, type: gre}}}
---
kind: ClusterDescriptor
metadata: {name: lab}
spec: {leader: edge-1, tunnel: wireguard, members: {edge-1: {underlay: wan}, edge-2: {underlay: wan}}}
`
	wants := []struct{ path, detail, allowed string }{
		{"peer/edge-1.spec.underlays.office.vpn", "unknown field", "must be port, address or network"},
		{"peer/edge-1.spec.underlays.wan.type", `invalid value "gre"`, "no type of tunnel is to be named, all are vxlan"},
		{"cluster/lab.spec.tunnel", `invalid value "wireguard"`, "no type of tunnel is to be named, all are vxlan"},
	}
	got := cli(t, env, text, "apply", "-f", "-")
	for _, w := range wants {
		if line := w.path + ": " + w.detail + ": " + w.allowed; !strings.Contains(got.Err, line) {
			t.Errorf("no %q in\n%s", line, got.Err)
		}
	}
	if got.Code != term.ExitRejected || got.Out != "" {
		t.Errorf("exit %d, %q", got.Code, got.Out)
	}

	var docs []string
	for part := range strings.SplitSeq(text, "---\n") {
		doc, faults := config.ReadObjectWithLists([]byte(part))
		if faults != nil {
			t.Fatal(faults)
		}
		docs = append(docs, config.OneLine(doc))
	}
	status, answer := askRoute(t, env, http.MethodPost, fleetapi.Prefix+"documents", `{"documents":[`+
		strings.Join(docs, ",")+`]}`)
	var problem struct {
		Errors []struct{ Path, Detail, Allowed string }
	}
	if err := json.Unmarshal([]byte(answer), &problem); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	for _, w := range wants {
		if !slices.ContainsFunc(problem.Errors, func(e struct{ Path, Detail, Allowed string }) bool {
			return e.Path == w.path && e.Detail == w.detail && e.Allowed == w.allowed
		}) {
			t.Errorf("no %+v in %+v", w, problem.Errors)
		}
	}
	if status != http.StatusUnprocessableEntity {
		t.Errorf("status %d", status)
	}
	if got := cli(t, env, "", "peers", "get", "edge-1"); got.Code != term.ExitNotFound {
		t.Errorf("it was written: %+v", got)
	}
}
