package manager

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// benchAdapters returns adapters with ten rules each.
func benchAdapters(n int) (out []netinst.AppAdapterConfig) {
	for i := range n {
		c := testAdapter(uuid.MustParse(fmt.Sprintf("1b000000-0000-4000-8000-%012d", i)), 1, true)
		for p := range 10 {
			c.Spec.ACL = append(c.Spec.ACL, netinst.ACLRule{
				Name: fmt.Sprint(p), Direction: netinst.Egress, Action: netinst.Allow, Protocol: "tcp",
				IP:    netip.MustParsePrefix("203.0.113.0/24"),
				Ports: []netinst.PortRange{{First: uint16(p + 1), Last: uint16(p + 1)}},
			})
		}
		out = append(out, c)
	}
	return out
}

// BenchmarkManagerStep measures what one event costs a manager: an event of a burst, which changes nothing while an
// apply is in flight, and an event with its complete apply.
func BenchmarkManagerStep(b *testing.B) {
	for _, n := range []int{10, 100} {
		begin := func() *Manager {
			m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
			for _, a := range benchAdapters(n) {
				m.Step(AdapterChanged{a})
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
			for at := time.Unix(0, 0); b.Loop(); at = at.Add(2 * touchCalm) { // seldom enough not to be delayed
				effs := m.Step(HostTouched{At: at})
				for _, e := range effs {
					if a, ok := e.(Apply); ok {
						m.Step(Applied{Seq: a.Seq, Began: at, ObservedAt: at, At: at})
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
