package fake_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

var (
	hostOwner = netstate.Owner{Name: netstate.HostOwner}
	one       = netstate.Owner{Name: "0a000000-0000-4000-8000-000000000001", Number: 1}
	two       = netstate.Owner{Name: "0a000000-0000-4000-8000-000000000002", Number: 2}

	root = netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: "ES-FORWARD",
		Hooks: []netstate.Hook{{Parent: "FORWARD"}}}
	fwd = netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: "ES1-FWD",
		Hooks: []netstate.Hook{{Parent: "ES-FORWARD", Match: "-i es1"}}}
	bridge = netstate.Link{Name: "es1", Type: netstate.Bridge, Alias: "edgespan ni " + one.Name}
	up     = netstate.Port{Link: "es1", After: []netstate.ID{fwd.ID()}}
	addr   = netstate.Address{Link: "es1", Prefix: "10.1.0.1/24"}
	route  = netstate.Route{Table: 20001, Dst: "10.1.0.0/24", Type: netstate.Unicast, Dev: "es1"}
	out    = netstate.Route{Table: 20001, Dst: "0.0.0.0/0", Type: netstate.Unicast, Dev: "eth0"}
	dns    = netstate.Process{Name: "ni/1/dnsmasq", After: []netstate.ID{up.ID()}}
	check  = netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: "ES1-1E"}
	veth   = netstate.Link{Name: "es1a1", Type: netstate.Veth, Peer: &netstate.Peer{Netns: "ns1", Name: "eth0"}}
	in     = netstate.Port{Link: "es1a1", Master: "es1", After: []netstate.ID{check.ID()}}
)

// host has the host state, a network and its adapter on it.
func host(t *testing.T, o netstate.Owner, objs ...netstate.Object) *fake.Host {
	t.Helper()
	h := fake.New()
	h.SetNetns("ns1", true)
	must(t, h, hostOwner, netstate.NewState(root))
	must(t, h, o, netstate.NewState(objs...))
	return h
}

func must(t *testing.T, h *fake.Host, o netstate.Owner, want netstate.State) {
	t.Helper()
	for _, op := range netstate.Diff(h.State(o.Number), want) {
		if err := h.Do(t.Context(), o, op); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
	}
	if d := cmp.Diff(want.String(), h.State(o.Number).String()); d != "" {
		t.Fatalf("state (-want +got):\n%s", d)
	}
}

func op(v netstate.Verb, want, have netstate.Object) netstate.Op {
	o := netstate.Op{Verb: v, Items: []netstate.Item{{Want: want, Have: have}}}
	o.Kind = o.Items[0].ID().Kind
	return o
}

func TestAWholeNetworkComesAndGoes(t *testing.T) {
	h := host(t, one, fwd, check, bridge, up, addr, route, out, dns, veth, in)
	must(t, h, one, netstate.State{})
	must(t, h, hostOwner, netstate.State{})
	if v := h.Violations(); len(v) > 0 {
		t.Errorf("violations: %q", v)
	}
	done := h.Done()
	if len(done) == 0 || done[0] != "0: change chain ipv4/filter/ES-FORWARD" {
		t.Errorf("done: %q", done)
	}
	if again := h.Done(); len(again) > 0 {
		t.Errorf("told twice: %q", again)
	}
}

