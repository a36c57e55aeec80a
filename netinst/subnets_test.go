package netinst

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
)

func clashing(in Input) Input {
	in.Overlap = overlap.With(in.Config.IPv4.Subnet,
		[]overlap.HostPrefix{{Prefix: prefix("10.1.0.77/24"), Link: "eth0", Address: true}})
	return in
}

// What remains of a withdrawn network matches traffic of its own bridge alone, and its links are exactly unchanged.
func TestAWithdrawnNetworkAffectsNoHost(t *testing.T) {
	in := input(web())
	was, now := DesiredState(in), DesiredState(clashing(in))
	if now.Withdrawn != "subnet 10.1.0.0/24 overlaps 10.1.0.77/24 on eth0" || now.Port != "" {
		t.Errorf("withdrawn %q, port %q", now.Withdrawn, now.Port)
	}
	for id, o := range was.State {
		stays := now.State[id]
		switch o := o.(type) {
		case netstate.Link, netstate.Port:
			if stays == nil || stays.Text() != o.Text() {
				t.Errorf("%s was %q and is %v", id, o.Text(), stays)
			}
		case netstate.Address, netstate.Route, netstate.Rule, netstate.Process:
			if stays != nil {
				t.Errorf("%s is still wanted", id)
			}
		}
	}
	for id, o := range now.State {
		if was.State[id] == nil {
			t.Errorf("%s is new", id)
		}
		for _, n := range o.Needs() {
			if now.State[n] == nil {
				t.Errorf("%s needs %s, which is not wanted", id, n)
			}
		}
		if c, ok := o.(netstate.Chain); ok && !c.Family.Native() {
			for _, h := range c.Hooks {
				if h.Match != "-i es1" && h.Match != "-o es1" {
					t.Errorf("%s judges packets by %q", id, h.Match)
				}
			}
		}
	}
	for _, ids := range now.ByAdapter {
		for _, id := range ids {
			if now.State[id] == nil {
				t.Errorf("%s of the adapter is not wanted", id)
			}
		}
	}
}

// The remaining hooks of a withdrawn network match its bridge alone.
func TestWhichHooksStayOfAWithdrawnNetwork(t *testing.T) {
	nw, _ := newNetwork(input())
	for match, want := range map[string]bool{
		"-i es1": true, "-o es1": true, "-s 10.1.0.0/24 -i es1 -j X": true, "-o es1 -i eth0": true,
		"": false, "es1": false, "-i": false, "-i es11": false, "-d es1": false, "-i eth0": false, "-s 10.1.0.0/24": false,
		"-s es1 -i eth0": false,
		"! -i es1":       false, "-s 10.1.0.0/24 ! -o es1": false, "! -i es1 -o es1": true,
	} {
		if got := nw.ofBridge(match); got != want {
			t.Errorf("%q: %v", match, got)
		}
	}
	in := input(web())
	was, now := DesiredState(in).State, DesiredState(clashing(in)).State
	for id, o := range now {
		c, _ := o.(netstate.Chain)
		want := c.Rules
		switch c.Name {
		case nw.chainName("INP"):
			want = []string{"-j DROP"}
		case nw.chainName("EGR"):
			want = was[id].(netstate.Chain).Rules
		}
		if !slices.Equal(c.Rules, want) {
			t.Errorf("%s: %q, want %q", id, c.Rules, want)
		}
	}
}

// Leaving the subnet waits for no restore, no file and no process; on return, objects are created before others are
// removed, as always.
func TestAWithdrawalLeavesTheSubnetFirst(t *testing.T) {
	in := input(web())
	was, now := DesiredState(in).State, DesiredState(clashing(in)).State
	var ops []string
	for _, op := range netstate.Diff(was, now) {
		ops = append(ops, string(op.Verb)+" "+string(op.Kind))
	}
	want := "remove rule, remove route, remove address, remove sysctl, change file, change chain, remove process"
	if got := strings.Join(slices.Compact(ops), ", "); got != want {
		t.Errorf("away: %s, want %s", got, want)
	}
	ops = nil
	for _, op := range netstate.Diff(now, was) {
		ops = append(ops, string(op.Verb)+" "+string(op.Kind))
	}
	if got := strings.Join(slices.Compact(ops),
		", "); got != "change file, change chain, add sysctl, add address, add route, add rule, add process" {
		t.Errorf("back: %s", got)
	}
}

// Flows that apps opened through a port end; those of the host's neighbours, whose addresses are in the same subnet,
// continue.
func TestWithdrawalEndsTranslatedFlowsOfAppsAlone(t *testing.T) {
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	deny := DeniesFlow(clashing(input(web())))
	for name, c := range map[string]struct {
		f    netstate.Flow
		want bool
	}{
		"an app's, translated": {netstate.Flow{Src: at("10.1.0.128:9"), Dst: at("198.51.100.1:80"),
			ReplySrc: at("198.51.100.1:80"), ReplyDst: at("192.0.2.10:9")}, true},
		"between apps": {netstate.Flow{Src: at("10.1.0.128:9"), Dst: at("10.1.0.129:80"),
			ReplySrc: at("10.1.0.129:80"), ReplyDst: at("10.1.0.128:9")}, false},
		"a neighbour's, to host": {netstate.Flow{Src: at("10.1.0.5:9"), Dst: at("10.1.0.77:22"), ReplySrc: at("10.1.0.77:22"),
			ReplyDst: at("10.1.0.5:9")}, false},
		"a neighbour's, by host": {netstate.Flow{Src: at("10.1.0.5:9"), Dst: at("198.51.100.1:22"),
			ReplySrc: at("198.51.100.1:22"), ReplyDst: at("192.0.2.10:9")}, false},
	} {
		if got := deny(c.f); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
