package scenario

import (
	wire "encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// dhcpReply returns a datagram of a DHCP server to a client, with an address that is not the client's.
func dhcpReply(kind byte, xid uint32, chaddr net.HardwareAddr) []byte {
	p := make([]byte, 236)
	copy(p, []byte{2, 1, 6})
	wire.BigEndian.PutUint32(p[4:], xid)
	copy(p[16:], []byte{10, 66, 0, 66})
	copy(p[28:], chaddr)
	p = append(p, 99, 130, 83, 99, 53, 1, kind, 54, 4, 192, 0, 2, 1, 51, 4, 0, 0, 2, 0, 1, 4, 255, 255, 255, 0, 3, 4, 10, 66,
		0, 1, 255)
	return udp(67, 68, p)
}

// A neighbour on the uplink sends forged offers, acknowledgements and refusals as fast as it can. The lease stays and is
// renewed meanwhile, and the daemon's processor time, memory and log have bounds.
func TestAFloodOfForgedDHCPRepliesLeavesTheLease(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	_, count := w.dhcpProvider()
	w.sh("ip addr flush dev uplink0; ip link set uplink0 down; ip addr flush dev uplink1")
	w.start(byUplinks(dhcpPort))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	w.byWan("leased")
	hostile, pid := w.rawOn("isp", "node0"), w.daemonPID()
	own, from := w.mac("node", "uplink0"), w.mac("isp", "node0")
	server, client := netip.MustParseAddr(lab.Gateway), netip.MustParseAddr(lab.NodeAt)
	said := func() int64 {
		st, err := os.Stat(w.NodeLog())
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	memory := func() (kb int) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		if _, err := fmt.Sscan(rest, &kb); err != nil {
			t.Fatal(err)
		}
		return kb
	}
	acks, cpu, rss, logged := count("DHCPACK"), cpuTime(t, pid), memory(), said()
	sent, began := 0, time.Now()
	for ; time.Since(began) < 12*time.Second; sent++ {
		kind := []byte{2, 5, 6}[sent%3]
		frame := ether(own, from, etherIPv4, ipv4(server, client, 17, dhcpReply(kind, rand.Uint32(), own)))
		if err := hostile.send(frame); err != nil {
			t.Fatal(err)
		}
		if sent%20 == 19 {
			time.Sleep(2 * time.Millisecond) // some thousands a second, so that the rest of the machine goes on
		}
	}
	used, grown, lines := cpuTime(t, pid)-cpu, memory()-rss, said()-logged
	renewed := count("DHCPACK") - acks
	t.Logf("%d forged replies in 12 s: %v of processor time, %d KB of memory, %d octets of log, %d renewals", sent, used,
		grown, lines, renewed)
	if sent < 10000 || used > 2*time.Second || grown > 20<<10 || lines > 16<<10 || renewed < 1 {
		t.Errorf("%d forged replies: %v of processor time, %d KB of memory, %d octets of log, %d renewals", sent, used, grown,
			lines, renewed)
	}
	if out := w.in("node", "ip", "-4", "-o", "addr", "show", "dev", "uplink0"); !strings.Contains(out, lab.NodeAt+"/24") ||
		strings.Contains(out, "10.66.") {
		t.Errorf("uplink0 has %s", out)
	}
	w.byWan("after the flood")
}
