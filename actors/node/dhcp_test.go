package node

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/netinst/dhcpclient"
	"edgespan/netinst/netstate"
)

const dhcpWAN = "ports:\n  wan: {ifName: uplink0, uplink: true, addressing: dhcp}\n"

// dhcpServer is an honest server that records what it gets.
type dhcpServer struct {
	mu     sync.Mutex
	got    []string
	refuse bool
	lease  time.Duration
}

func (s *dhcpServer) answer(ifName string, q netstate.DHCPQuery) []netstate.DHCPReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, ifName+" "+string(q.Type))
	addr := netip.MustParseAddr
	r := netstate.DHCPReply{XID: q.XID, Server: addr("192.0.2.1"), Via: "02:00:00:00:00:01", Bits: 24,
		Address: addr("192.0.2.50"), Routers: []netip.Addr{addr("192.0.2.1")}, DNS: []netip.Addr{addr("198.51.100.53")},
		Lease: s.lease, MTU: 1400}
	switch {
	case q.Type == netstate.DHCPDiscover:
		r.Type = netstate.DHCPOffer
	case q.Type != netstate.DHCPRequest:
		return nil
	case s.refuse:
		r.Type = netstate.DHCPNak
	default:
		r.Type = netstate.DHCPAck
	}
	return []netstate.DHCPReply{r}
}

// messages returns what the server got since the last call.
func (s *dhcpServer) messages() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.got, ", ")
	s.got = nil
	return out
}

// lease returns the journalled lease of port wan.
func (r *rig) lease() (dhcpclient.Lease, bool) { return r.node.d.topics.PortLeases.Get("", "wan") }

// ofPorts returns the ops on ports since the last call.
func (r *rig) ofPorts() string {
	return strings.Join(slices.DeleteFunc(r.host.Done(), func(op string) bool {
		return !strings.HasPrefix(op,
			"-1: ")
	}), "\n")
}

// A port with addressing dhcp gets a lease, renews it, confirms it after a restart without a change of the host, and
// gives it back when the config no longer has it.
func TestAPortGetsKeepsAndReleasesALease(t *testing.T) {
	onRig(t, func(r *rig) {
		server := &dhcpServer{lease: 20 * time.Minute}
		r.host.SetDHCP(server.answer)
		wan := netstate.Interface{Name: "uplink0", MTU: 1500}
		r.host.SetInterfaces(wan)
		r.apply(dhcpWAN)
		r.settle(time.Minute)
		if got := r.ofPorts() + server.messages(); got != "-1: add port uplink0" {
			t.Errorf("without carrier: %s", got)
		}
		wan.Up = true
		r.host.SetInterfaces(wan)
		r.settle(time.Second)
		if got := server.messages(); got != "uplink0 discover, uplink0 request" {
			t.Errorf("the server got %s", got)
		}
		if got := r.ofPorts(); got != "-1: add address uplink0 192.0.2.50/24\n-1: add route 0.0.0.0/0 table 254 metric 1000" {
			t.Errorf("set up by\n%s", got)
		}
		wan.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.50/24")}
		wan.DefaultRoutes = []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))}
		r.host.SetInterfaces(wan)
		r.settle(time.Second)
		status, _ := r.node.d.topics.PortStatus.Get("", "wan")
		if servers, source := status.DNS(); len(servers) != 1 || source != "DHCP (server 192.0.2.1)" ||
			status.LinkMTU != 1400 || status.Problem() != "" {
			t.Errorf("the port is %+v: %s", status, status.Problem())
		}

		before, _ := r.lease()
		r.settle(10 * time.Minute)
		if after, _ := r.lease(); server.messages() != "uplink0 request" || !after.End.After(before.End) {
			t.Errorf("renewed from %v to %v", before.End, after.End)
		}
		const later = "-1: change address uplink0 192.0.2.50/24" // its end
		if got := r.ofPorts(); got != later {
			t.Errorf("renewed by %s", got)
		}
		r.stop()
		r.start()
		r.settle(time.Minute)
		if got, done := server.messages(), r.ofPorts(); got != "uplink0 request" || done != later {
			t.Errorf("after a restart the server got %s, and this was done: %s", got, done)
		}

		r.apply("ports:\n  wan: {ifName: uplink0, uplink: true}\n")
		r.settle(time.Second)
		if got := server.messages(); got != "uplink0 release" {
			t.Errorf("on removal the server got %s", got)
		}
		if _, held := r.lease(); held || !strings.Contains(r.ofPorts(), "remove address uplink0 192.0.2.50/24") {
			t.Errorf("the lease is held: %v", held)
		}
		r.settle(time.Minute)
		r.apply(dhcpWAN)
		r.settle(time.Second)
		if got := server.messages(); got != "uplink0 discover, uplink0 request" {
			t.Errorf("configured again, the server got %s", got)
		}
	})
}

