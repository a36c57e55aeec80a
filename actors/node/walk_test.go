package node

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	core "edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// linked is a steward that receives nothing from a life without power.
type linked struct {
	*steward
	*life
}

func (l linked) Send(m nodeproto.FromNode) error {
	if !l.alive() {
		return errNoPower
	}
	return l.steward.Send(m)
}

// tour is a node that goes through phases: a cluster is deployed on it, edited and removed.
type tour struct {
	*rig
	mains   *mains
	steward *steward
	attempt uint64
	has     []peer.Leftover // from the pushes so far
	desired struct {
		generation core.Generation
		document   core.Object
		peer       peer.Configuration
	}
}

// phase is one push of a tour.
type phase struct {
	name, document string
	leader         string // of the cluster; "" for no cluster
	dut            string // the node's interface in it
	daemon         string // argument of an executor
	extra          bool   // one more executor
}

var phases = []phase{
	{name: "before", document: doc(0, 0)},
	{name: "network", document: doc(1, 1)}, // apart, so that each network gets the number that it has in each tour
	{name: "deploy", document: doc(1, 1) + guest, leader: "a", dut: "one", daemon: "x", extra: true},
	{name: "edit", document: doc(1, 1) + guest, leader: "b", dut: "two", daemon: "y"},
	{name: "undeploy", document: doc(0, 0)},
}

// guest is an app on the cluster's network.
var guest = fmt.Sprintf("  %s: {displayName: app2, activate: true, adapters: {0: {networkInstance: %s, attach: "+
	"{kind: veth, netns: ns2}}}}\n",
	appID(2), peer.NetworkOf(labID, tourNodes()["a"].ID))

var labID = uuid.MustParse("7f000000-0000-4000-8000-000000000900")

// tourNodes returns the members of a tour's cluster; the node under test is a.
func tourNodes() map[string]peer.Node {
	nodes := map[string]peer.Node{}
	for i, name := range []string{"a", "b", "c"} {
		nodes[name] = peer.Node{
			ID: uuid.MustParse(fmt.Sprintf("7f000000-0000-4000-8000-%012d", i+1)),
			Ports: map[string]peer.Port{"wan": {Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 2)})},
				MTU: 1500}},
		}
	}
	return nodes
}

// configuration returns the PeerConfiguration of a phase, derived as a controller does.
func (w *tour) configuration(p phase, document core.Object) peer.Configuration {
	w.Helper()
	peers, clusters := map[string]peer.Peer{}, map[string]peer.Cluster{}
	for name := range tourNodes() {
		peers[name] = peer.Peer{
			Name: name, Underlays: map[string]peer.Underlay{"wan": {Port: "wan"}},
			Interfaces: map[string]peer.Interface{"one": {IfName: "dut1", Kind: peer.InterfaceEthernet},
				"two": {IfName: "dut2", Kind: peer.InterfaceEthernet}},
		}
	}
	if p.leader != "" {
		a := peers["a"]
		a.Executors = map[string]peer.Executor{"daemon": {Command: []string{"/bin/daemon", p.daemon}},
			"once": {Command: []string{"/bin/once"}, Restart: peer.RestartNever}}
		if p.extra {
			a.Executors["extra"] = peer.Executor{Unit: "extra.service"}
		}
		peers["a"] = a
		clusters["lab"] = peer.Cluster{
			Name: "lab", ID: labID, Leader: p.leader, Topology: peer.Star,
			Members: map[string]peer.MemberDescriptor{"a": {Interfaces: []string{p.dut}, Underlay: "wan"},
				"b": {Underlay: "wan"},
				"c": {Underlay: "wan"}},
		}
	}
	f := peer.NewFleet(peers, clusters, nil)
	if p.leader != "" {
		d, faults := f.Deploy("lab")
		if faults != nil {
			w.Fatal(faults)
		}
		f = peer.NewFleet(peers, clusters, map[string]peer.Deployment{"lab": d})
	}
	declared, err := stateloop.DeclaredParameters(document)
	if err != nil {
		w.Fatal(err)
	}
	return peer.Derive(peer.Input{Name: "a", Nodes: tourNodes(), Fleet: f, Declared: declared, Gone: w.has})
}

