package manager

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// partsHost models one host: its objects, and the faults that ops on them meet now.
type partsHost struct {
	have  netstate.State
	fault map[string]bool // by name of a link or port
	waits map[string]bool
}

// apply executes a plan as the applier does and returns its failures.
func (h *partsHost) apply(want netstate.State) []netstate.OpFailure {
	r := netstate.NewRun(netstate.Diff(h.have, want))
	for op, ok := r.Next(); ok; op, ok = r.Next() {
		var err error
		for _, it := range op.Items {
			switch name := it.ID().Name; {
			case h.fault[name]:
				err = fmt.Errorf("%s is broken", name)
			case h.waits[name] && it.Want != nil:
				err = fmt.Errorf("%s is not there: %w", name, netstate.ErrWaiting)
			}
		}
		if r.Done(op, err); err != nil {
			continue
		}
		for _, it := range op.Items {
			if delete(h.have, it.ID()); it.Want != nil {
				h.have[it.ID()] = it.Want
			}
			if it.Want == nil && it.ID().Kind == netstate.KindLink {
				delete(h.have, netstate.ID{Kind: netstate.KindPort, Name: it.ID().Name})
			}
		}
	}
	return r.Failures()
}

// Whatever configs arrive and whatever fails: each status has every desired part, once, and every part that is on the
// host. A part is Present only if it is on the host as desired. Once nothing fails any more, all desired parts exist
// and no others.
func TestPropertyOfParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New(netstate.Owner{Name: testNetwork(1).UUID.String(), Number: 3}, "/run", 7, nil)
		h := &partsHost{have: netstate.State{}}
		var status netinst.NetworkInstanceStatus
		var pending *Apply
		step := func(e Event) {
			for _, eff := range m.Step(e) {
				switch eff := eff.(type) {
				case PublishNetwork:
					status = eff.Status
				case Apply:
					pending = &eff
				}
			}
		}
		run := func() {
			for range 5 {
				if pending == nil {
					return
				}
				a, had := *pending, netstate.State{}
				for id, o := range h.have {
					had[id] = o
				}
				pending = nil
				fs := h.apply(a.Want)
				step(Applied{Seq: a.Seq, Failures: fs, Before: had})
			}
		}
		var c netinst.NetworkInstanceConfig
		for _, e := range []Event{ApplierReady{}, PortsChanged{}, AdaptersKnown{}, Synchronized{}} {
			step(e)
		}
		names := []string{"es3v256", "es3v257", "es3v258", "can0", "can1"}
		for round := range rapid.IntRange(1, 8).Draw(t, "rounds") {
			c = drawCluster(t, uint64(round+1))
			h.fault, h.waits = map[string]bool{}, map[string]bool{}
			for _, n := range names {
				h.fault[n], h.waits[n] = rapid.IntRange(0, 5).Draw(t, "fault of "+n) == 0,
					rapid.IntRange(0, 5).Draw(t, "wait of "+n) == 0
			}
			step(ConfigChanged{Config: c})
			run()
			checkParts(t, h, c, status)
		}
		h.fault, h.waits = nil, nil
		step(HostTouched{})
		run()
		checkParts(t, h, c, status)
		for _, p := range status.Parts {
			if waits := p.Kind == netinst.PartTunnel && !remoteOf(c, p.Name).IsValid(); p.State != netinst.Present && !waits {
				t.Fatalf("%s %s is %s: %s", p.Kind, p.Name, p.State, p.Error)
			}
		}
		if status.State != netinst.Present {
			t.Fatalf("the network is %s: %s", status.State, status.Error)
		}
	})
}

func drawCluster(t *rapid.T, gen uint64) netinst.NetworkInstanceConfig {
	c := clusterConfig(gen, func(c *netinst.NetworkInstanceConfig) { c.Tunnels, c.Members = nil, nil })
	for i, name := range []string{"alpha", "beta", "gamma"} {
		if rapid.Bool().Draw(t, name) {
			remote := rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("192.0.2.2"),
				netip.MustParseAddr("192.0.2.3")}).Draw(t, "remote of "+name)
			c.Tunnels = append(c.Tunnels,
				netinst.Tunnel{Name: name, VNI: uint32(256 + i), Local: netip.MustParseAddr("192.0.2.1"), Remote: remote,
					Port: 4789, MTU: 1450})
		}
	}
	for _, name := range []netinst.IfName{"can0", "can1"} {
		if rapid.Bool().Draw(t, string(name)) {
			c.Members = append(c.Members, name)
		}
	}
	return c
}

func remoteOf(c netinst.NetworkInstanceConfig, tunnel string) netip.Addr {
	for _, t := range c.Tunnels {
		if t.Name == tunnel {
			return t.Remote
		}
	}
	return netip.Addr{}
}

// standing names each part by the object that is its port.
func standing(c netinst.NetworkInstanceConfig) map[partKey]string {
	out := map[partKey]string{}
	for _, t := range c.Tunnels {
		out[partKey{netinst.PartTunnel, t.Name}] = string(netinst.TunnelIfName(3, t.VNI))
	}
	for _, m := range c.Members {
		out[partKey{netinst.PartMember, string(m)}] = string(m)
	}
	return out
}

func checkParts(t *rapid.T, h *partsHost, c netinst.NetworkInstanceConfig, s netinst.NetworkInstanceStatus) {
	all := clusterConfig(1, func(c *netinst.NetworkInstanceConfig) {
		c.Members = []netinst.IfName{"can0", "can1"}
		c.Tunnels = []netinst.Tunnel{{Name: "alpha", VNI: 256}, {Name: "beta", VNI: 257}, {Name: "gamma", VNI: 258}}
	})
	desired, shown := standing(c), map[partKey]netinst.PartStatus{}
	want := netinst.DesiredState(netinst.Input{Owner: netstate.Owner{Name: testNetwork(1).UUID.String(), Number: 3},
		Config: c,
		RunDir: "/run"}).State
	for _, p := range s.Parts {
		k := partKey{p.Kind, p.Name}
		if _, twice := shown[k]; twice {
			t.Fatalf("%v is shown twice", k)
		}
		shown[k] = p
	}
	for k, link := range standing(all) {
		id := netstate.ID{Kind: netstate.KindPort, Name: link}
		p, ok := shown[k]
		_, wants := desired[k]
		switch {
		case wants && !ok:
			t.Fatalf("%v is wanted and not shown", k)
		case !ok && h.have[id] != nil:
			t.Fatalf("%v is on the host and not shown", k)
		case p.State == netinst.Present && (h.have[id] == nil || h.have[id].Text() != want[id].Text()):
			t.Fatalf("%v is shown as Present and is %v", k, h.have[id])
		}
	}
}
