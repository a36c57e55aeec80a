package manager

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
)

var (
	niA  = uuid.MustParse("0a000000-0000-4000-8000-000000000001")
	appW = uuid.MustParse("1b000000-0000-4000-8000-000000000001")
	appX = uuid.MustParse("1b000000-0000-4000-8000-000000000002")
)

func TestManager(t *testing.T) {
	web := netinst.AdapterKey{AppUUID: appW, Index: 0}
	for name, steps := range map[string][]managerStep{
		"a burst of changes costs one apply": begun(
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{AdapterChanged{testAdapter(appX, 1, true)}, ""},
			managerStep{ConfigChanged{Config: testNetwork(2)}, ""},
			managerStep{AdapterChanged{testAdapter(appX, 2, true)}, ""},
			managerStep{applied(2), "adapter app1#0 v1 activated=true, apply#3 something"},
			managerStep{applied(3), "adapter app2#0 v2 activated=true, ni Present"},
		),
		"a status answers the version that was applied, not a newer one": begun(
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{AdapterChanged{testAdapter(appW, 2, true)}, ""},
			managerStep{applied(2), "adapter app1#0 v1 activated=true, apply#3 something"},
			managerStep{applied(3), "adapter app1#0 v2 activated=true"},
		),
		"the applier dies in the middle of an apply": {
			{ApplierReady{}, ""},
			{PortsChanged{Ports: testPort()}, ""},
			{ConfigChanged{Config: testNetwork(1)}, ""},
			{AdaptersKnown{}, ""},
			{Synchronized{}, "ni Creating, apply#1 something full"},
			{ApplierReady{}, "apply#2 something full"},
			{applied(1), ""},
			{applied(2), "ni Present"},
		},
		"nothing is applied before the ports are known": {
			{ApplierReady{}, ""},
			{ConfigChanged{Config: testNetwork(1)}, ""},
			{AdaptersKnown{}, ""},
			{Synchronized{}, ""},
			{PortsChanged{Ports: testPort()}, "ni Creating, apply#1 something full"},
		},
		"nothing is applied before the adapters are known": {
			{ApplierReady{}, ""},
			{ConfigChanged{Config: testNetwork(1)}, ""},
			{PortsChanged{Ports: testPort()}, ""},
			{Synchronized{}, ""},
			{AdapterChanged{testAdapter(appW, 1, true)}, ""},
			{AdaptersKnown{}, "ni Creating, apply#1 something full"},
		},
		"an app network that never starts is waited for no longer than the grace time": {
			{ApplierReady{}, ""},
			{ConfigChanged{Config: testNetwork(1)}, ""},
			{PortsChanged{Ports: testPort()}, ""},
			{Synchronized{}, ""},
			{TimerDue{Token: 1}, "ni Creating, apply#1 something full"},
		},
		"adapters that were retained before the network's config are answered by its first apply": {
			{ApplierReady{}, ""},
			{PortsChanged{Ports: testPort()}, ""},
			{AdapterChanged{testAdapter(appW, 4, true)}, ""},
			{ConfigChanged{Config: testNetwork(1)}, ""},
			{AdaptersKnown{}, ""},
			{Synchronized{}, "ni Creating, apply#1 something full"},
			{applied(1), "adapter app1#0 v4 activated=true, ni Present"},
		},
		"an orphan is shown and kept until a valid config is known": {
			{ApplierReady{}, ""},
			{PortsChanged{Ports: nil}, ""},
			{Synchronized{}, "ni Unclaimed (no config says whether it is still desired)"},
			{HostTouched{}, ""},
			{Claimed{}, "ni Removing, apply#1 nothing full"},
			{applied(1), "ni withdrawn, done"},
		},
		"a config that comes late claims what would be an orphan": {
			{ApplierReady{}, ""},
			{PortsChanged{Ports: testPort()}, ""},
			{Synchronized{}, "ni Unclaimed (no config says whether it is still desired)"},
			{ConfigChanged{Config: testNetwork(1)}, ""},
			{AdaptersKnown{}, "apply#1 something full"},
			{Claimed{}, ""},
			{applied(1), "ni Present"},
		},
		"a deleted network destroys its adapters and says so for each": begun(
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{applied(2), "adapter app1#0 v1 activated=true"},
			managerStep{ConfigGone{}, "ni Removing, apply#3 nothing"},
			managerStep{applied(3), `adapter app1#0 v1 activated=false (network instance "lan" is deleted), ni withdrawn, done`},
			managerStep{ConfigChanged{Config: testNetwork(2)}, ""},
		),
		"a network that comes back while it is being removed is made again": begun(
			managerStep{ConfigGone{}, "ni Removing, apply#2 nothing"},
			managerStep{ConfigChanged{Config: testNetwork(2)}, ""},
			managerStep{applied(2), "ni Creating, apply#3 something"},
			managerStep{applied(3), "ni Present"},
		),
		"an adapter is deactivated, answered, and only then withdrawn": begun(
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{applied(2), "adapter app1#0 v1 activated=true"},
			managerStep{AdapterChanged{testAdapter(appW, 2, false)}, "apply#3 something"},
			managerStep{applied(3), "adapter app1#0 v2 activated=false"},
			managerStep{AdapterGone{web}, "apply#4 something"},
			managerStep{applied(4), "adapter app1#0 withdrawn"},
		),
		"an adapter whose removal fails is still active": begun(
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{applied(2), "adapter app1#0 v1 activated=true"},
			managerStep{AdapterChanged{testAdapter(appW, 2, false)}, "apply#3 something"},
			managerStep{
				applied(3, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindLink, Name: "es1a1"}, Remove: true, Err: "busy"}),
				"adapter app1#0 v2 activated=true (busy)",
			},
		),
		"a status that an earlier incarnation left is withdrawn after the first reconcile": {
			{ApplierReady{}, ""},
			{PortsChanged{Ports: testPort()}, ""},
			{ConfigChanged{Config: testNetwork(1)}, ""},
			{AdaptersKnown{}, ""},
			{AdapterGone{web}, ""},
			{Synchronized{}, "ni Creating, apply#1 something full"},
			{
				applied(1, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindLink, Name: "es1a1"}, Remove: true, Err: "busy"}),
				"ni CreatingFailed (busy; next retry in 100ms)",
			},
			{TimerDue{Token: 2}, "apply#2 something"},
			{applied(2), "adapter app1#0 withdrawn, ni Present"},
		},
		"an adapter that an earlier incarnation made and that can't be removed is still active": {
			{ApplierReady{}, ""},
			{PortsChanged{Ports: testPort()}, ""},
			{ConfigChanged{Config: testNetwork(1)}, ""},
			{AdaptersKnown{}, ""},
			{AdapterChanged{testAdapter(appW, 2, false)}, ""},
			{Synchronized{}, "ni Creating, apply#1 something full"},
			{
				applied(1, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindLink, Name: "es1a1"}, Remove: true, Err: "busy"}),
				"adapter app1#0 v2 activated=true (busy), ni CreatingFailed (busy; next retry in 100ms)",
			},
			{TimerDue{Token: 2}, "apply#2 something"},
			{applied(2), "adapter app1#0 v2 activated=false, ni Present"},
		},
		"one adapter's failure is not the network's": begun(
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{AdapterChanged{testAdapter(appX, 1, true)}, ""},
			managerStep{applied(2), "adapter app1#0 v1 activated=true, apply#3 something"},
			managerStep{applied(3, fail(netstate.KindLink, "es1a2", "name taken")),
				"adapter app2#0 v1 activated=false (name taken)"},
		),
		"a failed op names the next retry, and the back-off doubles": begun(
			managerStep{ConfigChanged{Config: testNetwork(2)}, "apply#2 something"},
			managerStep{applied(2, fail(netstate.KindProcess, "ni/1/dnsmasq", "no answer")),
				"ni CreatingFailed (no answer; next retry in 100ms)"},
			managerStep{TimerDue{Token: 4}, "apply#3 something"},
			managerStep{applied(3, fail(netstate.KindProcess, "ni/1/dnsmasq", "no answer")),
				"ni CreatingFailed (no answer; next retry in 200ms)"},
		),
		"what is found wrong after it was right is CheckPresentFailed": begun(
			managerStep{HostTouched{}, "apply#2 something"},
			managerStep{applied(2, fail(netstate.KindLink, "es1", "gone")), "ni CheckPresentFailed (gone; next retry in 100ms)"},
		),
		"a removal that fails is RemovingFailed and tried again": begun(
			managerStep{ConfigGone{}, "ni Removing, apply#2 nothing"},
			managerStep{applied(2, fail(netstate.KindLink, "es1", "busy")), "ni RemovingFailed (busy; next retry in 100ms)"},
			managerStep{TimerDue{Token: 4}, "apply#3 nothing"},
			managerStep{applied(3), "ni withdrawn, done"},
		),
		"a network that waits or fails is compared with the host all the same": {
			{ApplierReady{}, ""},
			{PortsChanged{Ports: testPort()}, ""},
			{ConfigChanged{Config: testNetwork(1)}, ""},
			{AdapterChanged{testAdapter(appW, 1, true)}, ""},
			{AdaptersKnown{}, ""},
			{Synchronized{}, "ni Creating, apply#1 something full"},
			{
				applied(1, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindLink, Name: "es1a1"}, Waiting: true,
					Err: "no namespace"}),
				"adapter app1#0 v1 activated=false (no namespace), ni Present",
			},
			{TimerDue{Token: 2}, "apply#2 something"},
			{applied(2, fail(netstate.KindLink, "es1a1", "name taken")), "adapter app1#0 v1 activated=false (name taken)"},
			{TimerDue{Token: 3}, ""}, // the check each minute; the retry, due sooner, serves as one
			{TimerDue{Token: 5}, "apply#3 something full"},
		},
		"a host that can't be observed is a failure of the network": begun(
			managerStep{HostTouched{}, "apply#2 something"},
			managerStep{Applied{Seq: ApplySeq{7, 2}, Err: "dump interrupted"},
				"ni CheckPresentFailed (dump interrupted; next retry in 100ms)"},
			managerStep{TimerDue{Token: 4}, "apply#3 something full"},
		),
		"an op that runs for more than a second is shown": begun(
			managerStep{HostTouched{}, "apply#2 something"},
			managerStep{OpStarted{ApplySeq{7, 2}, "change chain x", time.Unix(10, 0)}, ""},
			managerStep{TimerDue{Token: 3, At: time.Unix(11, 0)},
				"ni Present (change chain x has been running for more than 1s)"},
			managerStep{TimerDue{Token: 4, At: time.Unix(12, 0)}, ""},
			managerStep{applied(2), "ni Present"},
		),
		"a namespace event wakes only a network that waits for one": begun(
			managerStep{HostTouched{Namespaces: true}, ""},
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{
				applied(2, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindLink, Name: "es1a1"}, Waiting: true,
					Err: "no namespace"}),
				"adapter app1#0 v1 activated=false (no namespace)",
			},
			managerStep{HostTouched{Namespaces: true}, "apply#3 something"},
			managerStep{applied(3), "adapter app1#0 v1 activated=true"},
		),
		"a network waits for the one that still has its subnet, and so does its adapter": begun(
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{applied(2), "adapter app1#0 v1 activated=true"},
			managerStep{ConfigChanged{Config: testNetwork(2)}, "apply#3 something"},
			managerStep{
				applied(3,
					netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindAddress, Name: "10.1.0.1/24"}, Waiting: true,
						Err: "es2 still has it"},
					netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindRoute, Name: "10.1.0.0/24"}, Waiting: true, Blocked: true,
						Err: "waits for address"}),
				`adapter app1#0 v1 activated=true (network instance "lan" is not ready), ni WaitingForDependencies (es2 still ` +
					`has it)`,
			},
			managerStep{HostTouched{}, "apply#4 something"},
			managerStep{applied(4), "adapter app1#0 v1 activated=true, ni Present"},
		),
		"what waits for a failure has failed, whatever else waits for the world": begun(
			managerStep{ConfigChanged{Config: testNetwork(2)}, "apply#2 something"},
			managerStep{
				applied(2,
					netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindAddress, Name: "10.1.0.1/24"}, Waiting: true,
						Err: "es2 still has it"},
					netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindRule, Name: "20001"}, Err: "no memory"}),
				"ni CreatingFailed (no memory (and 1 more); next retry in 100ms)",
			},
		),
		"an adapter that finds no address takes the one that is freed": begun(
			managerStep{ConfigChanged{Config: oneAddress(testNetwork(2))}, "apply#2 something"},
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, ""},
			managerStep{applied(2), "ni Present, apply#3 something"},
			managerStep{applied(3), "adapter app1#0 v1 activated=true"},
			managerStep{AdapterChanged{testAdapter(appX, 1, true)}, "apply#4 something"},
			managerStep{applied(4),
				"adapter app2#0 v1 activated=false (no free IP addresses in DHCP range 10.1.0.128-10.1.0.128)"},
			managerStep{AdapterChanged{testAdapter(appW, 2, false)}, "apply#5 something"},
			managerStep{applied(5), "adapter app1#0 v2 activated=false, adapter app2#0 v1 activated=true"},
		),
		"an app that is replaced in one apply leaves its address to the next": begun(
			managerStep{ConfigChanged{Config: oneAddress(testNetwork(2))}, "apply#2 something"},
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, ""},
			managerStep{applied(2), "ni Present, apply#3 something"},
			managerStep{AdapterChanged{testAdapter(appX, 1, true)}, ""},
			managerStep{AdapterChanged{testAdapter(appW, 2, false)}, ""},
			managerStep{applied(3), "adapter app1#0 v1 activated=true, apply#4 something"},
			managerStep{applied(4), "adapter app1#0 v2 activated=false, adapter app2#0 v1 activated=true"},
		),
		"a route that can't stand leaves the network Present, with a warning until it can": begun(
			managerStep{ConfigChanged{Config: withRoute(testNetwork(2), "203.0.113.1")}, "apply#2 something"},
			managerStep{applied(2),
				"ni Present [route lab is left out: gateway 203.0.113.1 is on no subnet of port wan (eth0)]"},
			managerStep{PortsChanged{Ports: alsoAt(testPort(), "203.0.113.2/24")}, "apply#3 something"},
			managerStep{applied(3), "ni Present"},
		),
		"an uplink that comes up again without a default route is waited for": begun(
			managerStep{PortsChanged{Ports: []netinst.PortStatus{{PortConfig: testPort()[0].PortConfig, Exists: true, Up: true,
				Addresses: testPort()[0].Addresses}}},
				"apply#2 something"},
			managerStep{applied(2), "ni WaitingForDependencies (uplink wan (eth0) has no default route)"},
			managerStep{PortsChanged{Ports: testPort()}, "apply#3 something"},
			managerStep{applied(3), "ni Present"},
		),
		"an uplink without an address is waited for": begun(
			managerStep{PortsChanged{Ports: []netinst.PortStatus{{PortConfig: testPort()[0].PortConfig, Exists: true, Up: true}}},
				"apply#2 something"},
			managerStep{applied(2), "ni WaitingForDependencies (uplink wan (eth0) has no IPv4 address)"},
		),
		"a network that is not activated takes its adapters down, and each says why": begun(
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{applied(2), "adapter app1#0 v1 activated=true"},
			managerStep{ConfigChanged{Config: inactive(testNetwork(2))}, "apply#3 something"},
			managerStep{applied(3), `adapter app1#0 v1 activated=false (network instance "lan" is not activated), ni Present`},
			managerStep{AdapterChanged{testAdapter(appX, 1, true)}, "apply#4 something"},
			managerStep{applied(4), `adapter app2#0 v1 activated=false (network instance "lan" is not activated)`},
			managerStep{ConfigChanged{Config: testNetwork(3)}, "apply#5 something"},
			managerStep{applied(5), "adapter app1#0 v1 activated=true, adapter app2#0 v1 activated=true, ni Present"},
		),
		"an adapter that can't be taken off a network that is not activated is still active": begun(
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{applied(2), "adapter app1#0 v1 activated=true"},
			managerStep{ConfigChanged{Config: inactive(testNetwork(2))}, "apply#3 something"},
			managerStep{
				applied(3, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindLink, Name: "es1a1"}, Remove: true, Err: "busy"}),
				"adapter app1#0 v1 activated=true (busy), ni Present",
			},
		),
		"a config that is sent again is answered by the retry that is due, another one at once": begun(
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"},
			managerStep{applied(2, fail(netstate.KindLink, "es1a1", "busy")), "adapter app1#0 v1 activated=false (busy)"},
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, ""},
			managerStep{AdapterChanged{testAdapter(appW, 2, true)}, "apply#3 something"},
			managerStep{AdapterChanged{testAdapter(appW, 2, true)}, ""},
			managerStep{applied(3), "adapter app1#0 v2 activated=true"},
			managerStep{AdapterChanged{testAdapter(appW, 2, true)}, "apply#4 something"},
		),
		"what the applier of an earlier apply says is of none": {
			{OpStarted{Seq: ApplySeq{7, 1}, Op: "add link es1"}, ""},
			{ApplierReady{}, ""},
		},
		"an adapter that was never answered hears of the deletion, and one that is off of nothing new": begun(
			managerStep{AdapterChanged{testAdapter(appX, 1, false)}, "apply#2 something"},
			managerStep{applied(2), "adapter app2#0 v1 activated=false"},
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#3 something"},
			managerStep{ConfigGone{}, ""},
			managerStep{applied(3), "adapter app1#0 v1 activated=true, ni Removing, apply#4 nothing"},
			managerStep{AdapterChanged{testAdapter(uuid.UUID{15: 9}, 1, true)}, ""},
			managerStep{AdapterChanged{testAdapter(appW, 2, true)}, ""},
			managerStep{applied(4),
				`adapter app9#0 v1 activated=false (network instance "lan" is deleted), adapter app1#0 v1 activated=false ` +
					`(network instance "lan" is deleted), ni withdrawn, done`},
		),
		"a missing port is waited for": begun(
			managerStep{PortsChanged{Ports: nil}, "apply#2 something"},
			managerStep{applied(2), `ni WaitingForDependencies (no port matches "wan")`},
		),
	} {
		t.Run(name, func(t *testing.T) {
			m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
			for i, s := range steps {
				if got := text(m.Step(s.event)); got != s.want {
					t.Fatalf("step %d, %T:\n got %q\nwant %q", i+1, s.event, got, s.want)
				}
			}
		})
	}
}