// A lease that the server refuses goes at once, one that is not renewed goes at its end, and one of a removed config
// goes at the next start.
func TestALeaseEnds(t *testing.T) {
	onRig(t, func(r *rig) {
		server := &dhcpServer{lease: 20 * time.Minute}
		r.host.SetDHCP(server.answer)
		r.host.SetInterfaces(netstate.Interface{Name: "uplink0", MTU: 1500, Up: true})
		r.apply(dhcpWAN)
		r.settle(time.Second)
		r.ofPorts()
		r.host.SetDHCP(nil)
		r.settle(19 * time.Minute)
		if _, held := r.lease(); !held || r.ofPorts() != "" {
			t.Error("the lease went before its end")
		}
		r.settle(time.Minute)
		if _, held := r.lease(); held || !strings.Contains(r.ofPorts(), "remove address uplink0 192.0.2.50/24") {
			t.Error("the lease is held after its end")
		}
		r.host.SetDHCP(server.answer)
		r.settle(90 * time.Second)
		if _, held := r.lease(); !held {
			t.Fatal("no new lease")
		}
		r.ofPorts()
		server.messages()
		server.refuse = true
		r.settle(10 * time.Minute)
		if _, held := r.lease(); held || !strings.Contains(r.ofPorts(), "remove address uplink0 192.0.2.50/24") {
			t.Error("a refused lease is held")
		}
		if n := strings.Count(server.messages(), "request"); n > 8 {
			t.Errorf("%d requests while the server refuses", n)
		}

		l := dhcpclient.Lease{IfName: "gone0", Address: netip.MustParsePrefix("10.9.0.2/24"), End: time.Now().Add(time.Hour)}
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		r.stop()
		if err := r.journal.Put("port-lease", "0:/gone", b); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.settle(time.Second)
		if left := r.journal.Keys("port-lease"); len(left) > 0 {
			t.Errorf("journalled leases: %v", left)
		}
	})
}

// What keeps a port from a lease is shown with the port until it has one: a server that is missing, that refuses, or
// whose address another host has, which is declined.
func TestAPortWithoutALeaseSaysWhy(t *testing.T) {
	onRig(t, func(r *rig) {
		server := &dhcpServer{lease: 20 * time.Minute, refuse: true}
		r.host.SetInterfaces(netstate.Interface{Name: "uplink0", MTU: 1500, Up: true})
		r.apply(dhcpWAN)
		r.settle(time.Minute)
		says := func(want string) {
			t.Helper()
			got := r.port("wan").Error
			if _, fault, _ := strings.Cut(got, "; "); fault != want {
				t.Errorf("the port says %q, want %q", got, want)
			}
			x, err := r.node.Explain(context.Background(), "port", "wan")
			_, text, _ := strings.Cut(want, ": ")
			if err != nil || !strings.Contains(causes(x.Causes), text) {
				t.Errorf("explain says %+v, %v", x, err)
			}
			if f := r.finding("ports"); want != "" && !strings.HasSuffix(f.Text, want) {
				t.Errorf("the doctor says %+v", f)
			}
		}
		says("lease an address by DHCP: no DHCP server answers")
		r.host.SetDHCP(server.answer)
		r.settle(2 * time.Minute)
		says("lease an address by DHCP: server 192.0.2.1 refuses 192.0.2.50")
		server.mu.Lock()
		server.refuse, server.got = false, nil
		server.mu.Unlock()
		r.host.SetInUse(func(netip.Addr) string { return "02:00:00:00:00:66" })
		r.settle(10 * time.Minute)
		says("lease an address by DHCP: address 192.0.2.50 of server 192.0.2.1 is in use by 02:00:00:00:00:66")
		if n := strings.Count(server.messages(), "decline"); n < 3 || n > 8 {
			t.Errorf("%d addresses are declined in 10 minutes", n)
		}
		if _, held := r.lease(); held {
			t.Error("an address in use is leased")
		}
		r.host.SetInUse(nil)
		r.settle(6 * time.Minute)
		says("")
		if _, held := r.lease(); !held {
			t.Error("nothing is leased")
		}
		r.host.SetDHCP(nil)
		r.settle(time.Hour)
		r.apply("ports:\n  wan: {ifName: uplink0, uplink: true}\n")
		r.settle(time.Second)
		says("")
	})
}

