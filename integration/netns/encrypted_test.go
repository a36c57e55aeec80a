package netns_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

const (
	outerPort  = 21821 // of WireGuard
	sealedPort = 23821 // of the VXLAN inside it
)

var sealedHost = netinst.HostState([]netinst.HostNetwork{{Number: 1, Switch: true, Sealed: sealedPort}})

func insideOf(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprint("fd12:3456:789a::", i+1)) }

// encrypt deploys a cluster of two nodes with encrypted tunnels, with the keys that the nodes make.
func (w *town) encrypt() {
	w.t.Helper()
	keys := w.keys()
	for i, l := range w.nodes {
		l.must(hostOwner, sealedHost)
		l.must(owner(1), l.desired(encryptedOf(i, 1, keys)))
	}
}

// keys returns the keys of the nodes.
func (w *town) keys() (out []netstate.KeptKey) {
	w.t.Helper()
	for _, l := range w.nodes {
		k, err := l.host.ClusterKeys()
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, k)
	}
	return out
}

// encryptedOf returns the network of the cluster on node i, by a generation of its config.
func encryptedOf(i int, generation uint64, keys []netstate.KeptKey) netinst.NetworkInstanceConfig {
	c := clusterOf(2, i, false)
	c.MTU, c.WireGuardPort, c.ClusterKey, c.Generation = 1370, outerPort, keys[i].Public, generation
	for k := range c.Tunnels {
		tunnel := &c.Tunnels[k]
		tunnel.Encrypted = &netinst.TunnelKey{PublicKey: keys[1-i].Public, NextKey: keys[1-i].Next,
			Endpoint: netip.AddrPortFrom(tunnel.Remote, outerPort)}
		tunnel.Local, tunnel.Remote, tunnel.Port, tunnel.MTU = insideOf(i), insideOf(1-i), sealedPort, 1370
	}
	return c
}

// A node replaces its key, which the other one knows from the announcement and takes when it shows itself: nothing is
// told to it then. Packets pass but for a moment, and none is lost when the other one's config follows. What others know
// of the old key opens nothing any more.
func TestAReplacedKeyOfAClusterInterruptsHardlyAnything(t *testing.T) {
	t.Parallel()
	w := newTown(t, 2)
	w.encrypt()
	until(t, "a packet crosses", func() bool { return w.pings(0, 1, 100) })
	a, b := w.nodes[0], w.nodes[1]
	if err := a.host.AnnounceClusterKey(); err != nil {
		t.Fatal(err)
	}
	announced := w.keys()
	to, from := netip.MustParseAddr("10.99.0.2"), netip.MustParseAddr("10.99.0.1")
	traffic := func(f func()) (lost int) {
		back := 0
		lost = during(t, a.app, to, func() { back = during(t, b.app, from, f) })
		return lost + back
	}
	peers := func(l *lab) string {
		st, err := l.host.TunnelStatus(t.Context(), owner(1))
		if err != nil || len(st.Peers) != 1 || !st.Peers[0].Up {
			return fmt.Sprintf("%+v, %v", st, err)
		}
		return st.Peers[0].Identity
	}
	if lost := traffic(func() { b.must(owner(1), b.desired(encryptedOf(1, 2, announced))) }); lost > 0 {
		t.Errorf("the announcement loses %d packets", lost)
	}
	if got := peers(b); got != announced[0].Public {
		t.Errorf("after the announcement the peer is %s", got)
	}
	if err := a.host.ReplaceClusterKey(); err != nil {
		t.Fatal(err)
	}
	replaced := w.keys()
	lost := traffic(func() {
		a.must(owner(1), a.desired(encryptedOf(0, 1, replaced)))
		until(t, "the other node follows", func() bool { return peers(b) == announced[0].Next })
	})
	t.Logf("the replacement loses %d packets of both ways, of 200 a second", lost)
	if lost > 200 { // a handshake of two helpers, which take their turns with the tests beside this one
		t.Errorf("the replacement loses %d packets: a second", lost)
	}
	seen, err := b.host.Observe(t.Context(), owner(1), true)
	if want := b.desired(encryptedOf(1, 2, announced))[vpnID].Text(); err != nil || seen[vpnID].Text() != want {
		t.Errorf("what has followed is %v, not as desired: %s, %v", seen[vpnID], want, err)
	}
	if lost := traffic(func() { b.must(owner(1), b.desired(encryptedOf(1, 3, replaced))) }); lost > 0 {
		t.Errorf("the config that follows loses %d packets", lost)
	}
	if got := peers(b); got != announced[0].Next {
		t.Errorf("in the end the peer is %s", got)
	}
}

var vpnID = netstate.ID{Kind: netstate.KindVPN, Name: netstate.VPNName(1)}

// leaving returns how many packets that node i has sent to the underlay were WireGuard's, and how many were others.
func (w *town) leaving(i int) (encrypted, others int) {
	w.t.Helper()
	count := func(rule string) int {
		for line := range strings.Lines(w.nodes[i].ns.Exec(w.t, "iptables", "-nvxL", "OUTPUT")) {
			if words := strings.Fields(line); strings.Contains(line, rule) && len(words) > 0 {
				n, err := strconv.Atoi(words[0])
				if err != nil {
					w.t.Fatalf("%v in %q", err, line)
				}
				return n
			}
		}
		w.t.Fatalf("no rule %s", rule)
		return 0
	}
	return count("count-wireguard"), count("count-others")
}