func TestLeasesAreRememberedBeforeTheyAreApplied(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	for _, s := range begun() {
		m.Step(s.event)
	}
	effs := m.Step(AdapterChanged{testAdapter(appW, 1, true)})
	remembered := false
	for _, e := range effs {
		switch e := e.(type) {
		case JournalLeases:
			remembered = e.Leases[netinst.AdapterKey{AppUUID: appW, Index: 0}].IP == netip.MustParseAddr("10.1.0.128")
		case Apply:
			if !remembered {
				t.Errorf("applied before the lease was remembered: %v", effs)
			}
			return
		}
	}
	t.Errorf("no apply in %v", effs)
}

func TestApplySeqIsNeverRepeatedAcrossIncarnations(t *testing.T) {
	seen := map[ApplySeq]bool{}
	for epoch := uint64(1); epoch <= 3; epoch++ {
		m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", epoch, nil)
		for range 3 {
			for _, e := range append(m.Step(ApplierReady{}),
				append(m.Step(PortsChanged{Ports: testPort()}), append(m.Step(ConfigChanged{Config: testNetwork(1)}),
					append(m.Step(AdaptersKnown{}), m.Step(Synchronized{})...)...)...)...) {
				if a, ok := e.(Apply); ok {
					if seen[a.Seq] {
						t.Fatalf("%v is repeated", a.Seq)
					}
					seen[a.Seq] = true
				}
			}
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d applies were started, want 9", len(seen))
	}
}

// judged is an applied network with one adapter, after five minutes.
func judged(t *testing.T) *Manager {
	t.Helper()
	return newClocked().m
}

func TestAnOpThatTakesLongIsShownOnce(t *testing.T) {
	m := judged(t)
	m.Step(AdapterChanged{testAdapter(appX, 1, true)})
	if m.Step(OpStarted{Seq: ApplySeq{7, 99}, Op: "add link", At: at(2000)}); m.flight.op != "" {
		t.Error("an op of another apply is taken for one of this")
	}
	shown := func(now time.Time) bool {
		t.Helper()
		before := m.slowTok
		got := text(m.reportSlowOps(now))
		if m.slowTok <= before {
			t.Errorf("the timer %d comes after %d", m.slowTok, before)
		}
		return strings.Contains(got, "has been running")
	}
	if shown(at(2000)) {
		t.Error("no op is shown as one that takes long")
	}
	m.Step(OpStarted{Seq: m.flight.seq, Op: "add link", At: at(2000)})
	for i, c := range []struct {
		after time.Duration
		want  bool
	}{{slowOp - 1, false}, {slowOp, true}, {2 * slowOp, false}} {
		if got := shown(at(2000).Add(c.after)); got != c.want {
			t.Errorf("%d: shown %v after %v", i, got, c.after)
		}
	}
}

// The observation each minute is left to a retry only if something fails.
func TestTheLookOfEachMinute(t *testing.T) {
	for _, c := range []struct {
		failing bool
		retry   uint64
		looks   bool
	}{{false, 0, true}, {false, 77, true}, {true, 0, true}, {true, 77, false}} {
		m := judged(t)
		m.failing, m.retryTok, m.checkTok = c.failing, c.retry, 78
		if got := strings.Contains(text(m.Step(TimerDue{Token: 78})), "apply"); got != c.looks {
			t.Errorf("failing %v, retry %d: looks %v", c.failing, c.retry, got)
		}
	}
}

func TestTheStateOfAFailure(t *testing.T) {
	for _, c := range []struct {
		desired        intent
		applied, check bool
		want           netinst.NIState
	}{
		{desired, false, false, netinst.CreatingFailed},
		{desired, false, true, netinst.CheckPresentFailed},
		{desired, true, false, netinst.CheckPresentFailed},
		{desired, true, true, netinst.CheckPresentFailed},
		{undesired, true, false, netinst.RemovingFailed},
		{undesired, true, true, netinst.CheckAbsentFailed},
	} {
		m := judged(t)
		m.wasApplied = c.applied
		if m.showFailed(&flight{intent: c.desired, gen: m.config.Generation}, []string{"x"},
			c.check); m.status.State != c.want {
			t.Errorf("%+v: %s", c, m.status.State)
		}
	}
}

// An adapter that is not activated has no address, whatever lease is remembered for it.
func TestAnInactiveAdapterShowsNoAddress(t *testing.T) {
	m := judged(t)
	m.Step(AdapterChanged{testAdapter(appW, 2, false)})
	seen := false
	for _, e := range m.Step(Applied{Seq: m.flight.seq}) {
		if p, ok := e.(PublishAdapter); ok {
			seen = true
			if p.Status.Link != (netinst.AdapterLink{}) {
				t.Errorf("%+v", p.Status.Link)
			}
		}
	}
	if !seen {
		t.Error("no status of it")
	}
}

// Which overlap counts: one that has ended counts only for the subnet that it concerned.
func TestWhichOverlapCounts(t *testing.T) {
	a, b := netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("10.2.0.0/24")
	clash := overlap.Overlap{Subnet: a, Clash: "eth0"}
	for name, c := range map[string]struct{ now, rest, want overlap.Overlap }{
		"nothing":               {overlap.Overlap{Subnet: a}, overlap.Overlap{}, overlap.Overlap{Subnet: a}},
		"one that is just over": {overlap.Overlap{Subnet: a}, clash, clash},
		"of another subnet":     {overlap.Overlap{Subnet: b}, clash, overlap.Overlap{Subnet: b}},
		"another one": {overlap.Overlap{Subnet: a, Clash: "eth1"}, clash,
			overlap.Overlap{Subnet: a, Clash: "eth1"}},
		"what was there before is none": {overlap.Overlap{Subnet: a, Hidden: "x"}, overlap.Overlap{Subnet: a},
			overlap.Overlap{Subnet: a, Hidden: "x"}},
	} {
		if got := (&overlapState{now: c.now, clash: c.rest}).effective(); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
