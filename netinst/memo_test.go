package netinst

import (
	"net/netip"
	"reflect"
	"testing"

	"edgespan/netinst/overlap"
)

// A network that is compared with the host again has the state that was computed before; any other input has its own.
func TestADesiredStateIsComputedOncePerInput(t *testing.T) {
	var m Memo
	of := func(s Desired) uintptr { return reflect.ValueOf(s.State).Pointer() }
	first := m.DesiredState(input(web()))
	if again := m.DesiredState(input(web())); of(again) != of(first) {
		t.Error("an equal input was computed again")
	}
	for name, change := range map[string]func(*Input){
		"the owner":    func(in *Input) { in.Owner.Number = 2 },
		"the config":   func(in *Input) { in.Config.DNS.Domain = "other.test" },
		"a lease":      func(in *Input) { in.Adapters[0].Lease.IP = ip("10.1.0.129") },
		"no adapter":   func(in *Input) { in.Adapters = nil },
		"a port":       func(in *Input) { in.Ports[0].Addresses = []netip.Prefix{prefix("192.0.2.11/24")} },
		"the choice":   func(in *Input) { in.Chosen = map[string]string{"uplink": "other"} },
		"a dead port":  func(in *Input) { in.Failing = map[string]bool{"eth": true} },
		"the folder":   func(in *Input) { in.RunDir = "/run/other" },
		"an overlap":   func(in *Input) { in.Overlap = overlap.Overlap{Clash: "10.1.0.0/24 on eth0"} },
		"flows":        func(in *Input) { in.MaxTracked = 4096 },
		"the last MTU": func(in *Input) { in.MTU, in.Ports = 1400, nil },
	} {
		in := input(web())
		change(&in)
		got, want := m.DesiredState(in), DesiredState(in)
		if got.State.String() != want.State.String() || got.PortError != want.PortError || got.Warning != want.Warning {
			t.Errorf("%s: the state of another input", name)
		}
		if of(got) == of(first) {
			t.Errorf("%s: the first state", name)
		}
	}
}

func TestAnInputThatItsCallerChangesIsAnother(t *testing.T) {
	var m Memo
	in := input(web())
	in.Chosen, in.Failing = map[string]string{"uplink": "eth"}, map[string]bool{}
	for name, change := range map[string]func(){
		"adapters": func() { in.Adapters[0].Lease.IP = in.Adapters[0].Lease.IP.Next() },
		"ports":    func() { in.Ports[0].LinkMTU-- },
		"choice":   func() { in.Chosen["uplink"] += "x" },
		"failing":  func() { in.Failing["eth"] = !in.Failing["eth"] },
	} {
		m.DesiredState(in)
		change()
		if got, want := m.DesiredState(in).State.String(), DesiredState(in).State.String(); got != want {
			t.Errorf("%s: the state of the input before it changed", name)
		}
	}
}