// A machine without a clock of its own leases before it learns the time. A restart after that keeps the lease.
func TestALeaseSurvivesAClockThatIsSet(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"forward": 400 * 24 * time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.machine = "m"
				began, set := time.Now(), time.Duration(0)
				r.change = func(o *Options) { o.Uptime = func() time.Duration { return time.Since(began) - set + 2*time.Hour } }
				r.stop()
				r.start()
				server := &dhcpServer{lease: 20 * time.Minute}
				r.host.SetDHCP(server.answer)
				r.host.SetInterfaces(netstate.Interface{Name: "uplink0", MTU: 1500, Up: true})
				r.apply(dhcpWAN)
				r.settle(time.Second)
				before, _ := r.lease()
				server.messages()
				r.ofPorts()
				r.stop()
				if ahead > 0 { // the fake clock can't be set: it runs on, and the uptime does not
					set = ahead
					time.Sleep(ahead)
				} else { // what was before is later
					r.setJournalledLease(func(l *dhcpclient.Lease) {
						for _, at := range []*time.Time{&l.From, &l.Renew, &l.Rebind, &l.End, &l.Booted} {
							*at = at.Add(-ahead)
						}
					})
				}
				r.start()
				r.settle(time.Second)
				if got, done := server.messages(), r.ofPorts(); got != "uplink0 request" || strings.Contains(done, "remove") {
					t.Errorf("the server got %s, and this was done: %s", got, done)
				}
				r.host.SetDHCP(nil)
				r.stop()
				r.start()
				r.settle(25 * time.Minute)
				if l, held := r.lease(); held {
					t.Errorf("held after its end: %+v, before %+v", l, before)
				}
			})
		})
	}
}

// setJournalledLease changes the lease of port wan in the journal, while the node is stopped.
func (r *rig) setJournalledLease(change func(*dhcpclient.Lease)) {
	r.Helper()
	var l dhcpclient.Lease
	if err := json.Unmarshal(r.journal.Get("port-lease", "0:/wan"), &l); err != nil {
		r.Fatal(err)
	}
	change(&l)
	b, err := json.Marshal(l)
	if err != nil {
		r.Fatal(err)
	}
	if err := r.journal.Put("port-lease", "0:/wan", b); err != nil {
		r.Fatal(err)
	}
}

// An interface on which no socket can be opened, such as one without MAC addresses, is tried once a second, however
// often it changes.
func TestASocketThatCannotBeOpenedIsTriedSeldom(t *testing.T) {
	onRig(t, func(r *rig) {
		var tries atomic.Int64
		r.host.RefuseDHCP(func(string) error {
			tries.Add(1)
			return errors.New("must be an Ethernet interface")
		})
		r.apply(dhcpWAN)
		for i := range 50 {
			r.host.SetInterfaces(netstate.Interface{Name: "uplink0", MTU: 1500 + i, Up: true})
			r.settle(100 * time.Millisecond)
		}
		tries.Store(0)
		r.settle(10 * time.Second)
		if n := tries.Load(); n < 9 || n > 11 {
			t.Errorf("%d tries in 10 s", n)
		}
		if got := r.port("wan").Error; !strings.Contains(got, "must be an Ethernet interface") {
			t.Errorf("the port says %q", got)
		}
		r.host.RefuseDHCP(nil)
		server := &dhcpServer{lease: 20 * time.Minute}
		r.host.SetDHCP(server.answer)
		r.settle(2 * time.Second)
		if _, held := r.lease(); !held {
			t.Error("no lease once a socket can be opened")
		}
		if got := r.port("wan").Error; strings.Contains(got, "Ethernet") {
			t.Errorf("with a lease the port says %q", got)
		}
	})
}