// Each is an op that a kernel would refuse: it has no effect, says why, and is a
// violation unless only the world was in its way.
func TestRefusals(t *testing.T) {
	jumps := fwd
	jumps.Rules = []string{"-m physdev --physdev-in es1a9 -j ES1-9E"}
	goes := fwd
	goes.Rules = []string{"-g ES1-9E"}
	for name, c := range map[string]struct {
		with  []netstate.Object
		op    netstate.Op
		err   string
		world bool
	}{
		"an object that exists": {with: []netstate.Object{bridge}, op: op(netstate.Add, bridge, nil),
			err: "file exists"},
		"an address without its link": {op: op(netstate.Add, addr, nil), err: "no link es1"},
		"a port without its link": {with: []netstate.Object{fwd}, op: op(netstate.Add, up, nil),
			err: "port es1 comes before link es1"},
		"a port before its chains": {with: []netstate.Object{bridge}, op: op(netstate.Add, up, nil),
			err: "port es1 comes before chain ipv4/filter/ES1-FWD"},
		"an adapter's port before the bridge's": {with: []netstate.Object{bridge, check, veth}, op: op(netstate.Add, in, nil),
			err: "port es1a1 comes before port es1"},
		"an adapter's port before its chain": {with: []netstate.Object{fwd, bridge, up, veth},
			op: op(netstate.Add, in, nil), err: "port es1a1 comes before chain ipv4/filter/ES1-1E"},
		"a route on a link that is down": {with: []netstate.Object{bridge}, op: op(netstate.Add, route, nil),
			err: "no port es1"},
		"a process before its bridge is up": {with: []netstate.Object{bridge}, op: op(netstate.Add, dns, nil),
			err: "process ni/1/dnsmasq comes before port es1"},
		"a jump to no chain": {op: op(netstate.Change, jumps, nil),
			err: "chain ES1-FWD jumps to ES1-9E, which does not exist"},
		"a goto to no chain": {op: op(netstate.Change, goes, nil),
			err: "chain ES1-FWD jumps to ES1-9E, which does not exist"},
		"a hook into no chain": {
			op: op(netstate.Change,
				netstate.Chain{Family: netstate.IPv4, Name: "ES1-IN", Hooks: []netstate.Hook{{Parent: "ES-INPUT"}}}, nil),
			err: "no chain ES-INPUT to hook ES1-IN into",
		},
		"a chain that goes while its port is up": {
			with: []netstate.Object{fwd, check, bridge, up, veth, in}, op: op(netstate.Remove, nil, check),
			err: "chain ipv4/filter/ES1-1E goes while port es1a1 is up",
		},
		"a namespace that does not exist": {
			op:  op(netstate.Add, netstate.Link{Name: "es1a2", Type: netstate.Veth, Peer: &netstate.Peer{Netns: "ns2"}}, nil),
			err: "network namespace ns2 does not exist: waiting for a dependency", world: true,
		},
		"a name that is taken in the namespace": {
			with: []netstate.Object{veth},
			op:   op(netstate.Add, netstate.Link{Name: "es1a2", Type: netstate.Veth, Peer: veth.Peer}, nil),
			err:  "eth0 in ns1 is the peer of es1a1: the world has changed", world: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := host(t, one, c.with...)
			h.Done()
			before := h.State(1).String()
			err := h.Do(t.Context(), one, c.op)
			var oe *netstate.OpError
			if !errors.As(err, &oe) || oe.Err.Error() != c.err || oe.Op != c.op.String() {
				t.Fatalf("error %v, want %q of %q", err, c.err, c.op)
			}
			if after := h.State(1).String(); after != before || len(h.Done()) > 0 {
				t.Errorf("it had an effect:\n%s", after)
			}
			if v := h.Violations(); (len(v) == 0) != c.world {
				t.Errorf("violations: %q", v)
			} else if !c.world && (!strings.Contains(v[0], one.Name) || !strings.Contains(v[0], c.err)) {
				t.Errorf("violation %q names not who did what", v)
			}
		})
	}
}

// What a kernel lets pass: a test tool that refuses too much would hide plans
// that work.
func TestNoRefusals(t *testing.T) {
	both := netstate.Op{Verb: netstate.Change, Kind: netstate.KindChain, Items: []netstate.Item{
		{Want: netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: "ES1-FWD", Rules: []string{"-j ES1-1E"}}},
		{Want: check},
	}}
	text := netstate.Chain{Family: netstate.BridgeFamily, Name: "es1", Rules: []string{"jump to -j ESX"}}
	for name, c := range map[string]struct {
		with []netstate.Object
		op   netstate.Op
	}{
		"what is gone goes again":                 {op: op(netstate.Remove, nil, bridge)},
		"a jump to a chain of the same restore":   {op: both},
		"a hook into a chain of host's":           {op: op(netstate.Change, fwd, nil)},
		"a route through another's interface":     {op: op(netstate.Add, out, nil)},
		"a table of the bridge family is no text": {op: op(netstate.Change, text, nil)},
		"the bridge's chain goes while it is up": {with: []netstate.Object{fwd, bridge, up},
			op: op(netstate.Remove, nil, fwd)},
	} {
		t.Run(name, func(t *testing.T) {
			h := host(t, one, c.with...)
			if err := h.Do(t.Context(), one, c.op); err != nil || len(h.Violations()) > 0 {
				t.Errorf("error %v, violations %q", err, h.Violations())
			}
		})
	}
}

