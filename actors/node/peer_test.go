package node

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	core "edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// clusterOf returns the parameters of a cluster's network on the node: one interface, one tunnel.
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

// pushBoth sends a document and its PeerConfiguration as a controller does.
func (r *rig) pushBoth(attempt uint64, text, peers string) {
	r.Helper()
	o, faults := core.ReadObject([]byte(text))
	if faults != nil {
		r.Fatal(faults)
	}
	r.node.Agent().Received(nodeproto.Push{
		Attempt: attempt, Generation: core.Generation{Authority: "c", Counter: attempt}, MD5: core.MD5(o),
		Document:          core.AppendCanonical(nil, o),
		PeerConfiguration: []byte(peers), Managed: true,
	})
	r.settle(0)
}

func (r *rig) networks() []string {
	return slices.Sorted(maps.Keys(r.node.Topics().NetworkConfig.List("")))
}

// One push publishes, confirms and undoes both, and a restart from disk restores both.
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

// runs returns an executor with a command.
func runs(name string, command ...string) peer.DeclaredParameter {
	return peer.DeclaredParameter{
		ID: peer.ExecutorID(name), Kind: peer.KindExecutor, Target: stateloop.ToBePresent,
		Executor: &peer.ExecutorValue{Command: command},
	}
}

func absentOf(p peer.DeclaredParameter) peer.DeclaredParameter {
	return peer.DeclaredParameter{ID: p.ID, Kind: p.Kind, Target: stateloop.ToBeAbsent}
}

// reported returns one parameter of the last report, as "g2 Present: why x1".
func reported(r nodeproto.Report, id string) string {
	for _, p := range r.Parameters {
		if p.ID != id {
			continue
		}
		out := fmt.Sprintf("g%d %s", p.Generation.Counter, p.State)
		if p.Detail != "" {
			out += ": " + p.Detail
		}
		if p.Attempts > 0 {
			out += fmt.Sprintf(" x%d", p.Attempts)
		}
		return out
	}
	return "none"
}

func TestExecutorsAreStartedKeptAndStoppedAsDesired(t *testing.T) {
	onRig(t, func(r *rig) {
		s := &steward{r: r}
		r.node.Agent().Up(s)
		a, b := runs("a", "/bin/a"), runs("b", "/bin/b", "x")
		expect := func(when string, want map[string]string, starts ...int) {
			t.Helper()
			r.settle(7 * time.Second)
			for id, w := range want {
				if got := reported(s.report(), id); got != w {
					t.Errorf("%s: %s is reported as %q, want %q", when, id, got, w)
				}
			}
			if got := []int{r.execs.Starts(a.ID), r.execs.Starts(b.ID)}; !slices.Equal(got, starts) {
				t.Errorf("%s: starts %v, want %v", when, got, starts)
			}
		}
		r.pushBoth(1, doc(0, 0), encoded(t, a, b))
		expect("pushed", map[string]string{a.ID: "g1 Present", b.ID: "g1 Present"}, 1, 1)
		r.pushBoth(2, doc(1, 0), encoded(t, a, b))
		expect("another document", map[string]string{a.ID: "g2 Present", b.ID: "g2 Present"}, 1, 1)
		c := runs("b", "/bin/b", "y")
		r.pushBoth(3, doc(1, 0), encoded(t, a, c))
		expect("another command", map[string]string{a.ID: "g3 Present", b.ID: "g3 Present"}, 1, 2)
		r.pushBoth(4, doc(1, 0), encoded(t, a, b))
		expect("and back", map[string]string{b.ID: "g4 Present"}, 1, 3)
		r.stop()
		r.start()
		s = &steward{r: r}
		r.node.Agent().Up(s)
		expect("a killed daemon starts nothing twice", map[string]string{a.ID: "g4 Present", b.ID: "g4 Present"}, 1, 3)
		r.settle(time.Hour)
		r.execs.Kill(a.ID)
		expect("one that ended is started again", map[string]string{a.ID: "g4 Present"}, 2, 3)
		r.pushBoth(5, doc(1, 0), encoded(t, absentOf(a), b))
		expect("one is to be absent", map[string]string{a.ID: "g5 Absent", b.ID: "g5 Present"}, 2, 3)
		r.pushBoth(6, doc(1, 0), "")
		expect("undeployed", map[string]string{a.ID: "none", b.ID: "none"}, 2, 3)
		if ids, _ := r.execs.List(t.Context()); len(ids) > 0 || r.execs.Stops(b.ID) != 1 {
			t.Errorf("undeployed %v run, stops of b: %d", ids, r.execs.Stops(b.ID))
		}
	})
}

