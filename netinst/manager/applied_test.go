package manager

import (
	"maps"
	"testing"

	"edgespan/netinst/netstate"
)

// A network that fails reports the observed state of each adapter: a new incarnation has nothing else to go by.
func TestAnAdapterOfAFailedNetworkIsWhatIsObserved(t *testing.T) {
	broken := fail(netstate.KindProcess, "ni/1/dnsmasq", "no answer")
	for name, c := range map[string]struct {
		change func(netstate.State)
		want   string
	}{
		"it stood": {func(s netstate.State) { delete(s, broken.ID) }, "activated=true"},
		"a part was missing": {func(s netstate.State) { delete(s, netstate.ID{Kind: netstate.KindPort, Name: "es1a1"}) },
			"activated=false"},
		"a part was different": {func(s netstate.State) { s.Add(netstate.Link{Name: "es1a1", Type: netstate.Veth}) },
			"activated=false"},
		"nothing was there": {nil, "activated=false"},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
			var had netstate.State
			for _, e := range []Event{
				ApplierReady{},
				PortsChanged{Ports: testPort()},
				ConfigChanged{Config: testNetwork(1)},
				AdapterChanged{testAdapter(appW, 1, true)},
				AdaptersKnown{},
				Synchronized{},
			} {
				for _, eff := range m.Step(e) {
					if a, ok := eff.(Apply); ok && c.change != nil {
						had = maps.Clone(a.Want)
						c.change(had)
					}
				}
			}
			got := text(m.Step(Applied{Seq: ApplySeq{7, 1}, Failures: []netstate.OpFailure{broken}, Before: had}))
			want := "adapter app1#0 v1 " + c.want +
				` (network instance "lan" is not ready), ni CreatingFailed (no answer; next retry in 100ms)`
			if got != want {
				t.Errorf("got %q\nwant %q", got, want)
			}
		})
	}
}
