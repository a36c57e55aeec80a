package scenario

import (
	"bufio"
	wire "encoding/binary"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/netinst"
)

// onLink4 is an IPv4 prefix of the uplink with more addresses than the kernel has room for neighbours.
const onLink4 = "100.64.0.0/16"

// neighbourDoc is the config of a newNeighbourWorld, with the rules of web.
func neighbourDoc(rules string) string {
	second := strings.Replace(net6, ":7:1:", ":7:2:", 1)
	return doc([]string{network6(1, `subnet: "`+net6+`", nat: true`), network6(2, `subnet: "`+second+`", nat: true`)},
		onNet(1, 1, "web", rules), onNet(2, 2, "mate", allowAll))
}

// newNeighbourWorld has two networks with both families, and neighbours of the uplink with the numbers 100 to 109.
func newNeighbourWorld(t *testing.T) (w *world, from4, from6 netip.Addr) {
	w = newWorld6(t, "web", "mate")
	w.start(neighbourDoc(allowAll))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	from6 = w.slaac("web", net6)
	w.slaac("mate", strings.Replace(net6, ":7:1:", ":7:2:", 1))
	from4 = w.lease("web").IP
	w.lease("mate")
	w.in("node", "ip", "addr", "add", "100.64.0.2/16", "dev", w.Provider(0).Dev)
	for n := 100; n < 110; n++ {
		w.in("isp", "ip", "addr", "add", fmt.Sprintf("2001:db8:99::%d/64", n), "dev", w.Provider(0).Peer, "nodad")
		w.in("isp", "ip", "addr", "add", fmt.Sprintf("100.64.0.%d/16", n), "dev", w.Provider(0).Peer)
	}
	return w, from4, from6
}

// absentNeighbours are packets of web to hosts that the uplink does not have, in turns of both families.
func (w *world) absentNeighbours(from4, from6 netip.Addr, many int) (frames [][]byte) {
	own, gate := w.mac("web", "eth0"), w.mac("node", "es1")
	to6, to4 := netip.MustParsePrefix(isp6Prefix).Addr().As16(), netip.MustParsePrefix(onLink4).Addr().As4()
	for n := range many {
		wire.BigEndian.PutUint32(to6[8:], 0xbad)
		wire.BigEndian.PutUint32(to6[12:], uint32(n))
		wire.BigEndian.PutUint16(to4[2:], uint16(1000+n))
		six := netip.AddrFrom16(to6)
		frames = append(frames, ether(gate, own, etherIPv6, packet6(from6, six, 17, udp6(from6, six, floodPort, "x"))),
			ether(gate, own, etherIPv4, ipv4(from4, netip.AddrFrom4(to4), 17, udp(7, floodPort, []byte("x")))))
	}
	return frames
}

// An app sends to thousands of absent hosts on the uplink's own link, of both families, and nothing forbids it. Apps of
// other networks find their neighbours there: the node looks for some of those hosts at a time, and the kernel's table,
// which is that of the whole machine, stays as good as empty. Its rules and what they count stay as well.
func TestAnAppCannotFillTheTableOfNeighbours(t *testing.T) {
	t.Parallel()
	w, from4, from6 := newNeighbourWorld(t)
	chain := func() string { return w.in("node", "nft", "-a", "list", "chain", "inet", "edgespan", "ES1-1H") }
	counter := regexp.MustCompile(`counter packets (\d+) bytes \d+`)
	before := counter.ReplaceAllString(chain(), "")
	f := w.flood("web", w.absentNeighbours(from4, from6, 20000)...)
	f.hit(w, 80000)
	for n := 100; n < 104; n++ {
		for _, to := range []string{fmt.Sprintf("2001:db8:99::%d", n), fmt.Sprintf("100.64.0.%d", n)} {
			if out, err := w.Command(w.ctx, "mate", "ping", "-c", "1", "-W", "2", to).CombinedOutput(); err != nil {
				t.Errorf("mate doesn't reach neighbour %s of the uplink: %v: %s", to, err, out)
			}
		}
	}
	for _, family := range []string{"-6", "-4"} {
		w.eventually("the node looks for hosts", func() bool { // the kernel gives up after 3 s, and one counts for 5 s
			n := strings.Count(w.in("node", "ip", family, "neigh", "show", "nud", "incomplete"), "INCOMPLETE")
			if n > netinst.DefaultMaxNeighbours+8 { // and some of others
				t.Errorf("%s: the node looks for %d hosts at a time, want at most %d", family, n, netinst.DefaultMaxNeighbours)
			}
			return n > 0
		})
	}
	if err := f.end(); err != nil {
		t.Error(err)
	}
	w.reaches6("web", isp6Web) // by the gateway, which does not count
	if m := counter.FindStringSubmatch(chain()); m == nil || len(m[1]) < 5 {
		t.Errorf("counted: %q", m)
	}
	// What limits have dropped is read before a change, and each minute. Another rule of the app leaves the limit alone.
	w.apply(neighbourDoc(allowAll + ", more: {action: drop, match: {ip: 192.0.2.250}}"))
	w.eventually("the warning of the app", func() bool {
		return strings.Contains(w.cli("explain", "app/app1/0"),
			"neighbours of a port dropped: more than 64 without an answer in 5 s (maxNeighbours)")
	})
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2))
	if after := counter.ReplaceAllString(chain(), ""); after != before {
		t.Errorf("the chain was written again: %s, want %s", after, before)
	}
}