func TestAnExecutorThatCrashesAgainAndAgainIsNotPresent(t *testing.T) {
	onRig(t, func(r *rig) {
		s := &steward{r: r}
		r.node.Agent().Up(s)
		a, b := runs("a", "/bin/a"), runs("b", "/bin/b")
		r.execs.Break(b.ID, errors.New("no such file"))
		r.pushBoth(1, doc(0, 0), encoded(t, a, b))
		r.settle(10 * time.Second)
		present := 0
		for range 20 {
			r.execs.Kill(a.ID)
			r.settle(9 * time.Second)
			if strings.Contains(reported(s.report(), a.ID), "Present") {
				present++
			}
		}
		if got := reported(s.report(), a.ID); present > 0 ||
			!strings.HasPrefix(got, "g1 CreatingFailed: exited with unknown status") {
			t.Errorf("one that crashes each 9 s was Present %d times, and is %q", present, got)
		}
		if n := r.execs.Starts(a.ID); n > 12 {
			t.Errorf("it was started %d times in 3 minutes: there is no back-off", n)
		}
		for _, p := range s.report().Parameters {
			if p.ID == b.ID && (p.State != "CreatingFailed" || p.Detail != "no such file" || p.Attempts < 5 ||
				!p.NextTry.After(time.Now().Add(-time.Second)) || p.Since.IsZero()) {
				t.Errorf("one that can't be started is %+v", p)
			}
		}
		r.execs.Break(b.ID, nil)
		r.execs.Panic(a.ID)
		r.settle(3 * time.Minute)
		for _, id := range []string{a.ID, b.ID} {
			if got := reported(s.report(), id); got != "g1 Present" {
				t.Errorf("in a kind world %s is %q", id, got)
			}
		}
	})
}

func TestAHangingStartIsAbandonedAndDelaysNoOther(t *testing.T) {
	onRig(t, func(r *rig) {
		s := &steward{r: r}
		r.node.Agent().Up(s)
		a, b := runs("a", "/bin/a"), runs("b", "/bin/b")
		r.execs.Hang(a.ID, true)
		r.pushBoth(1, doc(0, 0), encoded(t, a, b))
		r.settle(5 * time.Second)
		if x, y := reported(s.report(), a.ID), reported(s.report(), b.ID); x != "g1 Creating" || y != "g1 Present" {
			t.Errorf("while it hangs it is %q, the other %q", x, y)
		}
		r.settle(27 * time.Second)
		if got := reported(s.report(), a.ID); got != "g1 CreatingFailed: given up after 30s: context deadline exceeded x1" {
			t.Errorf("it is %q", got)
		}
		r.execs.Hang(a.ID, false)
		r.settle(2 * time.Minute)
		if got := reported(s.report(), a.ID); got != "g1 Present" || r.execs.Starts(a.ID) != 1 {
			t.Errorf("in a kind world it is %q, after %d starts", got, r.execs.Starts(a.ID))
		}
	})
}

func TestAConnectionIsCheckedAndHoldsUpNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		s := &steward{r: r}
		r.node.Agent().Up(s)
		far := netip.MustParseAddr("198.51.100.9")
		check := func(name string, local, remote netip.Addr) peer.DeclaredParameter {
			return peer.DeclaredParameter{
				ID: "check/" + niID(7) + "/" + name, Kind: peer.KindCheck, Target: stateloop.ToBePresent,
				Check: &peer.CheckValue{Network: uuid.MustParse(niID(7)), Peer: name, Local: local, Remote: remote},
			}
		}
		local := netip.MustParseAddr("192.0.2.2")
		near, deaf, unknown := check("near", local, netip.MustParseAddr("198.51.100.8")), check("deaf", local, far),
			check("unknown", local, netip.Addr{})
		r.execs.SetDeaf(far, true)
		r.pushBoth(1, doc(1, 0), encoded(t, near, deaf, unknown))
		r.settle(20 * time.Second)
		if got := s.outcomes(); !slices.Equal(got, []string{"accepted", "applied"}) || s.report().Pending != nil {
			t.Errorf("with a peer that is away the push came to %q", got)
		}
		for id, want := range map[string]string{
			near.ID: "g1 Present",
			deaf.ID: "g1 CheckPresentFailed: deaf does not answer: 3 of the last 3 echo requests were lost: no " +
				"answer\ncontext deadline exceeded",
			unknown.ID: "g1 WaitingForDependencies: the underlay's address of unknown is not known",
		} {
			if got := reported(s.report(), id); got != want {
				t.Errorf("%s is %q, want %q", id, got, want)
			}
		}
		r.execs.SetDeaf(far, false)
		r.execs.SetDeaf(near.Check.Remote, true)
		r.settle(18 * time.Second) // one or two of the last three
		if got := reported(s.report(), deaf.ID); got != "g1 Present" {
			t.Errorf("one that answers again is %q", got)
		}
		if got := reported(s.report(), near.ID); got != "g1 Present" {
			t.Errorf("one that answered of late is %q", got)
		}
		r.settle(30 * time.Second)
		if got := reported(s.report(), near.ID); !strings.HasPrefix(got,
			"g1 CheckPresentFailed: near does not answer: 3 of the last 3") {
			t.Errorf("one that answers no more is %q", got)
		}
	})
}

