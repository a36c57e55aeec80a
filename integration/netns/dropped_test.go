package netns_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
)

// The counters of the flow limit are those that iptables shows, for both backends.
func TestWhatALimitHasDroppedIsRead(t *testing.T) {
	for _, backend := range []string{"nf_tables", "legacy"} {
		t.Run(backend, func(t *testing.T) {
			if backend == "legacy" {
				legacyTools(t)
			}
			l := newLab(t)
			l.ns.Exec(t, "ip", "link", "set", "lo", "up")
			for _, rule := range []string{"-N ES1-1L", "-A ES1-1L -p tcp -j RETURN", "-A ES1-1L -p udp --sport 1:65535",
				"-A ES1-1L -p udp --dport 7 -m connlimit --connlimit-above 0 --connlimit-mask 0 -j DROP",
				"-A OUTPUT -o lo -j ES1-1L"} {
				l.ns.Exec(t, append([]string{"iptables"}, strings.Fields(rule)...)...)
			}
			ids := []netstate.ID{}
			for _, name := range []string{"ES1-1L", "ES1-2L"} {
				ids = append(ids, netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: name}.ID())
			}
			for n := range uint64(3) {
				got, err := l.host.Counters(t.Context(), owner(1), ids)
				if rules := got[ids[0]]; err != nil || len(got) != 1 || len(rules) != 3 || rules[2].Packets != n {
					t.Errorf("%v, %v: want %d by the last of 3 rules", got, err, n)
				}
				l.ns.Do(t, func() error {
					c, err := net.Dial("udp4", "127.0.0.1:7")
					if err != nil {
						return err
					}
					defer c.Close()
					_, _ = c.Write([]byte("x")) // refused, as the packet is dropped
					return nil
				})
			}
		})
	}
}

// What an app's limits toward DHCP and DNS drop is counted by the kernel, apart from each other and from what is
// dropped for another reason.
func TestTheLimitsOfFramesCount(t *testing.T) {
	t.Parallel()
	l, set := fwTwoNetworks(t, true)
	in := set(fwRules{a: fwAllowAll, b: fwAllowAll})
	var frames netstate.Chain
	for _, o := range netinst.DesiredState(in).State {
		if c, is := o.(netstate.Chain); is && c.Name == "ES1-1F" {
			frames = c
		}
	}
	drops := func() (sum netinst.Drops) {
		t.Helper()
		conn, err := nft.Open("/run/netns/" + l.ns("node"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		all, err := conn.Counters(t.Context(), nft.Table{Family: netstate.BridgeFamily, Name: netinst.GuardTable},
			[]string{"ES1-1F"})
		limits := netinst.LimitsOf(frames)
		if err != nil || len(all["ES1-1F"]) != len(limits) {
			t.Fatalf("%v, %v; want counters of %d rules", all, err, len(limits))
		}
		for i, of := range limits {
			if of != 0 {
				sum[of] += all["ES1-1F"][i].Packets
			}
		}
		return sum
	}
	own, gate := fwMAC(t, "02:00:00:00:61:01"), fwMAC(t, "ff:ff:ff:ff:ff:ff")
	raw := l.fwRaw("a", "eth0")
	send := func(n int, packet []byte) {
		t.Helper()
		f := fwFrame(gate, own, 0x0800, packet)
		for range n {
			if _, err := unix.Write(raw, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := drops(); got.Any() {
		t.Errorf("at first: %v", got)
	}
	began := time.Now()
	send(50, fwUDP(fwA.addr, fwB.addr, 4000, 68, "x")) // an answer of a DHCP server: no limit drops it
	send(232, fwDHCP(fwA.addr, fwGate.addr, 68, own, "x", nil))
	send(2024, fwUDP(fwA.addr, fwGate.addr, 4000, 53, "no query"))
	const fragments, memory = 2160, 1 << 20
	for n := range fragments { // the first of a datagram each
		p := fwUDP(fwA.addr, fwGate.addr, 4000, 9, strings.Repeat("x", 1400))
		binary.BigEndian.PutUint16(p[4:], uint16(n+1))
		p[6] |= 0x20
		binary.BigEndian.PutUint16(p[10:], 0)
		binary.BigEndian.PutUint16(p[10:], fwSum(p[:20], 0))
		send(1, p)
	}
	got, more := drops(), uint64(time.Since(began).Seconds())+1
	var kept, bytes uint64
	_, frag, _ := strings.Cut(l.in("node", "cat", "/proc/net/sockstat"), "FRAG: ")
	if n, err := fmt.Sscanf(frag, "inuse %d memory %d", &kept, &bytes); n != 2 || kept == 0 || bytes > memory {
		t.Errorf("the kernel keeps %d datagrams in %d bytes, of 4 MB (%v): want some, in at most %d", kept, bytes, err, memory)
	}
	t.Logf("the kernel keeps %d datagrams in %d bytes", kept, bytes)
	// Beyond the bursts of 32, 1,024 and 160, as many pass as the time allows.
	for of, want := range map[netinst.Limited]struct{ peak, rate uint64 }{
		netinst.LimitedDHCP: {200, 8}, netinst.LimitedDNS: {1000, 512},
		netinst.LimitedFragments: {2000, 10}} {
		if n := got[of]; n == 0 || n > want.peak || n+more*want.rate < want.peak {
			t.Errorf("limit %d has dropped %d in %d s, want %d", of, n, more, want.peak)
		}
	}
	if got[netinst.LimitedFlows] > 0 {
		t.Errorf("%v", got)
	}
}