// want makes a phase the desired config of the node.
func (w *tour) want(p phase) {
	w.Helper()
	o, faults := core.ReadObject([]byte(p.document))
	if faults != nil {
		w.Fatal(faults)
	}
	w.desired.generation = core.Generation{Authority: "c", Counter: w.desired.generation.Counter + 1}
	w.desired.document, w.desired.peer = o, w.configuration(p, o)
	w.has = nil
	for _, q := range w.desired.peer.Parameters {
		if q.Target == stateloop.ToBePresent {
			w.has = append(w.has, peer.Leftover{ID: q.ID, Kind: q.Kind, Needs: q.Dependencies})
		}
	}
}

// live begins a life of the node, with its stream to the controller.
func (w *tour) live() {
	w.Helper()
	w.start()
	w.steward = &steward{r: w.rig}
	w.node.Agent().Up(linked{w.steward, w.mains.last})
	w.settle(0)
}

func (w *tour) push() {
	w.Helper()
	w.attempt++
	w.node.Agent().Received(nodeproto.Push{
		Attempt: w.attempt, Generation: w.desired.generation, MD5: core.MD5(w.desired.document),
		Document:          core.AppendCanonical(nil, w.desired.document),
		PeerConfiguration: []byte(encoded(w, w.desired.peer.Parameters...)), Managed: true,
	})
}

// converge pushes the desired config until the node runs it, as a controller does, and begins a new life after each
// power failure.
func (w *tour) converge() {
	w.Helper()
	w.push()
	for range 8 {
		w.settle(15 * time.Second)
		if !w.mains.last.alive() {
			w.stop()
			w.live()
			continue
		}
		r := w.steward.report()
		switch {
		case r.Generation != w.desired.generation && r.Pending == nil:
			w.push()
		case r.Generation == w.desired.generation && r.Pending == nil && w.final() == "":
			return
		}
	}
	w.Errorf("it does not converge: %s, wanted generation %v: %+v", w.final(), w.desired.generation, w.steward.report())
}

// final describes the parameters that are not in their final state, or returns "".
func (w *tour) final() string {
	r := w.steward.report()
	var wrong []string
	for _, p := range w.desired.peer.Parameters {
		want := fmt.Sprintf("g%d Present", w.desired.generation.Counter)
		if p.Target == stateloop.ToBeAbsent {
			want = fmt.Sprintf("g%d Absent", w.desired.generation.Counter)
		}
		if got := reported(r, p.ID); got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", p.ID, got, want))
		}
	}
	return strings.Join(wrong, "; ")
}

// leg is the result of a phase of a tour.
type leg struct {
	steps, did []string
	host       string
	cuts       int
}

// cut is a power failure of a tour: at a step of a phase, or right after it.
type cut struct {
	phase string
	at    int
	after bool
	more  int // steps to a second one, 0 for none
}

// until returns the phases of a tour about one phase: those before it, and the end.
func until(name string) (out []phase) {
	for _, p := range phases {
		if out = append(out, p); p.name == name {
			break
		}
	}
	if end := phases[len(phases)-1]; name != end.name {
		out = append(out, end)
	}
	return out
}

