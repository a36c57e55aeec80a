package netns_test

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// A changed secret disturbs nothing and counts for the next connection; a changed connection is made anew.
func TestIPsecChangesInPlace(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.vpn(1)
	l.put(v)
	before, pid := l.up().Peers[0].SPIs, l.charonPID(3)
	lost := l.flow(200, "0.01")
	v.Generation, v.IPsec.Local.Secret = 2, "the next secret"
	l.put(v)
	v.Generation, v.Limits = 3, netstate.ProcessLimits{Memory: 200, Processor: 100, Processes: 64}
	l.put(v)
	if n := lost(); n > 0 {
		t.Errorf("with another secret, %d of 200 packets are lost", n)
	}
	if now := l.status().Peers[0].SPIs; now != before {
		t.Errorf("with another secret, the peers have connected anew: %s, was %s", now, before)
	}
	l.swan.load(swanPSK("the next secret", "", ""))
	v.Generation, v.IPsec.ESP = 4, "aes256gcm16"
	l.put(v)
	for end := time.Now().Add(ipsecTimeout); ; time.Sleep(20 * time.Millisecond) {
		if s := l.status(); s.Up && s.Peers[0].SPIs != before {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("with other proposals, the peers do not connect anew: %+v", l.status())
		}
	}
	if out, err := l.swan.swanctl("--list-sas"); err != nil || !strings.Contains(out, "ESP:AES_GCM_16-256") {
		t.Errorf("other proposals: %v\n%s", err, out)
	}
	l.carries()
	if now := l.charonPID(3); now != pid {
		t.Errorf("the process is %d, was %d", now, pid)
	}
	if have, found := l.observe(); !found || have.Text() != v.Text() {
		t.Errorf("observed %v %q, want %q", found, have.Text(), v.Text())
	}
}

