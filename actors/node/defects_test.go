package node

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
	"edgespan/netinst/netstate"
)

// The numbers are those of the original's defects that could occur on a node.

// deployed runs f on a rig whose node has a cluster with everything that it needs, and a steward.
func deployed(t *testing.T, f func(r *rig, s *steward, network uuid.UUID, ps []peer.DeclaredParameter)) {
	t.Helper()
	onRig(t, func(r *rig) {
		s := &steward{r: r}
		r.node.Agent().Up(s)
		network := uuid.MustParse(niID(7))
		ps := clusterOf(network, "dut0")
		ps[1].Tunnel.Local, ps[1].Tunnel.Remote = netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.8")
		r.host.SetLink("dut0", true)
		f(r, s, network, ps)
	})
}

func ids(ps []nodeproto.ParameterReport) []string {
	var out []string
	for _, p := range ps {
		out = append(out, p.ID)
	}
	return out
}

func TestDefect_03_ParametersOfTwoKindsWithOneNameAreTwo(t *testing.T) {
	deployed(t, func(r *rig, s *steward, _ uuid.UUID, ps []peer.DeclaredParameter) {
		ps = append(ps, runs("dut0", "/bin/a"))
		r.pushBoth(1, doc(0, 0), encoded(t, ps...))
		r.settle(10 * time.Second)
		got := ids(s.report().Parameters)
		if len(got) != len(ps) || !slices.Contains(got, "interface/dut0") || !slices.Contains(got, "executor/dut0") {
			t.Errorf("reported are %q", got)
		}
	})
}

func TestDefect_05_WhatNeedsAnotherIsRemovedBeforeIt(t *testing.T) {
	deployed(t, func(r *rig, s *steward, network uuid.UUID, ps []peer.DeclaredParameter) {
		r.pushBoth(1, doc(0, 0), encoded(t, ps...))
		r.settle(10 * time.Second)
		if got := reported(s.report(), peer.BridgeID(network)); got != "g1 Present" {
			t.Fatalf("the bridge is %q", got)
		}
		r.host.Done()
		r.pushBoth(2, doc(0, 0), "")
		r.settle(10 * time.Second)
		done := r.host.Done()
		at := func(op string) int {
			return slices.IndexFunc(done, func(d string) bool { return strings.Contains(d, op) })
		}
		member, tunnel, bridge := at("remove port dut0"), at("remove port es1v256"), at("remove link es1")
		if member < 0 || tunnel < 0 || bridge < max(member, tunnel) {
			t.Errorf("the ops come as %q", done)
		}
	})
}

func TestDefect_06_TheOrderIsThatOfTheGraphAndACycleIsAFault(t *testing.T) {
	var first []string
	for seed := range uint64(4) {
		deployed(t, func(r *rig, s *steward, _ uuid.UUID, ps []peer.DeclaredParameter) {
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
			r.pushBoth(1, doc(0, 0), encoded(t, ps...))
			r.settle(10 * time.Second)
			done := r.host.Done()
			if first == nil {
				first = done
			}
			if len(done) == 0 || !slices.Equal(done, first) {
				t.Errorf("in another order of the parameters the host is changed by\n%q\nfirst by\n%q", done, first)
			}
			a, b := runs("a", "/bin/a"), runs("b", "/bin/b")
			a.Dependencies, b.Dependencies = []string{b.ID}, []string{a.ID}
			r.pushBoth(2, doc(0, 0), encoded(t, append(ps, a, b)...))
			if got := s.outcomes(); got[len(got)-1] != "rejected" {
				t.Errorf("a cycle came to %q", got)
			}
		})
	}
}

func TestDefect_10_ExecutorsAndChecksAreWhatTheyAreAndNothingElseRestartsThem(t *testing.T) {
	deployed(t, func(r *rig, s *steward, network uuid.UUID, ps []peer.DeclaredParameter) {
		good, bad := runs("good", "/bin/good"), runs("bad", "/bin/bad")
		check := peer.DeclaredParameter{
			ID: peer.CheckID(network, uuid.Nil), Kind: peer.KindCheck, Target: stateloop.ToBePresent,
			Check: &peer.CheckValue{Network: network, Peer: "far", Local: netip.MustParseAddr("192.0.2.2"),
				Remote: netip.MustParseAddr("198.51.100.8")},
		}
		r.execs.Break(bad.ID, errors.New("no such file"))
		r.execs.SetDeaf(check.Check.Remote, true)
		r.pushBoth(1, doc(0, 0), encoded(t, append(slices.Clone(ps), good, bad, check)...))
		r.settle(10 * time.Second)
		for id, want := range map[string]string{good.ID: "g1 Present", bad.ID: "g1 CreatingFailed: no such file",
			check.ID: "g1 CheckPresentFailed"} {
			if got := reported(s.report(), id); !strings.HasPrefix(got, want) {
				t.Errorf("%s is %q, want %q", id, got, want)
			}
		}
		for n := range uint64(5) { // another peer comes, and the tunnel to it has another address
			ps[1].Tunnel.Remote = ps[1].Tunnel.Remote.Next()
			r.pushBoth(2+n, doc(0, 0), encoded(t, append(slices.Clone(ps), good, bad, check)...))
			r.node.Agent().Down(nil)
			r.node.Agent().Up(s)
			r.settle(10 * time.Second)
		}
		if n := r.execs.Starts(good.ID); n != 1 {
			t.Errorf("it was started %d times", n)
		}
	})
}

