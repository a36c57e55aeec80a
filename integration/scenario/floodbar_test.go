package scenario

import (
	wire "encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"edgespan/platform/lab"
)

// floodFor is the time for which each flood is measured once.
var floodFor = flag.Duration("flood-for", 400*time.Millisecond, "time for which each flood of one app is measured")

// void is a namespace whose eth0 leads to itself: a flood of it costs the machine a sender and nothing else.
const void = "void"

// floodWorld has two networks with IPv4 and IPv6: web and client on the first, mate on the second.
type floodWorld struct {
	*world
	own, gate, peer net.HardwareAddr
	ip, other       netip.Addr
	ip6             netip.Addr
}

func newFloodWorld(t testing.TB) *floodWorld {
	t.Helper()
	w := &floodWorld{world: newWorld(t, "web", "client", "mate", void)}
	w.start(floodDoc(allowAll))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2), "app/"+app(3))
	for _, a := range []string{"web", "client", "mate"} {
		w.lease(a)
	}
	w.ip6 = w.slaac("web", net6)
	w.in(void, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
	w.in(void, "ip", "link", "set", "eth1", "up")
	w.own, w.gate, w.peer = w.mac("web", "eth0"), w.mac("node", "es1"), w.mac("client", "eth0")
	w.ip, w.other = w.world.ip(app(1)), w.world.ip(app(2))
	return w
}

// floodDoc is the config of a floodWorld, with the rules of web. The others ping with fragments, 40 a second, and so need
// more of them than an adapter has by default: they would lose pings by their own limit.
func floodDoc(rules string) string {
	second := strings.Replace(net6, ":7:1:", ":7:2:", 1)
	return doc([]string{network6(1, `subnet: "`+net6+`", nat: true`), network6(2, `subnet: "`+second+`", nat: true`)},
		onNet(1, 1, "web", rules), fragmenting(onNet(2, 1, "client", allowAll)),
		fragmenting(onNet(3, 2, "mate", allowAll)))
}

// fragmenting lets an app of onNet send many fragments.
func fragmenting(app string) string {
	return strings.Replace(app, "acl:", "maxFragments: 1000, acl:", 1)
}

// within is the world for a part of the test.
func (w *floodWorld) within(t testing.TB) *floodWorld {
	inner := *w
	inner.world = &world{TB: t, Lab: w.Lab, ctx: w.ctx, node: w.node}
	return &inner
}

// checksummed sets the checksum of a TCP segment over IPv4 (RFC 9293 §3.1): conntrack tracks no other.
func checksummed(src, dst netip.Addr, segment []byte) []byte {
	pseudo := slices.Concat(src.AsSlice(), dst.AsSlice(), []byte{0, 6, 0, byte(len(segment))})
	wire.BigEndian.PutUint16(segment[16:], checksum(pseudo, segment))
	return segment
}

// floodOf is one kind of flood: frames that the app web sends in turns, as fast as it can. Others ping with so many more
// bytes meanwhile, so often.
type floodOf struct {
	kind   string
	frames [][]byte
	large  int
	every  time.Duration
}

// fragments are the frames of a flood of fragments: of each datagram only the first, or only the last. The kernel keeps
// them to assemble the datagram.
func (w *floodWorld) fragments(many int) floodOf {
	f := floodOf{kind: "fragments", large: 2000, every: 50 * time.Millisecond}
	part := make([]byte, 1384)
	for n := range many {
		at, more := n%2*len(part)/8, 1-n%2
		v4 := ipv4(w.ip, webAddr, 17, part)
		wire.BigEndian.PutUint16(v4[4:], uint16(n))
		wire.BigEndian.PutUint16(v4[6:], uint16(more<<13|at))
		wire.BigEndian.PutUint16(v4[10:], 0)
		wire.BigEndian.PutUint16(v4[10:], checksum(v4[:20]))
		header := wire.BigEndian.AppendUint16([]byte{17, 0}, uint16(at<<3|more))
		header = wire.BigEndian.AppendUint32(header, uint32(n))
		v6 := packet6(w.ip6, netip.MustParseAddr(isp6Web), 44, slices.Concat(header, part))
		f.frames = append(f.frames, ether(w.gate, w.own, etherIPv4, v4), ether(w.gate, w.own, etherIPv6, v6))
	}
	return f
}

