package dhcpclient

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 11, 23, 18, 0, 0, 0, time.UTC)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// good is the reply of an honest server.
func good(t netstate.DHCPType, xid uint32) netstate.DHCPReply {
	return netstate.DHCPReply{Type: t, XID: xid, Address: ip("192.0.2.50"), Bits: 24, Server: ip("192.0.2.1"),
		Via: "02:00:00:00:00:01", Routers: []netip.Addr{ip("192.0.2.1")}, DNS: []netip.Addr{ip("192.0.2.53")},
		Lease: 120 * time.Second, T1: 10 * time.Second, T2: 60 * time.Second}
}

func leased(at time.Time) *Lease {
	l, err := newLease("eth0", good(netstate.DHCPAck, 1), at)
	if err != nil {
		panic(err)
	}
	return l
}

func text(es []Effect) string {
	var out []string
	for _, e := range es {
		switch e := e.(type) {
		case Send:
			q := string(e.Query.Type)
			for _, a := range []struct {
				name string
				addr netip.Addr
			}{{"for", e.Query.Requested}, {"of", e.Query.Server}, {"from", e.Query.Client}, {"to", e.Query.To}} {
				if a.addr.IsValid() {
					q += " " + a.name + " " + a.addr.String()
				}
			}
			out = append(out, q)
		case Wait:
			out = append(out, fmt.Sprintf("wait %v", e.After.Round(time.Second)))
		case Check:
			out = append(out, "check "+e.Address.String())
		case SetLease:
			if e.Lease == nil {
				out = append(out, "no lease")
			} else {
				out = append(out, "lease "+e.Lease.Address.String())
			}
		case Note:
			out = append(out, "note")
		}
	}
	return strings.Join(out, ", ")
}

// run is a client whose timers are driven by hand.
type run struct {
	c      *Client
	at     time.Time
	random uint32
	token  uint64
}

func (r *run) do(after time.Duration, what What) []Effect {
	r.at, r.random = r.at.Add(after), r.random+1
	es := r.c.Step(Event{r.at, r.random, what})
	for _, e := range es {
		if w, ok := e.(Wait); ok {
			r.token = w.Token
		}
	}
	return es
}

