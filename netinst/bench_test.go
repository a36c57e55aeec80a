package netinst

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/uuid"

	"edgespan/netinst/netstate"
)

// benchInput is a network with adapters that have ten rules each.
func benchInput(adapters int) Input {
	in := Input{Owner: netstate.Owner{Name: niA.String(), Number: 1}, Config: testNetwork(1), Ports: testPort(),
		RunDir: "/run/edgespan"}
	var configs []AppAdapterConfig
	for i := range adapters {
		c := testAdapter(uuid.MustParse(fmt.Sprintf("1b000000-0000-4000-8000-%012d", i)), 1, true)
		for p := range 10 {
			c.UnderlayConfig.ACL = append(c.UnderlayConfig.ACL, ACLRule{
				Name: fmt.Sprint(p), Direction: Egress, Action: Allow, Protocol: "tcp",
				IP: netip.MustParsePrefix("203.0.113.0/24"), Ports: []PortRange{{uint16(p + 1), uint16(p + 1)}},
			})
		}
		configs = append(configs, c)
	}
	alloc := Allocate(in.Config, configs, nil)
	for _, c := range configs {
		in.Adapters = append(in.Adapters, Adapter{Config: c, Lease: alloc.Leases[c.Key()]})
	}
	return in
}

// One reconcile, without the host: the whole desired state and the plan to it.
// "one more" is the step of an adapter that comes, "nothing" that of the check each
// minute.
func BenchmarkDesiredAndDiff(b *testing.B) {
	for _, n := range []int{10, 100} {
		in := benchInput(n)
		for name, have := range map[string]netstate.State{
			"from nothing": {}, "one more": DesiredState(benchInput(n - 1)).State, "nothing": DesiredState(in).State,
		} {
			b.Run(fmt.Sprintf("adapters=%d/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				ops := 0
				for b.Loop() {
					ops = len(netstate.Diff(have, DesiredState(in).State))
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "us/adapter")
				if (ops == 0) != (name == "nothing") {
					b.Errorf("the plan has %d ops", ops)
				}
			})
		}
	}
}

// What one event costs a manager: an event that changes nothing while an apply is
// in flight, as each of a burst, beside one with its whole apply.
func BenchmarkManagerStep(b *testing.B) {
	for _, n := range []int{10, 100} {
		begin := func() *Manager {
			m := NewManager(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
			for _, a := range benchInput(n).Adapters {
				m.Step(AdapterChanged{a.Config})
			}
			for _, s := range begun() {
				m.Step(s.event)
			}
			return m
		}
		b.Run(fmt.Sprintf("adapters=%d/in flight", n), func(b *testing.B) {
			m := begin()
			m.Step(HostTouched{})
			b.ReportAllocs()
			for b.Loop() {
				if effs := m.Step(HostTouched{}); len(effs) > 0 {
					b.Fatalf("effects %v", effs)
				}
			}
		})
		b.Run(fmt.Sprintf("adapters=%d/with its apply", n), func(b *testing.B) {
			m := begin()
			b.ReportAllocs()
			for b.Loop() {
				effs := m.Step(HostTouched{})
				for _, e := range effs {
					if a, ok := e.(Apply); ok {
						m.Step(Applied{Seq: a.Seq})
						effs = nil
						break
					}
				}
				if effs != nil {
					b.Fatalf("no apply in %v", effs)
				}
			}
		})
	}
}