func TestDefect_11_EachParameterIsReportedOnceAndAnAbsentOneTouchesNoOther(t *testing.T) {
	deployed(t, func(r *rig, s *steward, network uuid.UUID, ps []peer.DeclaredParameter) {
		check := func(n int) peer.DeclaredParameter {
			return peer.DeclaredParameter{
				ID: peer.CheckID(network, uuid.MustParse(niID(n))), Kind: peer.KindCheck, Target: stateloop.ToBePresent,
				Check: &peer.CheckValue{Network: network, Peer: "far", Local: netip.MustParseAddr("192.0.2.2"),
					Remote: netip.MustParseAddr("198.51.100.8")},
			}
		}
		a, b := check(1), check(2)
		r.pushBoth(1, doc(0, 0), encoded(t, append(slices.Clone(ps), a, b)...))
		r.settle(10 * time.Second)
		r.pushBoth(2, doc(0, 0), encoded(t, append(slices.Clone(ps), absentOf(a), b)...))
		r.settle(10 * time.Second)
		got := ids(s.report().Parameters)
		if !slices.Equal(got, slices.Compact(slices.Clone(got))) || len(got) != len(ps)+2 {
			t.Errorf("reported are %q", got)
		}
		if x, y := reported(s.report(), a.ID), reported(s.report(), b.ID); x != "g2 Absent" || y != "g2 Present" {
			t.Errorf("the absent one is %q, the other %q", x, y)
		}
	})
}

func TestDefect_13_AnInterfaceThatIsNotThereYetIsTakenUpWhenItComes(t *testing.T) {
	deployed(t, func(r *rig, s *steward, network uuid.UUID, ps []peer.DeclaredParameter) {
		r.host.SetLink("dut0", false)
		r.pushBoth(1, doc(0, 0), encoded(t, ps...))
		r.settle(10 * time.Second)
		id := peer.JoinedID(network, "interface/dut0")
		if got := reported(s.report(), id); !strings.HasPrefix(got, "g1 WaitingForDependencies: ") {
			t.Errorf("without its interface it is %q", got)
		}
		if got := reported(s.report(), ps[1].ID); got != "g1 Present" {
			t.Errorf("the tunnel beside it is %q", got)
		}
		r.host.SetLink("dut0", true)
		r.settle(10 * time.Second)
		if got := reported(s.report(), id); got != "g1 Present" {
			t.Errorf("with its interface it is %q", got)
		}
	})
}

func TestDefect_14_ATunnelIsComparedWholeAndRepairedWhereItDiffers(t *testing.T) {
	deployed(t, func(r *rig, s *steward, _ uuid.UUID, ps []peer.DeclaredParameter) {
		r.pushBoth(1, doc(0, 0), encoded(t, ps...))
		r.settle(10 * time.Second)
		n, _ := r.node.Topics().Numbers.Get("", niID(7))
		for id := range r.host.State(n) {
			if id.Kind == netstate.KindLink && strings.HasSuffix(id.Name, "v256") {
				r.host.Done()
				r.host.Break(n, id)
			}
		}
		r.settle(2 * time.Minute)
		if done := strings.Join(r.host.Done(), "\n"); !strings.Contains(done, "v256") {
			t.Errorf("a tunnel of the same name that differs is left; done was\n%s", done)
		}
		if got := reported(s.report(), ps[1].ID); got != "g1 Present" {
			t.Errorf("it is %q", got)
		}
	})
}

func TestDefect_17_AFailedRestartIsTriedAgainAndNoPushMakesASecondOne(t *testing.T) {
	deployed(t, func(r *rig, s *steward, _ uuid.UUID, _ []peer.DeclaredParameter) {
		a := runs("a", "/bin/a")
		r.pushBoth(1, doc(0, 0), encoded(t, a))
		r.settle(10 * time.Second)
		r.execs.Break(a.ID, errors.New("text file busy"))
		r.execs.Kill(a.ID)
		r.settle(500 * time.Millisecond)
		r.pushBoth(2, doc(1, 0), encoded(t, a)) // while it waits
		r.settle(20 * time.Second)
		if got := reported(s.report(), a.ID); !strings.HasPrefix(got, "g2 CreatingFailed: text file busy x") ||
			r.execs.Starts(a.ID) != 1 {
			t.Errorf("it is %q after %d starts", got, r.execs.Starts(a.ID))
		}
		r.execs.Break(a.ID, nil)
		r.settle(3 * time.Minute)
		if got := reported(s.report(), a.ID); got != "g2 Present" || r.execs.Starts(a.ID) != 2 {
			t.Errorf("it is %q after %d starts", got, r.execs.Starts(a.ID))
		}
	})
}

func TestDefect_20_OnlyTheNewestStreamGetsReports(t *testing.T) {
	deployed(t, func(r *rig, s *steward, _ uuid.UUID, ps []peer.DeclaredParameter) {
		r.pushBoth(1, doc(0, 0), encoded(t, ps...))
		r.settle(10 * time.Second)
		newest := &steward{r: r}
		r.node.Agent().Up(newest)
		r.settle(0)
		before := len(s.said)
		r.host.SetLink("dut0", false)
		r.settle(90 * time.Second)
		if len(s.said) != before {
			t.Errorf("the stream before was told %d more times", len(s.said)-before)
		}
		if got := reported(newest.report(), ps[0].ID); strings.HasSuffix(got, "Present") {
			t.Errorf("the newest one hears that the interface is %q", got)
		}
	})
}