func TestClient(t *testing.T) {
	type step struct {
		after time.Duration
		what  any // a What; a DHCPReply gets the client's transaction; "due"
		want  string
	}
	offer, ack := good(netstate.DHCPOffer, 0), good(netstate.DHCPAck, 0)
	nak := netstate.DHCPReply{Type: netstate.DHCPNak, Server: ip("192.0.2.1"), Bits: -1}
	with := func(r netstate.DHCPReply, f func(*netstate.DHCPReply)) netstate.DHCPReply { f(&r); return r }
	short := with(offer, func(r *netstate.DHCPReply) { r.Lease = time.Second })
	elsewhere := with(ack, func(r *netstate.DHCPReply) { r.Address = ip("192.0.2.51") })
	bound := []step{
		{0, LinkChanged{true}, "discover, wait 1s"}, {0, offer, "request for 192.0.2.50 of 192.0.2.1, wait 1s"},
		{0, ack, "check 192.0.2.50, wait 2s"}, {0, Checked{Address: ip("192.0.2.50")}, "note, lease 192.0.2.50/24, wait 10s"},
	}
	taken := Checked{ip("192.0.2.50"), "02:00:00:00:00:66"}
	then := func(steps ...step) []step { return append(bound[:len(bound):len(bound)], steps...) }
	for name, c := range map[string]struct {
		lease *Lease
		steps []step
	}{
		"a lease is taken": {nil, bound},
		"an address that another host has is declined, and looked for again ever later": {nil, []step{bound[0], bound[1],
			bound[2], {1, taken, "note, decline for 192.0.2.50 of 192.0.2.1, wait 10s"}, {10, "due", "discover, wait 1s"},
			bound[1], bound[2], {1, taken, "decline for 192.0.2.50 of 192.0.2.1, wait 20s"}, {0, ack, ""}}},
		"an address that can't be checked is taken": {nil, []step{bound[0], bound[1], bound[2],
			{2, "due", "note, lease 192.0.2.50/24, wait 8s"}}},
		"the check of another address says nothing": {nil, []step{bound[0], bound[1], bound[2],
			{0, Checked{ip("192.0.2.51"), "x"}, ""}, bound[3], {0, taken, ""}}},
		"a carrier that goes during the check": {nil, []step{bound[0], bound[1], bound[2], {0, LinkChanged{false}, ""},
			{0, taken, ""}}},
		"removed during the check, the address is given back": {nil, []step{bound[0], bound[1], bound[2],
			{0, Released{}, "release of 192.0.2.1 from 192.0.2.50 to 192.0.2.1, no lease"}}},
		"without an answer it looks again, ever later": {nil, []step{{0, LinkChanged{true}, "discover, wait 1s"},
			{1, "due", "discover, wait 2s"}, {2, "due", "discover, wait 4s"}}},
		"an offer without an acknowledgement is given up": {nil, []step{bound[0], bound[1],
			{1, "due", "request for 192.0.2.50 of 192.0.2.1, wait 2s"}, {2, "due",
				"request for 192.0.2.50 of 192.0.2.1, wait 4s"},
			{4, "due", "request for 192.0.2.50 of 192.0.2.1, wait 7s"}, {8, "due", "discover, wait 1s"}}},
		"a useless offer is not taken, and noted once": {nil, []step{bound[0], {0, short, "note"}, {0, short, ""},
			bound[1]}},
		"a refused request is tried again, ever later": {nil, []step{bound[0], bound[1], {0, nak, "note, wait 1s"},
			{1, "due", "discover, wait 1s"}, bound[1], {0, nak, "wait 2s"}}},
		"an acknowledgement of another address is ignored": {nil, []step{bound[0], bound[1], {0, elsewhere, ""}, bound[2]}},
		"replies without a request are ignored": {nil, then(step{0, offer, ""}, step{0, elsewhere, ""}, step{0, ack, ""},
			step{0, nak, ""})},
		"a lease is renewed by its server": {nil, then(step{10, "due", "request from 192.0.2.50 to 192.0.2.1, wait 50s"},
			step{0, ack, "lease 192.0.2.50/24, wait 10s"})},
		"then by any, and ends": {nil, then(step{10, "due", "request from 192.0.2.50 to 192.0.2.1, wait 50s"},
			step{50, "due", "request from 192.0.2.50, wait 1m0s"}, step{60, "due", "note, no lease, discover, wait 1s"})},
		"a renewal that its server refuses ends the lease": {nil, then(
			step{10, "due", "request from 192.0.2.50 to 192.0.2.1, wait 50s"}, step{0, nak, "note, no lease, wait 1s"})},
		"a renewal that another server refuses does not": {nil, then(
			step{10, "due", "request from 192.0.2.50 to 192.0.2.1, wait 50s"},
			step{0, with(nak, func(r *netstate.DHCPReply) { r.Server = ip("192.0.2.66") }), ""})},
		"a useless renewal leaves the lease": {nil, then(step{10, "due", "request from 192.0.2.50 to 192.0.2.1, wait 50s"},
			step{0, with(ack, func(r *netstate.DHCPReply) { r.Lease = 0 }), "note"})},
		"after a restart the lease is confirmed": {leased(t0), []step{
			{5, LinkChanged{true}, "request for 192.0.2.50, wait 1s"}, {0, ack, "lease 192.0.2.50/24, wait 10s"}}},
		"without an answer it is kept": {leased(t0), []step{{1, LinkChanged{true}, "request for 192.0.2.50, wait 1s"},
			{1, "due", "request for 192.0.2.50, wait 2s"}, {1, "due", "request for 192.0.2.50, wait 4s"},
			{1, "due", "request for 192.0.2.50, wait 7s"}, {1, "due", "wait 5s"}}},
		"a lease that another network refuses goes": {leased(t0), []step{
			{1, LinkChanged{true}, "request for 192.0.2.50, wait 1s"}, {0, nak, "note, no lease, wait 1s"},
			{1, "due", "discover, wait 1s"}}},
		"a lease that ended meanwhile goes": {leased(t0), []step{{120, LinkChanged{true},
			"note, no lease, discover, wait 1s"}}},
		"one of a clock that jumped back goes": {leased(t0.Add(time.Hour)), []step{{0, LinkChanged{true},
			"note, no lease, discover, wait 1s"}}},
		"without carrier it ends when it ends": {nil, then(step{5, LinkChanged{false}, "wait 1m55s"}, step{115, "due",
			"note, no lease"},
			step{5, LinkChanged{true}, "discover, wait 1s"})},
		"with a new carrier it is confirmed": {nil, then(step{5, LinkChanged{false}, "wait 1m55s"}, step{1,
			LinkChanged{true}, "request for 192.0.2.50, wait 1s"})},
		"the same carrier changes nothing": {nil, then(step{5, LinkChanged{true}, ""})},
		"a carrier that goes without a lease": {nil, []step{bound[0], {0, LinkChanged{false}, ""}, {1, "due", ""}, {0,
			offer, ""}}},
		"a lease is released": {nil, then(step{5, Released{},
			"release of 192.0.2.1 from 192.0.2.50 to 192.0.2.1, no lease"}, step{0, LinkChanged{false}, ""})},
		"without a lease nothing is released": {nil, []step{bound[0], {5, Released{}, ""}}},
		"without carrier since the start it ends, too": {leased(t0), []step{{5, LinkChanged{false}, "wait 1m55s"},
			{1, LinkChanged{false}, ""}, {114, "due", "note, no lease"}}},
		"without carrier it is only dropped": {nil, then(step{5, LinkChanged{false}, "wait 1m55s"}, step{0, Released{},
			"no lease"})},
		"a lease that is over is not released": {nil, then(step{500, Released{}, "note, no lease"})},
		"an old timer does nothing":            {nil, then(step{0, Due{1}, ""})},
	} {
		r := &run{c: New("eth0", c.lease), at: t0}
		for i, s := range c.steps {
			what, isWhat := s.what.(What)
			if reply, ok := s.what.(netstate.DHCPReply); ok {
				reply.XID = r.c.xid
				what, isWhat = Received{reply}, true
			}
			if !isWhat {
				what = Due{r.token}
			}
			after := s.after
			if after < time.Millisecond {
				after *= time.Second
			}
			if got := text(r.do(after, what)); got != s.want {
				t.Errorf("%s: step %d does %q, want %q", name, i, got, s.want)
			}
		}
	}
}