// A cluster with encryption is one layer-2 network as any other, and on the underlay there is only WireGuard. Neither a
// frame that a neighbour on the underlay makes up nor a connection of another member reaches anything.
func TestAnEncryptedClusterShowsNothingToItsUnderlay(t *testing.T) {
	t.Parallel()
	w := newTown(t, 2)
	for i, l := range w.nodes {
		// Of others, ICMP may go out: a handshake that comes before the other node's interface is there is refused.
		for _, rule := range []string{"-p udp --dport 21821 -m comment --comment count-wireguard",
			"! -p icmp -m comment --comment count-others"} {
			l.ns.Exec(t, strings.Fields("iptables -A OUTPUT -o u0 "+rule+" -j ACCEPT")...)
		}
		l.ns.Exec(t, "ip", "-6", "addr", "add", fmt.Sprint("fd00:98::", i+1, "/64"), "dev", "u0", "nodad")
	}
	w.encrypt()
	until(t, "a packet crosses", func() bool { return w.pings(0, 1, 100) })
	const fits = 1370
	for _, way := range [][2]int{{0, 1}, {1, 0}} {
		if !w.pings(way[0], way[1], fits) {
			t.Errorf("a packet of %d octets does not cross from %d to %d", fits, way[0], way[1])
		}
	}
	for i := range w.nodes {
		if encrypted, others := w.leaving(i); encrypted == 0 || others != 0 {
			t.Errorf("node %d sent %d packets of WireGuard and %d others", i+1, encrypted, others)
		}
	}
	w.attack(t)
	w.visit(t)
	// A daemon that starts anew takes over what stands.
	for i, l := range w.nodes {
		l.open()
		if st, err := l.host.TunnelStatus(t.Context(), owner(1)); err != nil || !st.Up || len(st.Peers) != 1 {
			t.Errorf("node %d: %+v, %v", i+1, st, err)
		}
	}
	if !w.pings(0, 1, fits) {
		t.Error("nothing crosses after the start")
	}
	for _, l := range w.nodes {
		l.must(owner(1), netstate.State{})
		l.must(hostOwner, netstate.State{})
		if links := l.ns.Exec(t, "ip", "-br", "link"); strings.Contains(links, "evpn") || strings.Contains(links, "es1") {
			t.Errorf("left: %s", links)
		}
	}
}

// attack has a neighbour on the underlay send frames of the cluster in the clear. The test sees them arrive once the
// guard is gone: it could tell.
func (w *town) attack(t *testing.T) {
	w.under.Exec(t, "ip", "-6", "addr", "add", "fd00:98::66/64", "dev", "sw", "nodad")
	frame := make([]byte, 8+60)
	frame[0] = 8                                                             // a VNI follows (RFC 7348 §5)
	binary.BigEndian.PutUint32(frame[4:], tunnel(0, 1, false).VNI<<8)        // of the cluster
	copy(frame[8:], []byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 66}) // broadcast
	frame[8+12], frame[8+13] = 0x88, 0xb5                                    // a local experiment (IEEE 802)
	send := func() {
		w.under.Do(t, func() error {
			conn, err := net.Dial("udp6", fmt.Sprintf("[fd00:98::2]:%d", sealedPort))
			if err != nil {
				return err
			}
			defer conn.Close()
			for range 20 {
				_, _ = conn.Write(frame) // a refusal of an earlier one may be answered
			}
			return nil
		})
	}
	received := func() string {
		out := w.nodes[1].ns.Exec(t, "ip", "-s", "-j", "link", "show", "dev", fmt.Sprint("es1v", tunnel(0, 1, false).VNI))
		_, rx, _ := strings.Cut(out, `"rx":{`)
		rx, _, _ = strings.Cut(rx, "}")
		return rx
	}
	before := received()
	send()
	if !w.pings(0, 1, 100) { // what was sent before has arrived
		t.Error("nothing crosses under the attack")
	}
	if got := w.nodes[1].app.Exec(t, "ip", "-s", "-j", "neigh"); strings.Contains(got, "02:00:00:00:00:42") {
		t.Errorf("the neighbour is known: %s", got)
	}
	grown := func() bool { return rxPackets(t, received()) > rxPackets(t, before)+20 }
	if grown() {
		t.Errorf("frames in the clear are taken: %s, before %s", received(), before)
	}
	w.nodes[1].close() // a table has one owner
	w.nodes[1].ns.Exec(t, "nft", "delete", "table", "inet", "edgespan")
	until(t, "frames arrive without the guard", func() bool { send(); return grown() })
	w.nodes[1].open()
	w.nodes[1].must(hostOwner, sealedHost)
}

func rxPackets(t *testing.T, rx string) int {
	t.Helper()
	_, packets, _ := strings.Cut(rx, `"packets":`)
	number, _, _ := strings.Cut(packets, ",")
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Fatalf("%v in %s", err, rx)
	}
	return n
}

// visit has a member ask for a service of another member's node, by the address inside the tunnel.
func (w *town) visit(t *testing.T) {
	const port = 9
	var server net.Listener
	w.nodes[1].ns.Do(t, func() (err error) {
		server, err = net.Listen("tcp6", fmt.Sprintf("[::]:%d", port))
		return err
	})
	defer server.Close()
	dial := func(to string) (err error) {
		w.nodes[0].ns.Do(t, func() error {
			var conn net.Conn
			if conn, err = net.DialTimeout("tcp6", net.JoinHostPort(to, strconv.Itoa(port)), time.Second); err == nil {
				conn.Close()
			}
			return nil
		})
		return err
	}
	if err := dial("fd00:98::2"); err != nil { // by the underlay it is the host's own matter
		t.Errorf("the service does not answer at all: %v", err)
	}
	if err := dial(insideOf(1).String()); err == nil {
		t.Error("a member reaches a service of the node through the cluster's tunnel")
	}
	if out, err := w.nodes[0].ns.Try("ping", "-c1", "-W2", insideOf(1).String()); err != nil {
		t.Errorf("the check of the tunnel: %v\n%s", err, out)
	}
}