// Each part of a cluster's network is a separate parameter, derived from the bridge manager's status. A part that is
// to be absent becomes Absent once it is removed, and not while its removal fails.
func TestThePartsOfAClustersNetworkAreReported(t *testing.T) {
	onRig(t, func(r *rig) {
		s := &steward{r: r}
		r.node.Agent().Up(s)
		network := uuid.MustParse(niID(7))
		ps := clusterOf(network, "dut0")
		far, own := ps[1].ID, ps[0].ID
		expect := func(when string, want map[string]string) {
			t.Helper()
			r.settle(10 * time.Second)
			for id, w := range want {
				if got := reported(s.report(), id); got != w {
					t.Errorf("%s: %s is %q, want %q", when, id, got, w)
				}
			}
		}
		r.pushBoth(1, doc(0, 0), encoded(t, ps...))
		expect("without addresses", map[string]string{
			own: "g1 WaitingForDependencies: interface dut0 does not exist",
			far: "g1 WaitingForDependencies: this node's own address in the underlay is not known yet, and " +
				"the address of far is not known yet",
			peer.BridgeID(network): "g1 Present", stateloop.NetworkID(niID(7)): "g1 Present",
			peer.JoinedID(network, own): "g1 WaitingForDependencies: interface dut0 does not exist",
		})
		if rep := s.report(); len(rep.Parameters) != len(ps) || rep.Parameters[0].Since.IsZero() {
			t.Errorf("reported are %+v", rep.Parameters)
		}
		if ports := s.report().Ports; len(ports) != 1 || ports[0].Label != "wan" || ports[0].MTU != 1500 ||
			!slices.Equal(ports[0].Addresses, []string{"192.0.2.2"}) {
			t.Errorf("its ports are %+v", ports)
		}
		r.host.SetLink("dut0", true)
		tunnel := *ps[1].Tunnel
		tunnel.Local, tunnel.Remote = netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.8")
		ps[1].Tunnel = &tunnel
		r.pushBoth(2, doc(0, 0), encoded(t, ps...))
		all := map[string]string{}
		for _, p := range ps {
			all[p.ID] = "g2 Present"
		}
		expect("with addresses", all)
		var less []peer.DeclaredParameter
		for _, p := range ps {
			if p.ID == far || p.ID == peer.JoinedID(network, far) {
				p = absentOf(p)
			}
			less = append(less, p)
		}
		r.host.SetFault(func(_ netstate.Owner, op netstate.Op) *fake.OpFault {
			if strings.Contains(op.String(), "v256") {
				return &fake.OpFault{Err: errors.New("it is stuck")}
			}
			return nil
		})
		r.pushBoth(3, doc(0, 0), encoded(t, less...))
		expect("a removal fails", map[string]string{far: "g3 RemovingFailed: it is stuck",
			own: "g3 Present", peer.BridgeID(network): "g3 Present"})
		r.host.SetFault(nil)
		r.settle(2 * time.Minute)
		expect("it succeeds",
			map[string]string{far: "g3 Absent", peer.JoinedID(network, far): "g3 Absent", own: "g3 Present"})
		for i := range ps {
			ps[i] = absentOf(ps[i])
			all[ps[i].ID] = "g4 Absent"
		}
		r.pushBoth(4, doc(0, 0), encoded(t, ps...))
		expect("undeployed", all)
	})
}