func TestALeaseIsOfItsInterface(t *testing.T) {
	r := &run{c: New("eth1", leased(t0)), at: t0}
	if got := text(r.do(0, LinkChanged{true})); got != "note, no lease, discover, wait 1s" {
		t.Errorf("it does %q", got)
	}
}

// What a hostile or broken server says is refused, or left out.
func TestNewLease(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*netstate.DHCPReply)
		want   string
	}{
		"as it is": {func(*netstate.DHCPReply) {},
			"192.0.2.50/24 gateway 192.0.2.1 dns [192.0.2.53] mtu 0 renew 10s rebind 1m0s end 2m0s"},
		"no address": {func(r *netstate.DHCPReply) { r.Address = netip.Addr{} },
			"address invalid IP: must be the address of a host"},
		"loopback": {func(r *netstate.DHCPReply) { r.Address = ip("127.0.0.2") },
			"address 127.0.0.2: must be the address of a host"},
		"multicast": {func(r *netstate.DHCPReply) { r.Address = ip("224.0.0.5") },
			"address 224.0.0.5: must be the address of a host"},
		"everyone": {func(r *netstate.DHCPReply) { r.Address = ip("255.255.255.255") },
			"address 255.255.255.255: must be the address of a host"},
		"link-local": {func(r *netstate.DHCPReply) { r.Address = ip("169.254.1.1") },
			"address 169.254.1.1: must be the address of a host"},
		"IPv6": {func(r *netstate.DHCPReply) { r.Address = ip("2001:db8::1") },
			"address 2001:db8::1: must be the address of a host"},
		"the world": {func(r *netstate.DHCPReply) { r.Bits = 0 }, "subnet mask of 0 bits: must have 8 to 32"},
		"no mask":   {func(r *netstate.DHCPReply) { r.Bits = -1 }, "subnet mask of -1 bits: must have 8 to 32"},
		"a broadcast address": {func(r *netstate.DHCPReply) { r.Address = ip("192.0.2.255") },
			"address 192.0.2.255/24: must not be the first or the last one of its subnet"},
		"a subnet's address": {func(r *netstate.DHCPReply) { r.Address = ip("192.0.2.0") },
			"address 192.0.2.0/24: must not be the first or the last one of its subnet"},
		"a single host": {func(r *netstate.DHCPReply) { r.Bits = 32 },
			"192.0.2.50/32 gateway 192.0.2.1 dns [192.0.2.53] mtu 0 renew 10s rebind 1m0s end 2m0s"},
		"no server": {func(r *netstate.DHCPReply) { r.Server = netip.Addr{} },
			"server invalid IP: must be the address of a host"},
		"its own server": {func(r *netstate.DHCPReply) { r.Server = r.Address },
			"address 192.0.2.50: must not be the server's"},
		"a lease of 29 s": {func(r *netstate.DHCPReply) { r.Lease = 29 * time.Second },
			"lease of 29s: must be at least 30s"},
		"no lease": {func(r *netstate.DHCPReply) { r.Lease = 0 }, "lease of 0s: must be at least 30s"},
		"a lease for ever": {func(r *netstate.DHCPReply) { r.Lease, r.T1, r.T2 = (1<<32-1)*time.Second, 0, 0 },
			"192.0.2.50/24 gateway 192.0.2.1 dns [192.0.2.53] mtu 0 renew 84h0m0s rebind 147h0m0s end 168h0m0s"},
		"a renewal each second": {func(r *netstate.DHCPReply) { r.T1 = time.Second },
			"192.0.2.50/24 gateway 192.0.2.1 dns [192.0.2.53] mtu 0 renew 1m0s rebind 1m45s end 2m0s"},
		"T2 before T1": {func(r *netstate.DHCPReply) { r.T2 = 9 * time.Second },
			"192.0.2.50/24 gateway 192.0.2.1 dns [192.0.2.53] mtu 0 renew 1m0s rebind 1m45s end 2m0s"},
		"T2 after the end": {func(r *netstate.DHCPReply) { r.T2 = 2 * time.Minute },
			"192.0.2.50/24 gateway 192.0.2.1 dns [192.0.2.53] mtu 0 renew 1m0s rebind 1m45s end 2m0s"},
		"the client as router and DNS server": {func(r *netstate.DHCPReply) {
			r.Routers = []netip.Addr{r.Address, ip("0.0.0.0"), ip("10.9.9.9"), ip("192.0.2.1")}
			r.DNS = []netip.Addr{r.Address, ip("127.0.0.1"), ip("8.8.8.8"), ip("8.8.8.8")}
		}, "192.0.2.50/24 gateway 10.9.9.9 dns [8.8.8.8] mtu 0 renew 10s rebind 1m0s end 2m0s"},
		"edges of the subnet as routers and DNS servers": {func(r *netstate.DHCPReply) {
			r.Routers = []netip.Addr{ip("192.0.2.255"), ip("192.0.2.0"), ip("192.0.2.1")}
			r.DNS = []netip.Addr{ip("192.0.2.255"), ip("8.8.8.8")}
		}, "192.0.2.50/24 gateway 192.0.2.1 dns [8.8.8.8] mtu 0 renew 10s rebind 1m0s end 2m0s"},
		"no router": {func(r *netstate.DHCPReply) { r.Routers = nil },
			"192.0.2.50/24 gateway invalid IP dns [192.0.2.53] mtu 0 renew 10s rebind 1m0s end 2m0s"},
		"an MTU without IPv6": {func(r *netstate.DHCPReply) { r.MTU = 1279 },
			"192.0.2.50/24 gateway 192.0.2.1 dns [192.0.2.53] mtu 0 renew 10s rebind 1m0s end 2m0s"},
		"an MTU of 1280": {func(r *netstate.DHCPReply) { r.MTU = 1280 },
			"192.0.2.50/24 gateway 192.0.2.1 dns [192.0.2.53] mtu 1280 renew 10s rebind 1m0s end 2m0s"},
	} {
		r := good(netstate.DHCPAck, 1)
		c.change(&r)
		got := ""
		l, err := newLease("eth0", r, t0)
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprintf("%s gateway %s dns %v mtu %d renew %v rebind %v end %v", l.Address, l.Gateway, l.DNS, l.MTU,
				l.Renew.Sub(t0), l.Rebind.Sub(t0), l.End.Sub(t0))
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	r := good(netstate.DHCPAck, 1)
	for i := range 20 {
		r.DNS = append(r.DNS, netip.AddrFrom4([4]byte{8, 8, 8, byte(i)}))
	}
	if l, err := newLease("eth0", r, t0); err != nil || len(l.DNS) != maxDNS {
		t.Errorf("%+v, %v: want %d servers", l, err, maxDNS)
	}
}