// absent is an address of the first network that no app has.
func absent(n int) netip.Addr {
	a := netip.MustParsePrefix(net6).Addr().As16()
	wire.BigEndian.PutUint32(a[12:], uint32(n)*65537)
	return netip.AddrFrom16(a)
}

// floods are all kinds, with thousands of different frames each.
func (w *floodWorld) floods() []floodOf {
	const many = 20000
	gateway, all := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("255.255.255.255")
	everybody := net.HardwareAddr{255, 255, 255, 255, 255, 255}
	each := func(kind string, frame func(n int) []byte) floodOf {
		f := floodOf{kind: kind}
		for n := range many {
			f.frames = append(f.frames, frame(n))
		}
		return f
	}
	random := func() net.HardwareAddr {
		return wire.BigEndian.AppendUint32(net.HardwareAddr{2, 0}, rand.Uint32())
	}
	port := func(n int) uint16 { return uint16(2000 + n) }
	discover := func(chaddr net.HardwareAddr, n int) []byte {
		id := wire.BigEndian.AppendUint32([]byte{53, 1, 1, 61, 5, 0}, uint32(n))
		return ipv4(netip.IPv4Unspecified(), all, 17, dhcpAsk(chaddr, id...))
	}
	out := func(packet []byte) []byte { return ether(w.gate, w.own, etherIPv4, packet) }
	syn := func(dst netip.Addr, src, port uint16) []byte {
		return out(ipv4(w.ip, dst, 6, checksummed(w.ip, dst, tcp(src, port, 0x02))))
	}
	return []floodOf{
		each("dhcp-of-others", func(n int) []byte {
			mac := random()
			return ether(everybody, []net.HardwareAddr{mac, w.own}[n%2], etherIPv4, discover(mac, n))
		}),
		each("dhcp-client-ids", func(n int) []byte { return ether(everybody, w.own, etherIPv4, discover(w.own, n)) }),
		each("arp", func(n int) []byte {
			to := netip.AddrFrom4([4]byte{10, 1, 0, byte(n)})
			return ether(everybody, w.own, etherARP, arpAsk(w.own, w.ip, to, ""))
		}),
		each("nd", func(n int) []byte {
			to, g := absent(n), netip.MustParseAddr("ff02::1:ff00:0").As16()
			copy(g[13:], to.AsSlice()[13:])
			group := netip.AddrFrom16(g)
			body := slices.Concat(make([]byte, 4), to.AsSlice(), []byte{1, 1}, w.own)
			return ether(group6(group), w.own, etherIPv6, packet6(w.ip6, group, 58, icmp6(w.ip6, group, 135, body)))
		}),
		each("dns", func(n int) []byte {
			q, err := new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.example.net.", n), dns.TypeA).Pack()
			if err != nil {
				w.Fatal(err)
			}
			return out(ipv4(w.ip, gateway, 17, udp(port(n), 53, q)))
		}),
		each("syn-to-world", func(n int) []byte { return syn(webAddr, port(n), 80) }),
		each("syn-to-gateway", func(n int) []byte { return syn(gateway, port(n), 53) }),
		each("syn-to-app", func(n int) []byte {
			return ether(w.peer, w.own, etherIPv4, ipv4(w.ip, w.other, 6, checksummed(w.ip, w.other, tcp(port(n), 7, 0x02))))
		}),
		each("flows", func(n int) []byte {
			return out(ipv4(w.ip, webAddr, 17, udp(port(n*7), port(n), []byte("x"))))
		}),
		each("bulk", func(int) []byte {
			return out(ipv4(w.ip, webAddr, 17, udp(7, floodPort, make([]byte, 1372))))
		}),
		each("ping-of-gateway", func(n int) []byte {
			return out(ipv4(w.ip, gateway, 1, lab.EchoRequest(7, uint16(n))))
		}),
		each("absent-hosts", func(n int) []byte { // the node need not look for these
			if n%2 == 0 {
				return out(ipv4(w.ip, netip.AddrFrom4([4]byte{10, 1, 0, byte(n)}), 17, udp(7, floodPort, []byte("x"))))
			}
			return ether(w.gate, w.own, etherIPv6, packet6(w.ip6, absent(n), 17, udp6(w.ip6, absent(n), floodPort, "x")))
		}),
		each("broadcast", func(n int) []byte {
			return ether(everybody, w.own, etherIPv4, ipv4(w.ip, netip.MustParseAddr("10.1.0.255"), 17, udp(7, port(n), []byte("x"))))
		}),
		w.fragments(many / 2),
	}
}

