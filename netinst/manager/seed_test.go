package manager

import (
	"net/netip"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// The status of an adapter is published when its addresses and rules are applied, not before. It carries the version
// that was applied, and what the adapter got.
func TestSeed_AppAdapterStatusIsPublishedOnceTheAdapterIsApplied(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	for _, s := range begun() {
		m.Step(s.event)
	}
	statuses := func(effs []Effect) (out []netinst.AppAdapterStatus) {
		for _, e := range effs {
			if p, ok := e.(PublishAdapter); ok {
				out = append(out, p.Status)
			}
		}
		return out
	}
	if early := statuses(m.Step(AdapterChanged{testAdapter(appW, 5, true)})); len(early) > 0 {
		t.Errorf("before anything was applied: %+v", early)
	}
	got := statuses(m.Step(applied(2)))
	if len(got) != 1 {
		t.Fatalf("after the apply: %+v, want one status", got)
	}
	want := netinst.AppAdapterStatus{
		AppUUID: appW, TargetVersion: 5, Activated: true,
		Link: netinst.AdapterLink{
			IP: netip.MustParseAddr("10.1.0.128"), MAC: got[0].Link.MAC, IfName: "eth0", HostIfName: "es1a1",
			Bridge: "es1",
		},
	}
	if got[0] != want || want.Link.MAC == "" {
		t.Errorf("the status is %+v, want %+v with a MAC", got[0], want)
	}
	m.Step(HostTouched{})
	if again := statuses(m.Step(applied(3))); len(again) > 0 {
		t.Errorf("nothing changed, and it is said again: %+v", again)
	}
}
