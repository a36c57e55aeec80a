package netns_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
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
	time.Sleep(time.Second) // the status is up to half a second old
	s = l.status()
	if len(s.Peers) != 1 {
		t.Fatalf("status: %+v", s)
	}
	p := s.Peers[0]
	if !s.Up || s.By != "process" || s.Link != ipsecLink || s.Error != "" || !p.Up || p.Identity != "peer.example" ||
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
