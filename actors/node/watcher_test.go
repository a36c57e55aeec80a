package node

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// watchedRig is a node with two networks with an app each, the first with a flow log.
type watchedRig struct {
	*rig
	ip, mac string // of the first app
}

func (r *watchedRig) send(m netstate.Messages) bool {
	sent := r.host.SendMessages(m)
	r.settle(0)
	return sent
}

func (r *watchedRig) dhcp(kind netstate.DHCPType, addr string, lease time.Duration) bool {
	m := netstate.DHCPMessage{Type: kind, FromServer: kind == netstate.DHCPAck || kind == netstate.DHCPNak, MAC: r.mac,
		Lease: lease, At: time.Now()}
	if addr != "" {
		m.Address = netip.MustParseAddr(addr)
	}
	return r.send(netstate.Messages{Link: "es1", DHCP: []netstate.DHCPMessage{m}})
}

func (r *watchedRig) answer(name, addr string) bool {
	return r.send(netstate.Messages{Link: "es1", UnreadDNS: 2, DNS: []netstate.DNSMessage{{MAC: r.mac, Answer: true, Name: name,
		Type: "A", Addresses: []netip.Addr{netip.MustParseAddr(addr)}, TTL: time.Minute, At: time.Now()}}})
}

func (r *watchedRig) adapter() nodeapi.AdapterStatus {
	return r.list("adapter")[0].Status.(nodeapi.AdapterStatus)
}

func (r *watchedRig) lease() nodeapi.LeaseStatus {
	r.Helper()
	for _, x := range r.list("lease") {
		if x.ID == appID(1)+"/0" {
			return x.Status.(nodeapi.LeaseStatus)
		}
	}
	r.Fatal("the app has no lease resource")
	return nodeapi.LeaseStatus{}
}

func (r *watchedRig) dns() nodeapi.DNSStatus {
	for _, x := range r.list("dns") {
		if x.ID == appID(1)+"/0" {
			return x.Status.(nodeapi.DNSStatus)
		}
	}
	return nodeapi.DNSStatus{}
}

func (r *watchedRig) leaseEvents() (texts []string) {
	r.Helper()
	for _, line := range r.told(nodeapi.EventQuery{Kind: nodeapi.EventLease}) {
		_, text, _ := strings.Cut(line, "/0 ")
		texts = append(texts, text)
	}
	return texts
}

func onWatchedRig(t *testing.T, f func(*watchedRig)) {
	onRig(t, func(r *rig) {
		r.logsFlows()
		w := &watchedRig{rig: r, ip: r.addressOf(1)}
		w.mac = w.adapter().MAC
		f(w)
	})
}

func TestLeasesShowInStatusesAndEvents(t *testing.T) {
	onWatchedRig(t, func(r *watchedRig) {
		if l := r.lease(); l.State != nodeapi.NoLease || l.Expected.String() != r.ip || l.MAC != r.mac {
			t.Errorf("%+v", l)
		}
		if !r.dhcp(netstate.DHCPAck, r.ip, time.Hour) {
			t.Fatal("the network is not watched")
		}
		if l := r.lease(); l.State != "assigned" || l.Address.String() != r.ip || l.Name != "app1" || l.Network != niID(1) {
			t.Errorf("%+v", l)
		}
		if s := r.adapter(); s.Lease != "assigned" {
			t.Errorf("the status says %q", s.Lease)
		}
		r.dhcp(netstate.DHCPAck, r.ip, time.Hour)
		r.dhcp(netstate.DHCPAck, "10.1.0.66", time.Hour)
		if l, s := r.lease(), r.adapter(); l.State != "mismatched" || s.Lease != "mismatched 10.1.0.66" || !s.Activated {
			t.Errorf("%+v; the status says %q", l, s.Lease)
		}
		if got := strings.Join(r.leaseEvents(), "; "); got != "lease assigned: "+r.ip+
			"; lease mismatched: the app has 10.1.0.66 instead of "+r.ip {
			t.Error(got)
		}
		r.settle(2 * time.Hour)
		if l := r.lease(); l.State != "expired" {
			t.Errorf("%+v", l)
		}
		// The app goes: nothing watches any more.
		r.apply(strings.Replace(withFlowLog(true), "displayName: app1, activate: true", "displayName: app1, activate: false", 1))
		r.settle(time.Second)
		if r.dhcp(netstate.DHCPAck, r.ip, time.Hour) {
			t.Error("a network without active adapters is watched")
		}
	})
}