func TestWhatGoesTakesAlongWhatAKernelTakes(t *testing.T) {
	h := host(t, one, fwd, bridge, up, addr, route, out)
	if err := h.Do(t.Context(), one, op(netstate.Remove, nil, up)); err != nil {
		t.Fatal(err)
	}
	if s := h.State(1); s[route.ID()] != nil || s[out.ID()] == nil || s[addr.ID()] == nil {
		t.Errorf("a bridge that goes down takes its routes, and nothing else:\n%s", s)
	}
	if err := h.Do(t.Context(), one, op(netstate.Remove, nil, bridge)); err != nil {
		t.Fatal(err)
	}
	if s := h.State(1); s[addr.ID()] != nil || s[fwd.ID()] == nil {
		t.Errorf("a link that goes takes its addresses, and nothing else:\n%s", s)
	}
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault  fake.OpFault
		err    string
		effect bool
		takes  time.Duration
		panics bool
	}{
		"an error": {fault: fake.OpFault{Err: errors.New("no")}, err: "add link es1: fake-command: no"},
		"a hang": {fault: fake.OpFault{Hang: true}, err: "add link es1: fake-command: context deadline exceeded",
			takes: 5 * time.Second},
		"half an op": {fault: fake.OpFault{Half: true}, err: "add link es1: died half way", effect: true},
		"a panic": {fault: fake.OpFault{Panic: true}, err: "fake host: injected panic in add link es1", effect: true,
			panics: true},
		"none": {effect: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := fake.New()
				h.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
					if o != one || op.Kind != netstate.KindLink {
						t.Errorf("asked about %v, %s", o, op)
					}
					return &c.fault
				})
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				start := time.Now()
				got, panicked := try(func() error { return h.Do(ctx, one, op(netstate.Add, bridge, nil)) })
				if got != c.err || panicked != c.panics {
					t.Errorf("it said %q and panicked is %v, want %q and %v", got, panicked, c.err, c.panics)
				}
				if d := time.Since(start); d != c.takes {
					t.Errorf("it took %v, want %v", d, c.takes)
				}
				if effect := h.State(1)[bridge.ID()] != nil; effect != c.effect {
					t.Errorf("took effect is %v, want %v", effect, c.effect)
				}
				h.SetFault(nil)
				if _, err := h.Observe(t.Context(), one, true); err != nil { // no lock is left behind
					t.Error(err)
				}
			})
		})
	}
}

func try(f func() error) (said string, panicked bool) {
	defer func() {
		if r := recover(); r != nil {
			said, panicked = r.(string), true
		}
	}()
	if err := f(); err != nil {
		return err.Error(), false
	}
	return "", false
}

func TestAFaultDoesNotHideARefusal(t *testing.T) {
	h := fake.New()
	h.SetFault(func(netstate.Owner, netstate.Op) *fake.OpFault { return &fake.OpFault{Half: true} })
	if err := h.Do(t.Context(), one, op(netstate.Add, addr, nil)); err == nil || len(h.Violations()) != 1 {
		t.Errorf("error %v, violations %q", err, h.Violations())
	}
}