// harm is what an app notices: lost pings of the world, of all that it sent, and how long its gateway's DNS takes.
type harm struct {
	sent, lost    int
	asked, failed int
	median, p99   time.Duration // a query that fails takes as long as it was waited for
}

func (h harm) String() string {
	return fmt.Sprintf("%d of %d pings lost, %d of %d queries failed, DNS %v (p99 %v)", h.lost, h.sent, h.failed, h.asked,
		h.median.Round(time.Microsecond), h.p99.Round(time.Microsecond))
}

// suffers measures what an app notices for a time.
func (w *floodWorld) suffers(short string, network int, f floodOf) (h harm) {
	w.Helper()
	pings, err := w.PingLoopOf(short, webAddr, max(f.every, 2*time.Millisecond), f.large)
	if err != nil {
		w.Error(err)
		return h
	}
	var took []time.Duration
	err = w.inside(short, func() error {
		conn, err := dns.Dial("udp4", fmt.Sprintf("10.%d.0.1:53", network))
		if err != nil {
			return err
		}
		defer conn.Close()
		tick := time.NewTicker(4 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(*floodFor); time.Now().Before(end); <-tick.C {
			began := time.Now()
			if err := askGateway(conn, fmt.Sprintf("app%d.n%d.edge.", network+1, network)); err != nil {
				h.failed++
			}
			h.asked++
			took = append(took, time.Since(began))
		}
		return nil
	})
	c := pings.Stop()
	if err != nil {
		w.Error(err)
	}
	h.sent, h.lost = c.Sent, c.Lost+c.Wrong
	slices.Sort(took)
	if n := len(took); n > 0 {
		h.median, h.p99 = took[n/2], took[min(n-1, n*99/100)]
	}
	return h
}

// askGateway sends one query and waits for its answer, a second at most.
func askGateway(conn *dns.Conn, name string) error {
	q := new(dns.Msg).SetQuestion(name, dns.TypeA)
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if err := conn.WriteMsg(q); err != nil {
		return err
	}
	for {
		a, err := conn.ReadMsg()
		if err != nil {
			return err
		}
		if a.Id == q.Id {
			if len(a.Answer) == 0 {
				return fmt.Errorf("%s: %s", name, dns.RcodeToString[a.Rcode])
			}
			return nil
		}
	}
}

// victims are the apps that must notice no flood: one of the same network, and one of another.
var victims = []struct {
	short   string
	network int
}{{"client", 1}, {"mate", 2}}

// under measures what both victims notice while a namespace sends frames as fast as it can.
func (w *floodWorld) under(short string, of floodOf) (found [2]harm, rate float64) {
	w.Helper()
	f := w.flood(short, of.frames...)
	f.hit(w.world, 1000)
	before, began := f.sent.Load(), time.Now()
	done := make(chan struct{})
	go func() { defer close(done); found[0] = w.suffers(victims[0].short, victims[0].network, of) }()
	found[1] = w.suffers(victims[1].short, victims[1].network, of)
	<-done
	rate = float64(f.sent.Load()-before) / time.Since(began).Seconds()
	if err := f.end(); err != nil {
		w.Error(err)
	}
	return found, rate
}

// harmOf measures a flood of web between two victims, beside one into the void: in percent, what the worse of both
// loses of its pings or queries, and how many times as long as beside the void its DNS takes, by the medians of rounds.
func (w *floodWorld) harmOf(f floodOf, rounds int) (loss, slower float64) {
	w.Helper()
	var all [2]harm
	var ratios [2][]float64
	for range rounds {
		control, _ := w.under(void, f)
		found, rate := w.under("web", f)
		w.Logf("%s: %.0f frames a second", f.kind, rate)
		for i, v := range victims {
			w.Logf("  %-6s beside the void: %v", v.short, control[i])
			w.Logf("  %-6s beside the flood: %v", v.short, found[i])
			all[i].sent, all[i].lost = all[i].sent+found[i].sent, all[i].lost+found[i].lost
			all[i].asked, all[i].failed = all[i].asked+found[i].asked, all[i].failed+found[i].failed
			ratios[i] = append(ratios[i], float64(found[i].median)/float64(max(control[i].median, 1)))
		}
	}
	for i := range victims {
		slices.Sort(ratios[i])
		percent := func(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
		loss = max(loss, percent(all[i].lost, all[i].sent), percent(all[i].failed, all[i].asked))
		slower = max(slower, ratios[i][rounds/2])
	}
	return loss, slower
}

// The bars of a flood: what others lose in percent, and how much longer their DNS takes.
const (
	maxFloodLoss   = 1.0
	maxFloodSlower = 2.0
)

// An app floods its network in each way that it can. Neither an app of its network nor one of another network loses
// more than 1 % of its packets, and their DNS takes at most twice as long as beside a flood that reaches nothing of the
// node and takes a processor only.
func TestAFloodOfOneAppHarmsNoOther(t *testing.T) {
	w := newFloodWorld(t)
	limits := map[string]string{"dhcp-client-ids": "DHCP requests", "dns": "DNS queries", "fragments": "fragments"}
	var met []string
	for _, f := range w.floods() {
		t.Run(f.kind, func(t *testing.T) {
			if limit := limits[f.kind]; limit != "" {
				met = append(met, limit)
			}
			loss, slower := w.within(t).harmOf(f, 1)
			if loss > maxFloodLoss || slower > maxFloodSlower { // once may be the machine
				loss, slower = w.within(t).harmOf(f, 5)
			}
			if loss > maxFloodLoss || slower > maxFloodSlower {
				t.Errorf("others lose %.1f %%, at most %v, and DNS takes %.1f times as long, at most %v", loss, maxFloodLoss,
					slower, maxFloodSlower)
			}
		})
	}
	w.apply(floodDoc(allowAll + ", more: {action: drop, match: {ip: 192.0.2.250}}"))
	w.eventually("the limits that it has met", func() bool { // they are read before a change, and each minute
		out := w.cli("explain", "app/app1/0")
		return !slices.ContainsFunc(met, func(limit string) bool { return !strings.Contains(out, limit+" dropped: ") })
	})
	for n := range 2 {
		if s := w.status("ni", ni(n+1)); s["state"] != "Present" || s["error"] != "" {
			t.Errorf("network %d is %v", n+1, s)
		}
	}
}

// BenchmarkFlood measures each kind of flood for longer.
func BenchmarkFlood(b *testing.B) {
	w := newFloodWorld(b)
	*floodFor = max(*floodFor, time.Second)
	for _, f := range w.floods() {
		b.Run(f.kind, func(b *testing.B) {
			inner := w.within(b)
			var loss, slower float64
			for b.Loop() {
				loss, slower = inner.harmOf(f, 3)
			}
			b.ReportMetric(loss, "lost-%")
			b.ReportMetric(slower, "x/void")
			b.ReportMetric(0, "ns/op")
		})
	}
}
