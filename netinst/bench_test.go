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
	in := Input{Owner: netstate.Owner{Name: netID.String(), Number: 1}, Config: config(), Ports: []PortStatus{uplink()},
		RunDir: "/run/edgespan"}
	var configs []AppAdapterConfig
	for i := range adapters {
		c := AppAdapterConfig{AppUUID: uuid.MustParse(fmt.Sprintf("1b000000-0000-4000-8000-%012d", i)), TargetVersion: 1,
			Activate: true, Spec: AdapterSpec{NetworkInstance: netID, Netns: "ns-1", IfName: "eth0",
				Hostname: "web"}}
		for p := range 10 {
			c.Spec.ACL = append(c.Spec.ACL, ACLRule{
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

// BenchmarkDesiredAndDiff measures one reconcile without the host: the complete desired state and the plan towards it.
// "one more" is the step of a new adapter, "nothing" that of the check each minute.
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