func TestIPsecPassesANAT(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.router.Exec(t, "iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "reth0", "-j", "MASQUERADE")
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	l.put(l.vpn(1))
	l.up()
	l.carries()
	if out, err := l.swan.swanctl("--list-sas"); err != nil || !strings.Contains(out, "198.18.0.1[") {
		t.Errorf("the peer does not see the router: %v\n%s", err, out)
	}
	// The router forgets the connection, as when it restarts; what it maps next has another port.
	l.router.Exec(t, "conntrack", "-F")
	l.carries()
}

func TestIPsecOverIPv6(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	for _, x := range []struct {
		ns   *netns.NS
		line string
	}{
		{l.node, "ip addr add fd00:1::2/64 dev up0 nodad"}, {l.router, "ip addr add fd00:1::1/64 dev rup0 nodad"},
		{l.router, "ip addr add fd00::1/64 dev reth0 nodad"}, {l.peer, "ip addr add fd00::9/64 dev eth0 nodad"},
		{l.router, "sysctl -qw net.ipv6.conf.all.forwarding=1"}, {l.peer, "ip route add default via fd00::1"},
		{l.peer, "ip addr add fd00:b::1/128 dev lo"},
		{l.node, "ip -6 route add default via fd00:1::1 dev up0 src fd00:1::2 table 50003"},
		{l.node, "ip -6 rule add prio 14003 fwmark 0xe50003/0xffffff lookup 50003"},
	} {
		x.ns.Exec(t, strings.Fields(x.line)...)
	}
	conf := swanPSK(ipsecSecret, "", "")
	for _, x := range [][2]string{{ipsecPeer, "fd00::9"}, {"10.2.0.0/24", "10.2.0.0/24, fd00:b::/64"},
		{"10.1.0.0/24", "10.1.0.0/24, fd00:a::/64"}} {
		conf = strings.Replace(conf, x[0], x[1], 1)
	}
	l.startSwan(conf)
	v := l.vpn(1)
	v.IPsec.Address = "fd00::9"
	c := &v.IPsec.Children[0]
	c.Local = append(c.Local, netip.MustParsePrefix("fd00:a::/64"))
	c.Remote = append(c.Remote, netip.MustParsePrefix("fd00:b::/64"))
	l.put(v)
	l.node.Exec(t, "ip", "addr", "add", "fd00:a::1/128", "dev", ipsecLink, "nodad")
	l.node.Exec(t, "ip", "route", "add", "fd00:b::/64", "dev", ipsecLink, "src", "fd00:a::1")
	if s := l.up(); s.Peers[0].Endpoint != "[fd00::9]:4500" {
		t.Errorf("status: %+v", s)
	}
	l.carries()
	if lost := pings(t, l.node, "fd00:a::1", "fd00:b::1", 10, "0.01"); lost > 0 {
		t.Errorf("%d of 10 packets of IPv6 are lost", lost)
	}
}

// A neighbour floods the port of IKE: the log and the memory have bounds, what stands is not disturbed, and what is
// wrong is still told.
func TestIPsecWithstandsAFlood(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "remote_addrs = 198.18.1.2", ""))
	v := l.vpn(1)
	v.IPsec.Address, v.IPsec.Listen = "", true
	l.put(v)
	if out, err := l.swan.swanctl("--initiate", "--child", "lan", "--timeout", "5"); err != nil {
		t.Fatalf("connect: %v: %s", err, out)
	}
	l.up()
	before := memoryOf(t, l.charonPID(3))
	largest := int64(0)
	log := filepath.Join(l.dir, "run", "ni", "3", "vpn", "own", "log")
	err := proc.In(l.router.Path, func() error {
		c, err := net.Dial("udp", "198.18.1.2:500")
		if err != nil {
			return err
		}
		defer c.Close()
		// An IKE_SA_INIT of its own SPI each, whose first payload is broken.
		b := make([]byte, 200)
		b[16], b[17], b[18], b[19] = 33, 0x20, 34, 0x08
		binary.BigEndian.PutUint32(b[24:], uint32(len(b)))
		for i := range 30000 {
			if _, err := rand.Read(b[:8]); err != nil {
				return err
			}
			_, _ = c.Write(b) // refused at times, by what it sends back
			if i%500 == 0 {
				time.Sleep(5 * time.Millisecond)
				if st, err := os.Stat(log); err == nil {
					largest = max(largest, st.Size())
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if largest > 1<<20 {
		t.Errorf("the log has grown to %d octets", largest)
	}
	l.carries()
	time.Sleep(2 * time.Second) // it answers what waits
	after := memoryOf(t, l.charonPID(3))
	t.Logf("the log grew to %d KiB; memory %d KiB, was %d", largest>>10, after, before)
	if after > before+32<<10 {
		t.Errorf("memory grows from %d to %d KiB", before, after)
	}
	if s := l.status(); !s.Up {
		t.Errorf("status: %+v", s)
	}
	l.swan.load(strings.Replace(swanPSK(ipsecSecret, "remote_addrs = 198.18.1.2", ""), "id = peer.example", "id = other.example", 1))
	if out, err := l.swan.swanctl("--terminate", "--ike", "gw"); err != nil {
		t.Errorf("terminate: %v: %s", err, out)
	}
	begin := time.Now()
	if out, err := l.swan.swanctl("--initiate", "--child", "lan", "--timeout", "5"); err == nil {
		t.Errorf("a peer of another identity connects: %s", out)
	}
	l.fails(begin, "identity mismatch")
}

// memoryOf is the memory of a process that no other has, in KiB.
func memoryOf(t *testing.T, pid int) (kib int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nPss:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// Routes decide what goes into a tunnel without children: what the peer narrows it to is accepted, also if this node has
// no address in it yet.
func TestIPsecFollowsWhatThePeerNarrows(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.vpn(1)
	v.IPsec.Policies, v.IPsec.Children = false, nil
	l.put(v)
	begin := time.Now()
	l.up()
	t.Logf("up after %.1f s", time.Since(begin).Seconds())
	l.carries()
}
