package netns_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/netinst/netstate"
)

func TestAnIPsecTunnelCarriesPacketsBothWays(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.vpn(1)
	l.put(v)
	s := l.up()
	if lost := pings(t, l.node, ipsecInside, peerInside, 20, "0.01"); lost > 0 {
		t.Errorf("%d of 20 packets to the peer are lost", lost)
	}
	if lost := pings(t, l.peer, peerInside, ipsecInside, 20, "0.01"); lost > 0 {
		t.Errorf("%d of 20 packets from the peer are lost", lost)
	}
	until(t, "the status counts what has passed", func() bool {
		s = l.status()
		return len(s.Peers) != 1 || s.Peers[0].Received >= 40*84 && s.Peers[0].Sent >= 40*84
	})
	if len(s.Peers) != 1 {
		t.Fatalf("status: %+v", s)
	}
	p := s.Peers[0]
	t.Logf("packets are carried by the %s", s.By)
	if !s.Up || s.Link != ipsecLink || s.Error != "" || !p.Up || p.Identity != "peer.example" ||
		p.Endpoint != ipsecPeer+":4500" || time.Since(p.LastHandshake) > time.Minute || p.Received < 40*84 || p.Sent < 40*84 ||
		!strings.Contains(p.SPIs, "/") {
		t.Errorf("status: %+v", s)
	}
	if have, found := l.observe(); !found || have.Text() != v.Text() {
		t.Errorf("observed %v %q, want %q", found, have.Text(), v.Text())
	}
	ctx, cancel := context.WithTimeout(t.Context(), ipsecTimeout)
	defer cancel()
	for range 2 { // a missing one is no error
		if err := l.tunnels.Remove(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	if _, found := l.observe(); found {
		t.Error("it is found after its removal")
	}
	if out, err := l.node.Try("ip", "link", "show", ipsecLink); err == nil {
		t.Errorf("its link stays: %s", out)
	}
	if _, err := os.Stat(l.dir + "/run/ni/3/vpn"); err == nil {
		t.Error("its folder stays")
	}
}

// Where the kernel has ESP, it carries the packets: make vm runs this on a kernel of Debian's.
func TestIPsecByTheKernel(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.vpn(1)
	v.IPsec.RekeyChild = 5
	l.put(v)
	if l.up().By != "kernel" {
		t.Skip("the kernel of this machine has no ESP")
	}
	if out := l.node.Exec(t, "ip", "-d", "link", "show", ipsecLink); !strings.Contains(out, "xfrm if_id 0xe50003") {
		t.Errorf("its link: %s", out)
	}
	l.carries()
	if lost := pings(t, l.node, ipsecInside, peerInside, 600, "0.02"); lost > 0 {
		t.Errorf("%d of 600 packets are lost while keys are renewed", lost)
	}
	until(t, "the status counts what has passed, and renewals of keys", func() bool {
		s := l.status()
		return s.Up && s.Peers[0].Rekeys > 0 && s.Peers[0].Received >= 600*84
	})
	lost := l.flow(300, "0.02")
	time.Sleep(time.Second)
	l.choose("up1")
	if n := lost(); n > 150 {
		t.Errorf("a switch of the uplink loses %d of 300 packets, 50 a second", n)
	} else {
		t.Logf("a switch of the uplink loses %d packets of 20 ms", n)
	}
	if out, err := l.swan.swanctl("--list-sas"); err != nil || !strings.Contains(out, "198.18.2.2") {
		t.Errorf("the peer does not see the node at its other uplink: %v\n%s", err, out)
	}
	// Another daemon takes it over, and what stands of the kernel goes with the tunnel.
	l.open()
	if have, found := l.observe(); !found || have.Text() != v.Text() {
		t.Errorf("observed %v %q, want %q", found, have.Text(), v.Text())
	}
	l.put(v)
	l.carries()
	// A killed one leaves what it has told the kernel: it is removed before the next one starts.
	foreign := []string{"ip", "xfrm", "state", "add", "src", "192.0.2.1", "dst", "192.0.2.2", "proto", "esp", "spi", "0x77", "reqid",
		"7", "mode", "tunnel", "aead", "rfc4106(gcm(aes))", "0x" + strings.Repeat("77", 20), "128"}
	l.node.Exec(t, foreign...)
	if err := syscall.Kill(l.charonPID(ipsecNumber), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-l.tunnels.Ended()
	left := l.node.Exec(t, "ip", "xfrm", "state")
	l.put(v)
	l.up()
	l.carries()
	for line := range strings.Lines(l.node.Exec(t, "ip", "xfrm", "state")) {
		if strings.Contains(line, "spi 0x") && strings.Contains(left, line) && !strings.Contains(line, "0x00000077") {
			t.Errorf("what a killed charon has left: %s", line)
		}
	}
	l.node.Exec(t, "ip", "xfrm", "state", "delete", "src", "192.0.2.1", "dst", "192.0.2.2", "proto", "esp", "spi", "0x77")
	ctx, cancel := context.WithTimeout(t.Context(), ipsecTimeout)
	defer cancel()
	if err := l.tunnels.Remove(ctx, v); err != nil {
		t.Fatal(err)
	}
	if out := l.node.Exec(t, "ip", "xfrm", "state") + l.node.Exec(t, "ip", "xfrm", "policy"); out != "" {
		t.Errorf("what stays of IPsec: %s", out)
	}
	if out, err := l.node.Try("ip", "link", "show", ipsecLink); err == nil {
		t.Errorf("its link stays: %s", out)
	}
}

var swanEAP = swanCert("auth = eap-mschapv2\n eap_id = %any", "") + "secrets { eap-carol { id = carol\n secret = \"a password\" } }\n"

// eap is a tunnel whose node has a user name and a password.
func (l *ipsecLab) eap(ca *ipsecCA) netstate.VPN {
	v := l.certified(ca, inAYear())
	v.IPsec.Local = netstate.IPsecEnd{ID: "node.example", Auth: "eap-mschapv2", EAPUser: "carol", Secret: "a password"}
	return v
}

func TestIPsecAuthenticatesByCertificatesAndEAP(t *testing.T) {
	t.Run("certificates", func(t *testing.T) {
		t.Parallel()
		l, ca := newIPsecLab(t), newIPsecCA(t)
		l.startSwanWith(ca, inAYear(), swanCert("auth = pubkey\n id = node.example", ""))
		v := l.certified(ca, inAYear())
		file := filepath.Join(l.dir, "node.pem") // one of a path, the other as a text
		if err := os.WriteFile(file, []byte(v.IPsec.Local.Certificate), 0o600); err != nil {
			t.Fatal(err)
		}
		v.IPsec.Local.Certificate = file
		l.put(v)
		l.up()
		l.carries()
		// Another certificate of the same node disturbs nothing.
		before := l.status().Peers[0].SPIs
		next := l.certified(ca, inAYear())
		next.Generation = 2
		l.put(next)
		l.carries()
		if now := l.status().Peers[0].SPIs; now != before {
			t.Errorf("with another certificate, the peers have connected anew: %s, was %s", now, before)
		}
	})
	t.Run("renewed files", func(t *testing.T) {
		t.Parallel()
		renewsFiles(t)
	})
	t.Run("EAP", func(t *testing.T) {
		t.Parallel()
		l, ca := newIPsecLab(t), newIPsecCA(t)
		l.startSwanWith(ca, inAYear(), swanEAP)
		l.put(l.eap(ca))
		l.up()
		l.carries()
	})
}

// renewsFiles renews the files that certificates are from, as programs do that know nothing of edgespan, and the node
// itself with its own (auth: node).
func renewsFiles(t *testing.T) {
	t.Helper()
	l, ca := newIPsecLab(t), newIPsecCA(t)
	l.startSwanWith(ca, inAYear(), swanCert("auth = pubkey\n id = node.example", ""))
	v := l.certified(ca, inAYear())
	own := filepath.Join(l.dir, "own.pem") // as one file of the node's own identity
	issue := func() {
		next := l.certified(ca, inAYear()).IPsec.Local
		v.IPsec.Local.Certificate, v.IPsec.Local.Key = next.Certificate, next.Key
		if err := os.WriteFile(own, []byte(next.Certificate+next.Key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v.IPsec.Files = []string{own}
	issue()
	l.put(v)
	l.up()
	l.carries()
	before := l.status().Peers[0].SPIs
	if have, found := l.observe(); !found || have.Text() != v.Text() {
		t.Errorf("observed %q, want %q", have.Text(), v.Text())
	}
	issue()
	if have, found := l.observe(); !found || have.Text() == v.Text() {
		t.Error("another certificate in the file is not seen")
	}
	l.put(v)
	if have, found := l.observe(); !found || have.Text() != v.Text() {
		t.Errorf("with the new one, observed %q, want %q", have.Text(), v.Text())
	}
	l.carries()
	if now := l.status().Peers[0].SPIs; now != before {
		t.Errorf("the peers have connected anew: %s, was %s", now, before)
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	if have, found := l.observe(); !found || have.Text() != v.Text() {
		t.Errorf("without the file, what stands is to be replaced: %q", have.Text())
	}
}

func TestIPsecHasSeveralChildren(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(strings.Replace(swanPSK(ipsecSecret, "", ""), "children {", `children { dmz {
		local_ts = 10.2.7.0/24
		remote_ts = 10.1.0.0/24 }`, 1))
	l.peer.Exec(t, "ip", "addr", "add", "10.2.7.1/32", "dev", "lo")
	v := l.vpn(1)
	v.IPsec.Children = append(v.IPsec.Children, netstate.IPsecChild{
		Name: "dmz", Local: v.IPsec.Children[0].Local, Remote: []netip.Prefix{netip.MustParsePrefix("10.2.7.0/24")},
	})
	l.put(v)
	l.up()
	for end := time.Now().Add(ipsecTimeout); strings.Count(l.status().Peers[0].SPIs, "/") < 2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not both children stand: %+v", l.status())
		}
	}
	l.carries()
	if lost := pings(t, l.node, ipsecInside, "10.2.7.1", 10, "0.01"); lost > 0 {
		t.Errorf("%d of 10 packets to the other subnet are lost", lost)
	}
	// A subnet that is in no child is not reached.
	l.peer.Exec(t, "ip", "addr", "add", "10.2.9.1/32", "dev", "lo")
	if lost := pings(t, l.node, ipsecInside, "10.2.9.1", 2, "0.01"); lost != 2 {
		t.Errorf("%d of 2 packets to a subnet of no child arrive", 2-lost)
	}
}

func TestIPsecTakesAVirtualIPAndDNS(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	conf := strings.Replace(swanPSK(ipsecSecret, "pools = office", ""), "remote_ts = 10.1.0.0/24", "", 1) +
		"pools { office { addrs = 10.3.0.0/24\n dns = 10.2.0.53 } }\n"
	l.startSwan(conf)
	v := l.vpn(1)
	v.IPsec.VirtualIP, v.IPsec.Policies, v.IPsec.Children = true, false, nil
	l.put(v)
	s := l.up()
	if len(s.Addresses) != 1 || s.Addresses[0].String() != "10.3.0.1/32" || len(s.DNS) != 1 ||
		s.DNS[0].String() != "10.2.0.53" {
		t.Fatalf("assigned: %+v", s)
	}
	l.node.Exec(t, "ip", "addr", "add", "10.3.0.1/32", "dev", ipsecLink)
	out, back := 0, 0
	for range 3 { // as carries does
		out, back = pings(t, l.node, "10.3.0.1", peerInside, 10, "0.01"), pings(t, l.peer, peerInside, "10.3.0.1", 10, "0.01")
		if out+back == 0 {
			return
		}
	}
	t.Errorf("%d of 10 packets to the peer are lost, and %d of 10 from it", out, back)
}