// Whatever servers answer, and whenever: the client never stops, keeps no lease beyond its end, and without the events
// of a link sends at most a message a second on average and two at once.
func TestAClientSurvivesItsServers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &run{c: New("eth0", nil), at: t0}
		var lease *Lease
		var due time.Time // of the newest Wait
		sent := 0
		apply := func(es []Effect) {
			n := 0
			for _, e := range es {
				switch e := e.(type) {
				case Send:
					n++
				case Wait:
					due = r.at.Add(e.After)
				case SetLease:
					lease = e.Lease
				}
			}
			if sent += n; n > 2 {
				t.Fatalf("%d messages at once", n)
			}
		}
		apply(r.do(0, LinkChanged{true}))
		answered := 0
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "event") {
			case 0, 1:
				apply(r.do(max(0, due.Sub(r.at)), Due{r.token}))
			case 2:
				m := good(rapid.SampledFrom([]netstate.DHCPType{netstate.DHCPOffer, netstate.DHCPAck,
					netstate.DHCPNak}).Draw(t, "type"), r.c.xid)
				m.Lease = time.Duration(rapid.IntRange(0, 400).Draw(t, "lease")) * time.Second
				m.T1 = time.Duration(rapid.IntRange(0, 400).Draw(t, "T1")) * time.Second
				m.T2 = time.Duration(rapid.IntRange(0, 400).Draw(t, "T2")) * time.Second
				m.Address = netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(0, 3).Draw(t, "address"))})
				before := sent
				apply(r.do(0, Received{m}))
				if sent > before {
					answered++
				}
			}
			if lease != nil && !r.at.Before(lease.End) {
				t.Fatalf("at %v the lease is over since %v", r.at, lease.End)
			}
			if !due.After(r.at) {
				t.Fatal("nothing is under way")
			}
		}
		if maxSent := 2 + answered + int(r.at.Sub(t0)/(800*time.Millisecond)); sent > maxSent {
			t.Errorf("%d messages in %v with %d answers, want at most %d", sent, r.at.Sub(t0), answered, maxSent)
		}
	})
}