func TestOwnersAreThoseWithAnythingOnTheHost(t *testing.T) {
	h := host(t, one, fwd, bridge)
	if err := h.Do(t.Context(), two, op(netstate.Change, netstate.Chain{Name: "ES2-FWD"}, nil)); err != nil {
		t.Fatal(err)
	}
	got, err := h.Owners(t.Context())
	if d := cmp.Diff([]netstate.Owner{one, {Number: 2}}, got); err != nil || d != "" {
		t.Errorf("owners, %v (-want +got):\n%s", err, d)
	}
	must(t, h, one, netstate.State{})
	if got, _ = h.Owners(t.Context()); len(got) != 1 {
		t.Errorf("owners after its removal: %v", got)
	}
}

func TestObserveGivesACopyAndMeetsItsDeadline(t *testing.T) {
	h := host(t, one, fwd, bridge)
	for n, read := range []func() netstate.State{
		func() netstate.State { return h.State(1) },
		func() netstate.State {
			s, err := h.Observe(t.Context(), one, false)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		s := read()
		delete(s, bridge.ID())
		if read()[bridge.ID()] == nil {
			t.Errorf("reader %d changed the host", n)
		}
	}
	if s, err := h.Observe(t.Context(), two, false); err != nil || s == nil || len(s) > 0 {
		t.Errorf("an owner with nothing has %v, %v", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Observe(ctx, one, false); !errors.Is(err, context.Canceled) {
		t.Errorf("after its deadline it answered %v", err)
	}
	if n, err := h.ForgetFlows(t.Context(), nil)(); n != 0 || err != nil {
		t.Errorf("flows: %d, %v", n, err)
	}
}

func TestWatchersAreToldEveryChangeUntilTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t, one, check, fwd, bridge, up, veth, in)
		h.SetInterfaces(netstate.Interface{Name: "eth0"})
		ctx, cancel := context.WithCancel(t.Context())
		var reported []netstate.HostEvent
		ended := make(chan error, 1)
		go func() { ended <- h.Watch(ctx, func(ev netstate.HostEvent) { reported = append(reported, ev) }) }()
		synctest.Wait()
		h.SetInterfaces(netstate.Interface{Name: "eth1"})
		h.Break(1, fwd.ID())
		h.SetNetns("ns1", false)
		h.SetNetns("ns9", true)
		h.RemoveSilently(1, up.ID())
		h.SetMaxTracked(70)
		h.Resync()
		unknown, tracked := 0, 70
		want := []netstate.HostEvent{
			{Resync: true, Interfaces: []netstate.Interface{{Name: "eth0"}},
				Forwarding: &netstate.Forwarding{Off: []string{"eth0"}}, MaxTracked: &unknown},
			{Interfaces: []netstate.Interface{{Name: "eth1"}}, HostRouting: true,
				Forwarding: &netstate.Forwarding{Off: []string{"eth1"}}},
			{Touched: []int{1}},
			{Namespaces: true, Touched: []int{1}},
			{Namespaces: true},
			{MaxTracked: &tracked},
			{Resync: true, Interfaces: []netstate.Interface{{Name: "eth1"}},
				Forwarding: &netstate.Forwarding{Off: []string{"eth1"}}, MaxTracked: &tracked},
		}
		if d := cmp.Diff(want, reported); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		s := h.State(1)
		if s[fwd.ID()] != nil || s[veth.ID()] != nil || s[in.ID()] != nil || s[up.ID()] != nil || s[bridge.ID()] == nil {
			t.Errorf("what broke and what went with the namespace is still there:\n%s", s)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		h.SetInterfaces()
		if len(reported) != len(want) {
			t.Error("a watcher that has ended is told")
		}
	})
}

// A namespace that takes a link along between two ops is no disorder of the plan.
func TestALinkThatVanishedIsNoViolation(t *testing.T) {
	h := host(t, one, fwd, check, bridge, up, veth)
	h.SetNetns("ns1", false)
	err := h.Do(t.Context(), one, op(netstate.Add, in, nil))
	if err == nil || len(h.Violations()) > 0 {
		t.Errorf("error %v, violations %q", err, h.Violations())
	}
	if slices.ContainsFunc(h.Done(), func(s string) bool { return strings.Contains(s, "port es1a1") }) {
		t.Error("it took effect")
	}
}