// TestAnAppThatChangesItsLeaseAllTheTimeIsReportedSeldom: its status and its events change a few times a minute, and end
// with the last state.
func TestAnAppThatChangesItsLeaseAllTheTimeIsReportedSeldom(t *testing.T) {
	onWatchedRig(t, func(r *watchedRig) {
		changes, last := 0, ""
		for range 300 {
			r.dhcp(netstate.DHCPAck, r.ip, time.Hour)
			r.dhcp(netstate.DHCPRelease, r.ip, 0)
			r.settle(500 * time.Millisecond)
			if now := r.adapter().Lease; now != last {
				changes, last = changes+1, now
			}
		}
		n := 0 // those that repeat are counted
		for _, e := range r.events(nodeapi.EventQuery{Kind: nodeapi.EventLease}) {
			n += max(e.Count, 1)
		}
		if n < 4 || n > 8 || changes > 8 {
			t.Errorf("%d events and %d changes of the status in 150 s", n, changes)
		}
		r.settle(2 * time.Minute)
		if got := r.adapter().Lease; got != "released" {
			t.Errorf("the status says %q", got)
		}
	})
}

// TestALeaseThatIsHeldBackDelaysNoOther: another app of the same network is reported at once.
func TestALeaseThatIsHeldBackDelaysNoOther(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.apply(doc(1, 2))
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		status := func(app int) nodeapi.AdapterStatus { return r.list("adapter")[app-1].Status.(nodeapi.AdapterStatus) }
		busy, other := &watchedRig{r, status(1).IP, status(1).MAC}, &watchedRig{r, status(2).IP, status(2).MAC}
		for range 100 {
			busy.dhcp(netstate.DHCPAck, busy.ip, time.Hour)
			busy.dhcp(netstate.DHCPRelease, busy.ip, 0)
		}
		other.dhcp(netstate.DHCPAck, other.ip, time.Hour)
		if got := status(2).Lease; got != "assigned" {
			t.Errorf("the status says %q", got)
		}
		r.settle(5 * time.Minute)
		if got := status(1).Lease; got != "released" {
			t.Errorf("the status of the other one says %q", got)
		}
	})
}

func TestRecordedLeasesAreReadAfterARestart(t *testing.T) {
	onWatchedRig(t, func(r *watchedRig) {
		r.host.SetHeldLeases(netinst.LeaseFile(1), netstate.HeldLease{MAC: r.mac, Address: netip.MustParseAddr(r.ip),
			Until: time.Now().Add(time.Hour)})
		r.stop()
		r.start()
		r.settle(time.Second)
		if l, s := r.lease(), r.adapter(); l.State != "assigned" || !l.Recorded || s.Lease != "assigned" {
			t.Errorf("%+v; the status says %q", l, s.Lease)
		}
		if list := r.leaseEvents(); len(list) != 0 {
			t.Errorf("what happened before is reported: %q", list)
		}
	})
}

func TestDNSAnswersNameTheFlowsOfTheirApp(t *testing.T) {
	onWatchedRig(t, func(r *watchedRig) {
		if !r.answer("www.example.org", "192.0.2.9") {
			t.Fatal("the network is not watched")
		}
		s := r.dns()
		if s.Name != "app1" || s.Answers["NOERROR"] != 1 || s.Unread != 2 || len(s.Recent) != 1 ||
			s.Recent[0].Name != "www.example.org" || s.Recent[0].TTLSeconds != 60 || s.Recent[0].RCode != "NOERROR" {
			t.Errorf("%+v", s)
		}
		r.ended(0, flowFrom(r.ip, 1))
		r.settle(0)
		if list := r.flowLog(nodeapi.FlowLogQuery{}); len(list) != 1 || list[0].RemoteName != "www.example.org" {
			t.Errorf("%+v", list)
		}
		if c := r.node.Snapshot().Watched[niID(1)]; c.Answers[0] != 1 || c.UnreadDNS != 2 {
			t.Errorf("%+v", c)
		}
		r.apply("{}")
		r.settle(time.Minute)
		if left := r.list("dns"); len(left) != 0 || len(r.node.Snapshot().Watched) != 0 {
			t.Errorf("of networks that are gone: %+v", left)
		}
	})
}

// TestANetworkIsWatchedAgainAfterACrash: without what was known, and nothing of it changes the host.
func TestANetworkIsWatchedAgainAfterACrash(t *testing.T) {
	onWatchedRig(t, func(r *watchedRig) {
		r.answer("www.example.org", "192.0.2.9")
		owned := r.state(1).String()
		r.node.system.Root.Send(actor.NewPID(r.node.router.Address, "router/ni/"+niID(1)), applierReady{}) // it panics
		r.settle(time.Second)
		if r.crew("router/ni/"+niID(1)).Crashes != 1 {
			t.Fatal("the bridge manager did not crash")
		}
		if s := r.dns(); len(s.Recent) != 0 {
			t.Errorf("%+v", s)
		}
		if !r.answer("www.example.org", "192.0.2.9") || len(r.dns().Recent) != 1 {
			t.Error("the network is not watched")
		}
		r.dhcp(netstate.DHCPAck, r.ip, time.Hour)
		if got := r.adapter().Lease; got != "assigned" {
			t.Errorf("the status says %q", got)
		}
		if r.state(1).String() != owned {
			t.Error("the host has changed")
		}
	})
}