// The limit is no limit of a rate: an app that looks for absent hosts, for longer than a neighbour counts, loses nothing
// of a stream to one host that never answers, and nothing of a flow that has an answer, if that paused meanwhile.
func TestTheLimitOfNeighboursSparesStreamsAndKnownFlows(t *testing.T) {
	t.Parallel()
	w, from4, from6 := newNeighbourWorld(t)
	ping := w.Command(w.ctx, "web", "ping", "-c", "2", "-i", "6", "2001:db8:99::105")
	out, err := ping.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := ping.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "icmp_seq=1 ") { // it is known
	}
	at := netip.MustParseAddr("2001:db8:99::106")
	received := w.countUDP("isp", fmt.Sprintf("[%s]:%d", at, floodPort))
	stream := ether(w.mac("node", "es1"), w.mac("web", "eth0"), etherIPv6,
		packet6(from6, at, 17, udp6(from6, at, floodPort, "stream")))
	s, stop, ended := w.raw("web"), make(chan struct{}), make(chan int64, 1)
	absent := w.absentNeighbours(from4, from6, 3500)
	go func() {
		pace, sent := time.NewTicker(time.Millisecond), int64(0) // so slowly that no queue is full
		defer pace.Stop()
		defer func() { ended <- sent }()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-pace.C:
			}
			if i%10 == 0 {
				if err := s.send(stream); err != nil {
					t.Error(err)
					return
				}
				sent++
			}
			if err := s.send(absent[i%len(absent)]); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	end := sync.OnceValue(func() int64 { close(stop); return <-ended })
	t.Cleanup(func() { end() })
	last := ""
	for lines.Scan() {
		if strings.Contains(lines.Text(), "received") {
			last = lines.Text()
		}
	}
	if err := ping.Wait(); err != nil || !strings.Contains(last, " 2 received") {
		t.Errorf("ping: %v: %s", err, last)
	}
	sent := end()
	w.eventually("the stream", func() bool { return received.n.Load() >= sent })
	// While others count, places become free one by one. So they are all taken at once, for 5 s.
	counted := regexp.MustCompile(`\b100\.64\.([3-9]|1[0-7])\.`)
	w.eventually("no absent host counts", func() bool { return !counted.MatchString(w.in("node", "nft", "list", "ruleset")) })
	for _, frame := range absent[:400] {
		if err := s.send(frame); err != nil {
			t.Fatal(err)
		}
	}
	w.fails("web", "ping", "-c", "1", "-W", "1", "100.64.0.107") // it is one host too many, as long as that lasts
	w.in("web", "ping", "-c", "1", "-W", "5", w.Provider(0).Gateway)
	w.eventually("places of neighbours", func() bool {
		r, err := w.Exec(w.ctx, "web", "ping", "-c", "1", "-W", "1", "100.64.0.107")
		return err == nil && r.Code == 0
	})
}
