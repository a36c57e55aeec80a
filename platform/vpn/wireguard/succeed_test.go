package wireguard

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/vpn/wireguard/helper"
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

// All looks together take a fiftieth of a core, whichever tunnels they are of; one at a process that does not answer
// delays no other tunnel's by more than a second.
func TestLooksTakeTheirShare(t *testing.T) {
	var l looks
	now := time.Unix(1e9, 0)
	if rest := l.rest(now, now.Add(time.Millisecond)); rest != succeedEvery {
		t.Errorf("after a short look: %v", rest)
	}
	now = now.Add(time.Hour)
	var longest time.Duration
	for range 50 { // tunnels
		began := now
		now = now.Add(time.Millisecond)
		longest = l.rest(began, now)
	}
	if longest < 2400*time.Millisecond || longest > 2500*time.Millisecond {
		t.Errorf("after 50 looks of a millisecond each: %v", longest)
	}
	now = now.Add(time.Hour)
	if rest := l.rest(now.Add(-answerTime), now); rest > time.Second {
		t.Errorf("after a look at a process that does not answer: %v", rest)
	}
}

// What follows is noted by a look only if no Put has come meanwhile.
func TestALookForgetsNoNewSuccessor(t *testing.T) {
	tunnels, _ := newTended(t, "")
	one := tunnels.tunnel(3)
	before := one.attends()
	tunnels.attend(one, 3, record{Peers: []recordedPeer{{PublicKey: keyB.base64(), Succeeds: keyA.base64()}}})
	defer one.leave()
	if !one.setFollows(false, before) {
		t.Error("a look that began before has ended waiting for a successor")
	}
	if one.setFollows(false, one.attends()) {
		t.Error("a look that began after it has not")
	}
}

// When a tunnel is looked at again: soon while successors are waited for, also if it could not be looked at now; and a
// peer that the interface does not have is no reason.
func TestWhenATunnelIsLookedAtAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Tunnels, *tunnel)
		want   time.Duration
	}{
		"nothing waits":                   {func(*Tunnels, *tunnel) {}, tendEvery},
		"a peer that is not there":        {func(_ *Tunnels, one *tunnel) { one.ends[keyB] = &end{endpoint: "192.0.2.1:1"} }, tendEvery},
		"a Put is under way":              {func(ts *Tunnels, one *tunnel) { one.follows = true; ts.rewrite(t, func(r *record) { r.Whole = false }) }, succeedEvery},
		"a process that does not answer":  {func(ts *Tunnels, one *tunnel) { one.follows = true; ts.unserved(t) }, succeedEvery},
		"a Put, and no successor is due":  {func(ts *Tunnels, _ *tunnel) { ts.rewrite(t, func(r *record) { r.Whole = false }) }, tendEvery},
		"a successor that is waited for ": {func(ts *Tunnels, one *tunnel) { one.follows = true; ts.rewrite(t, succeeded) }, succeedEvery},
	} {
		t.Run(name, func(t *testing.T) {
			tunnels, f := newTended(t, "192.0.2.1:51820")
			f.handshake = time.Now()
			one := tunnels.tunnel(3)
			c.change(tunnels, one)
			if got := tunnels.tendOnce(t.Context(), one, 3); got != c.want {
				t.Errorf("again after %v, want %v", got, c.want)
			}
		})
	}
}

func succeeded(r *record) {
	r.Peers = append(r.Peers, recordedPeer{Name: "hub", PublicKey: keyB.base64(), Succeeds: keyA.base64()})
}

// rewrite changes the record of tunnel 3.
func (t *Tunnels) rewrite(test *testing.T, change func(*record)) {
	r, err := readRecord(t.folder(3))
	if err != nil {
		test.Fatal(err)
	}
	change(&r)
	if err := r.write(t.folder(3)); err != nil {
		test.Fatal(err)
	}
}

// unserved takes the socket of tunnel 3 away.
func (t *Tunnels) unserved(test *testing.T) {
	if err := os.Remove(filepath.Join(t.folder(3), helper.SocketName)); err != nil {
		test.Fatal(err)
	}
}

// Once a successor has the place of the key that it succeeded in the configuration, it stays where it was heard: behind
// NAT that is not its configured endpoint.
func TestASuccessorKeepsItsEndpoint(t *testing.T) {
	r := record{Peers: []recordedPeer{{PublicKey: keyA.base64(), Endpoint: "192.0.2.2:21821"},
		{PublicKey: keyB.base64(), Succeeds: keyA.base64()}}}
	heard := netip.MustParseAddrPort("198.51.100.7:4000")
	have := config{peers: map[key]peer{keyA: {}, keyB: {endpoint: heard}}}
	for endpoint, moves := range map[string]bool{"192.0.2.2:21821": false, "192.0.2.3:21821": true} {
		want := config{peers: map[key]peer{keyB: {endpoint: netip.MustParseAddrPort(endpoint)}}}
		c := diff(have, want, func(public key) bool { return r.endpoint(public) != endpoint })
		if moved := slices.ContainsFunc(c.peers, func(p peerChange) bool { return p.endpoint.IsValid() }); moved != moves {
			t.Errorf("configured at %s: its endpoint is set: %v, want %v", endpoint, moved, moves)
		}
	}
}