// A neighbour that sends one useless offer after the other fills no log.
func TestUselessOffersAreNotedOnceForEachDiscover(t *testing.T) {
	r := &run{c: New("eth0", nil), at: t0}
	r.do(0, LinkChanged{true})
	notes := 0
	flood := func(from int) {
		for i := from; i < from+100; i++ {
			bad := good(netstate.DHCPOffer, r.c.xid)
			bad.Lease = time.Duration(i%29) * time.Second
			for _, e := range r.do(time.Millisecond, Received{bad}) {
				if _, is := e.(Note); is {
					notes++
				}
			}
		}
	}
	for i := range 3 {
		flood(i)
		r.do(time.Second, Due{r.c.token})
	}
	if notes != 3 || r.c.Fault() == "" {
		t.Errorf("%d notes for 300 useless offers after 3 discovers; the port says %q", notes, r.c.Fault())
	}
	if got := text(r.do(0, Received{good(netstate.DHCPOffer, r.c.xid)})); !strings.Contains(got, "request") {
		t.Errorf("a good one after them: %s", got)
	}
}

func TestALeaseIsDatedByTheUptime(t *testing.T) {
	l := *leased(t0)
	l.Machine, l.Booted = "m", t0.Add(-time.Minute)
	for name, c := range map[string]struct {
		machine string
		booted  time.Time
		want    time.Duration // later than before
	}{
		"the clock was not set":    {"m", l.Booted.Add(time.Second), 0},
		"set forward":              {"m", l.Booted.Add(9000 * time.Hour), 9000 * time.Hour},
		"set back":                 {"m", l.Booted.Add(-time.Hour), -time.Hour},
		"the machine booted since": {"n", l.Booted.Add(time.Hour), 0},
	} {
		d := l.Dated(c.machine, c.booted)
		if d.From.Sub(l.From) != c.want || d.Renew.Sub(l.Renew) != c.want || d.Rebind.Sub(l.Rebind) != c.want ||
			d.End.Sub(l.End) != c.want || !d.Dated(c.machine, c.booted).End.Equal(d.End) {
			t.Errorf("%s: dated %+v, was %+v", name, d, l)
		}
	}
	old := *leased(t0)
	if d := old.Dated("", t0.Add(time.Hour)); !d.End.Equal(old.End) {
		t.Errorf("one of a former release ends at %v", d.End)
	}
}
