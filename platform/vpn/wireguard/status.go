package wireguard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"edgespan/netinst/netstate"
)

// upFor is the age of a handshake at which its keys are no longer used (WireGuard: Reject-After-Time).
const upFor = 180 * time.Second

// noteFor is the age of a note that still says why a peer is silent: handshakes are repeated every 5 s.
const noteFor = 20 * time.Second

// count counts the handshakes of a peer.
type count struct {
	last   time.Time
	rekeys int
}

// Status returns what is observed of a network's tunnel.
func (t *Tunnels) Status(ctx context.Context, number int) (netstate.TunnelStatus, error) {
	s := netstate.TunnelStatus{Number: number, Kind: "wireguard", Link: netstate.VPNLink(number)}
	r, err := readRecord(t.folder(number))
	if err != nil {
		return s, err
	}
	s.Link, s.PublicKey, s.By = r.Link, r.PublicKey, "process"
	if r.Kernel {
		s.By = "kernel"
	}
	at, err := t.links.find(r.Link, number)
	switch {
	case err != nil:
		return s, err
	case at.Link == nil:
		s.Error = fmt.Sprintf("link %s is missing", r.Link)
	case !at.own:
		s.Error = fmt.Sprintf("link %s is of others", r.Link)
	case !at.up:
		s.Error = fmt.Sprintf("link %s is down", r.Link)
	case !r.Kernel && !t.running(r, t.folder(number)):
		s.Error = "the tunnel's process has ended"
		if words := tail(filepath.Join(t.folder(number), outFile)); words != "" {
			s.Error += ": " + words
		}
	}
	if s.Error != "" {
		return s, nil
	}
	ask, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	dev := t.device(r, number)
	have, err := dev.get(ask)
	if err != nil {
		return s, err
	}
	noted, err := dev.notes(ask)
	if err != nil {
		return s, err
	}
	t.tunnel(number).peers(&s, r, have, noted, time.Now())
	return s, nil
}

// peers adds the peers of a tunnel to its status.
func (one *tunnel) peers(s *netstate.TunnelStatus, r record, have config, noted notes, now time.Time) {
	hidden := r.hidden(have)
	one.forgetCounts(r)
	for _, known := range r.Peers {
		public, err := parseKey(known.PublicKey)
		p, there := have.peers[public]
		if err != nil || !there || hidden[known.PublicKey] {
			continue
		}
		out := netstate.TunnelPeer{
			Name: known.Name, Identity: known.PublicKey, LastHandshake: p.handshake, Received: p.received, Sent: p.sent,
			Up: now.Sub(p.handshake) < upFor, Rekeys: one.count(public, p.handshake),
		}
		if p.endpoint.IsValid() {
			out.Endpoint = p.endpoint.String()
		}
		if !out.Up {
			out.Error = silence(p, known.Endpoint, one.lookupError(public), noted, now)
		}
		s.Up = s.Up || out.Up
		s.Peers = append(s.Peers, out)
	}
	slices.SortFunc(s.Peers, func(a, b netstate.TunnelPeer) int { return cmp.Compare(a.Name, b.Name) })
	if s.Up {
		return
	}
	s.Error = "no peer is configured"
	for i, p := range s.Peers {
		if i == 0 {
			s.Error = fmt.Sprintf("peer %s: %s", p.Name, p.Error)
		}
	}
}

// count counts a peer's handshakes after the first that was observed.
func (one *tunnel) count(public key, handshake time.Time) int {
	one.mu.Lock()
	defer one.mu.Unlock()
	c := one.counts[public]
	if c == nil {
		c = &count{last: handshake}
		one.counts[public] = c
	}
	if !c.last.Equal(handshake) {
		if !c.last.IsZero() {
			c.rekeys++
		}
		c.last = handshake
	}
	return c.rekeys
}

// forgetCounts forgets the handshakes of peers that the tunnel no longer has: keys are replaced as long as it lives.
func (one *tunnel) forgetCounts(r record) {
	has := map[key]bool{}
	for _, p := range r.Peers {
		if public, err := parseKey(p.PublicKey); err == nil {
			has[public] = true
		}
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	maps.DeleteFunc(one.counts, func(public key, _ *count) bool { return !has[public] })
}

// silence says why a peer is not up, as far as this end can know: WireGuard does not answer what it can't authenticate.
func silence(p peer, endpoint string, lookup error, noted notes, now time.Time) string {
	from := p.endpoint.Addr()
	recently := func(at time.Time) bool { return now.Sub(at) < noteFor }
	switch {
	case recently(noted.badResponse[from]):
		return fmt.Sprintf("its answers from %s can't be authenticated: wrong preshared key?", from)
	case recently(noted.badInitiation[from]):
		return fmt.Sprintf("a handshake from %s is of a key that is not configured: wrong public key of the peer?", from)
	case lookup != nil:
		return fmt.Sprintf("endpoint name can't be resolved: %v", lookup)
	case !p.handshake.IsZero():
		return fmt.Sprintf("peer silent for %d min: no handshake since %s", int(now.Sub(p.handshake).Minutes()),
			p.handshake.UTC().Format(time.RFC3339))
	case !p.endpoint.IsValid() && endpoint == "":
		return "the peer has not called yet, and no endpoint of it is configured"
	case !p.endpoint.IsValid():
		return "endpoint name is not resolved yet"
	case p.sent == 0:
		return "no handshake yet: nothing was sent to the peer"
	}
	return fmt.Sprintf("no answer from %s: unreachable, or does not know this node's key, or has another public key?",
		p.endpoint)
}
