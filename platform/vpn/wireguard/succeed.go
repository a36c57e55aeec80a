package wireguard

import (
	"context"
	"slices"
	"sync"
	"time"

	"edgespan/netinst/netstate"
)

// A node that replaces its key announces the next one long before. Other nodes have it as a second peer without
// addresses (WireGuardPeer.Succeeds). Once the node uses it, there is a handshake of that peer, and the addresses of
// the first are moved to it. Until then the node takes what is sent under its old session keys, which WireGuard keeps
// for up to 180 s, but what it sends itself under the new ones is dropped here. So the time between two looks is what
// a replacement interrupts.

const (
	// succeedEvery is the least time between two looks for a successor.
	succeedEvery = 250 * time.Millisecond
	// lookShare is how many times as long as a look took all tunnels rest after it: together they take 2 % of a core.
	lookShare = 50
	// dearestLook is the most that one look counts: what takes longer has waited for a process that is slow, for which no
	// other tunnel must wait.
	dearestLook = 20 * time.Millisecond
)

// looks bounds what the looks for successors cost: of all tunnels together.
type looks struct {
	mu   sync.Mutex
	free time.Time // when all looks so far are paid
}

// rest returns the time until the next look of a tunnel whose last one began at a time and ended now.
func (l *looks) rest(began, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free.Before(began) {
		l.free = began
	}
	l.free = l.free.Add(lookShare * min(now.Sub(began), dearestLook))
	return max(succeedEvery, l.free.Sub(now))
}

// rest returns the time until a tunnel is looked at again that could not be looked at now.
func (one *tunnel) rest() time.Duration {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.follows {
		return succeedEvery
	}
	return tendEvery
}

// attends returns how often the tunnel was attended to.
func (one *tunnel) attends() uint64 {
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.attended
}

// setFollows notes whether successors are still waited for, unless the tunnel was attended to since: then there may be
// others. It returns whether some are.
func (one *tunnel) setFollows(more bool, attended uint64) bool {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.attended == attended {
		one.follows = more
	}
	return one.follows
}

// succeed returns the desired configuration with what has passed from peers to their successors: a successor that has
// shown itself keeps what it has got, whoever shows up with the old key.
func succeed(have, want config, peers []netstate.WireGuardPeer) config {
	for _, p := range peers {
		public, err := parseKey(p.PublicKey)
		if err != nil || p.Succeeds == "" {
			continue
		}
		old, err := parseKey(p.Succeeds)
		from, there := want.peers[old]
		to, known := want.peers[public]
		if err != nil || !there || !known || have.peers[public].handshake.IsZero() {
			continue
		}
		to.allowed, to.keepalive, to.preshared = from.allowed, from.keepalive, from.preshared
		from.allowed, from.keepalive = nil, 0
		want.peers[old], want.peers[public] = from, to
	}
	return want
}

// hasSuccessors reports whether a peer is another's successor.
func (r record) hasSuccessors() bool {
	return slices.ContainsFunc(r.Peers, func(p recordedPeer) bool { return p.Succeeds != "" })
}

// waiting returns the recorded successors that have nothing yet, by the peer that each succeeds.
func (r record) waiting(have config) map[key]key {
	out := map[key]key{}
	for _, p := range r.Peers {
		public, err := parseKey(p.PublicKey)
		if err != nil || p.Succeeds == "" || len(have.peers[public].allowed) > 0 {
			continue
		}
		if old, err := parseKey(p.Succeeds); err == nil {
			out[old] = public
		}
	}
	return out
}

// hidden returns the public keys of recorded peers that are of no interest: of a peer and its successor, only the one
// that has the addresses is shown.
func (r record) hidden(have config) map[string]bool {
	out := map[string]bool{}
	for _, p := range r.Peers {
		if p.Succeeds == "" {
			continue
		}
		public, err := parseKey(p.PublicKey)
		has := err == nil && len(have.peers[public].allowed) > 0
		out[p.PublicKey], out[p.Succeeds] = !has, has
	}
	return out
}

// follow moves what peers have to their successors that have shown themselves. It returns whether any is still waited
// for. A configuration that is not as recorded is the next Put's.
func (t *Tunnels) follow(ctx context.Context, one *tunnel, number int, r record, have config) (more bool) {
	waiting := r.waiting(have)
	var peers []netstate.WireGuardPeer
	for old, public := range waiting {
		if !have.peers[public].handshake.IsZero() {
			peers = append(peers, netstate.WireGuardPeer{PublicKey: public.base64(), Succeeds: old.base64()})
		}
	}
	if len(peers) == 0 {
		return len(waiting) > 0
	}
	one.change.Lock()
	defer one.change.Unlock()
	r, err := readRecord(t.folder(number)) // a Put may have changed it
	if err != nil || !r.Whole {
		return true
	}
	dev := t.device(r, number)
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if have, err = dev.get(ctx); err != nil || have.digest(r.Salt, r.ListenPort == 0) != r.Digest {
		return true
	}
	want := succeed(have, have.clone(), peers)
	if err := dev.set(ctx, diff(have, want, func(key) bool { return false })); err != nil {
		return true // the next look tries again; a restart finds another configuration than recorded
	}
	r.Digest = want.digest(r.Salt, r.ListenPort == 0)
	return r.write(t.folder(number)) != nil || len(waiting) > len(peers)
}
