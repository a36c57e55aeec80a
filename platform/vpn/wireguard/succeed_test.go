package wireguard

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"edgespan/netinst/netstate"
)

// A successor has nothing until it shows itself; then it has all, and keeps it whoever shows up with the old key.
func TestASuccessorTakesOverOnceItShowsItself(t *testing.T) {
	address := []netip.Prefix{netip.MustParsePrefix("fd00::2/128")}
	peers := []netstate.WireGuardPeer{
		{PublicKey: keyA.base64(), AllowedIPs: address, Keepalive: 25},
		{PublicKey: keyB.base64(), Succeeds: keyA.base64()},
	}
	desired := func() config {
		return config{peers: map[key]peer{keyA: {allowed: address, keepalive: 25}, keyB: {}}}
	}
	r := record{Peers: []recordedPeer{{PublicKey: keyA.base64()}, {PublicKey: keyB.base64(), Succeeds: keyA.base64()}}}
	have := desired()
	for _, step := range []struct {
		name         string
		shown, again time.Duration // the age of the last handshakes of the successor and of the old key, 0 for none
		has          key
	}{
		{"silent", 0, time.Minute, keyA},
		{"shown", time.Second, time.Minute, keyB},
		{"the old key again", time.Minute, time.Second, keyB},
	} {
		now := time.Unix(1e9, 0)
		a, b := have.peers[keyA], have.peers[keyB]
		a.handshake, b.handshake = now.Add(-step.again), time.Time{}
		if step.shown > 0 {
			b.handshake = now.Add(-step.shown)
		}
		have.peers[keyA], have.peers[keyB] = a, b
		want := succeed(have, desired(), peers)
		other := map[key]key{keyA: keyB, keyB: keyA}[step.has]
		if p := want.peers[step.has]; !slices.Equal(p.allowed, address) || p.keepalive != 25 {
			t.Errorf("%s: the one has %+v", step.name, p)
		}
		if p := want.peers[other]; len(p.allowed)+p.keepalive > 0 {
			t.Errorf("%s: the other has %+v", step.name, p)
		}
		for public, p := range want.peers {
			p.handshake = have.peers[public].handshake
			have.peers[public] = p
		}
		if got := r.waiting(have); (len(got) > 0) != (step.has == keyA) {
			t.Errorf("%s: waiting for %d", step.name, len(got))
		}
		hidden := r.hidden(have)
		if hidden[step.has.base64()] || !hidden[other.base64()] {
			t.Errorf("%s: hidden are %v", step.name, slices.Collect(maps.Keys(hidden)))
		}
	}
}