// run takes a node through the phases of a tour, with its power failure if it has one.
func run(t *testing.T, c cut) (legs map[string]leg) {
	legs = map[string]leg{}
	onHost(t, func(r *rig) {
		w := &tour{rig: r, mains: &mains{}}
		w.mains.plug(r)
		r.netns("ns1", "ns2")
		r.host.SetLink("dut1", true)
		r.host.SetLink("dut2", true)
		w.live()
		for _, p := range until(c.phase) {
			w.want(p)
			if w.mains.arm(0, false, 0); p.name == c.phase {
				w.mains.arm(c.at, c.after, c.more)
			}
			w.converge()
			if p.name == c.phase {
				w.settle(65 * time.Second) // everything is observed once more
			}
			legs[p.name] = leg{w.mains.steps, w.mains.did(), r.snapshot(), w.mains.cuts}
			if t.Failed() {
				return
			}
		}
	})
	return legs
}

// The power fails before and after each step of a rollout, while a cluster is deployed, edited and removed. The node
// reaches the same state as without a failure, reports each parameter, and repeats no change of the host.
func TestAPowerCutAtEveryStepOfARolloutRepeatsNothing(t *testing.T) {
	every := 1
	if testing.Short() {
		every = 7
	}
	tours, cuts := 0, 0
	for _, p := range phases[1:] {
		clean := run(t, cut{phase: p.name})
		last := clean[phases[len(phases)-1].name]
		if clean["before"].host != last.host {
			t.Errorf("at the end the host is not as before:\n%s", cmp.Diff(clean["before"].host, last.host))
		}
		n := len(clean[p.name].steps)
		t.Logf("%s: %d steps, of which %d things come and go", p.name, n, len(clean[p.name].did))
		for i := every; i <= 2*n; i += every {
			c := cut{phase: p.name, at: (i + 1) / 2, after: i%2 == 0}
			tours++
			t.Run(fmt.Sprintf("%s/%d/%v", c.phase, c.at, map[bool]string{false: "before", true: "after"}[c.after]),
				func(t *testing.T) {
					legs := run(t, c)
					c.compare(t, clean, legs)
					cuts += legs[c.phase].cuts
				})
		}
	}
	// A tour may have one step less than the clean one: concurrent changes of one chain are merged.
	if t.Logf("%d power cuts", cuts); cuts < tours*9/10 {
		t.Errorf("in %d tours the power went %d times", tours, cuts)
	}
}

// compare compares a tour with a power failure with the one without.
func (c cut) compare(t *testing.T, clean, got map[string]leg) {
	for _, p := range phases {
		g, went := got[p.name]
		if !went {
			continue
		}
		w := clean[p.name]
		if did := again(g.did); len(did) > 0 {
			t.Errorf("%s: done though it was so: %q", p.name, did)
		}
		if p.name == c.phase {
			t.Logf("at %s", g.steps[min(c.at, len(g.steps))-1])
		}
		if more, less := added(g.did, w.did), added(w.did, g.did); len(more)+len(less) > 0 && c.more == 0 {
			t.Errorf("%s: done beside what has to be done: %q, not done: %q", p.name, more, less)
		}
		if g.host != w.host {
			t.Errorf("%s: the host is another (-want +got):\n%s", p.name, cmp.Diff(w.host, g.host))
		}
	}
}

// A second power failure in one rollout may make the node undo an unconfirmed config (config/nodeconf/commitconfirm).
// The steward then pushes the config again. The final state is the same, and no change is repeated.
func TestASecondPowerCutInARolloutConvergesToo(t *testing.T) {
	tours := 10 // of each phase
	if testing.Short() {
		tours = 2
	}
	rng, cuts := rand.New(rand.NewPCG(1, 7)), 0
	for _, p := range phases[1:] {
		clean := run(t, cut{phase: p.name})
		for range tours {
			c := cut{phase: p.name, at: 1 + rng.IntN(len(clean[p.name].steps)), after: rng.IntN(2) == 0, more: 1 + rng.IntN(20)}
			t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
				legs := run(t, c)
				c.compare(t, clean, legs)
				cuts += legs[c.phase].cuts
			})
		}
	}
	if n := tours * len(phases[1:]); cuts < n*5/4 {
		t.Errorf("in %d tours the power went %d times", n, cuts)
	}
	t.Logf("%d power cuts", cuts)
}
