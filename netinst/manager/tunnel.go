package manager

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// TunnelSeen carries what was observed of the tunnel of a network of type vpn. Without a tunnel, Status has no Kind.
type TunnelSeen struct{ Status netstate.TunnelStatus }

func (TunnelSeen) niEvent() {}

// tunnelState is what a manager knows of its network's tunnel.
type tunnelState struct {
	known bool // it was observed since the manager began
	netstate.TunnelStatus
}

// assigned returns what the other end has assigned.
func (t tunnelState) assigned() netinst.Assigned {
	return netinst.Assigned{Addresses: t.Addresses, DNS: t.DNS}
}

// tunnelSeen takes a status of the tunnel: the addresses that the other end assigns are part of the desired state, and
// everything else is only shown.
func (m *Manager) tunnelSeen(s netstate.TunnelStatus) []Effect {
	was := m.tunnel
	m.tunnel = tunnelState{true, s}
	if m.awaitsTunnel(was) || !slices.Equal(was.Addresses, s.Addresses) || !slices.Equal(was.DNS, s.DNS) {
		return m.change()
	}
	if !m.shown || m.intent != desired {
		return nil
	}
	return m.show(m.status.State, m.status.Error)
}

// awaitsTunnel reports whether the manager must know of the tunnel before it applies anything: it would remove the
// addresses that a running tunnel has been assigned.
func (m *Manager) awaitsTunnel(t tunnelState) bool {
	v := m.config.VPN
	return m.config.HasTunnel() && v != nil && v.IPsec != nil && v.IPsec.VirtualIP && !t.known
}

// tunnelWarning says why the network's tunnel is down, "" if it is up, unknown or not desired.
func (m *Manager) tunnelWarning() string {
	if !m.config.HasTunnel() || m.tunnel.Kind == "" || m.tunnel.Up && m.tunnel.Error == "" {
		return ""
	}
	if m.tunnel.Up {
		return "tunnel: " + m.tunnel.Error
	}
	return "the tunnel is down: " + cmp.Or(m.tunnel.Error, "no peer has answered yet")
}

// Heard is what is heard of a tunnel, as the choice of ports takes it.
type Heard struct {
	Silent     time.Time // since when it has got no answer; zero: it gets answers, or asks nothing
	Answered   bool      // there was an answer since the last time
	IPv4, IPv6 bool      // the families by which it calls other ends; none if that is not known
}

// Silence knows since when a tunnel has got no answer, from what is observed of it. It begins with the zero value.
//
// IPsec says so itself. WireGuard has no question that must be answered: but a peer that gets data answers within 10 s,
// if only by an empty message, and who gets no answer begins a handshake, again every 5 s (WireGuard, §6). So a tunnel
// that has sent more than its keepalives since it was heard last waits for an answer. A handshake that the other end
// begins is none: it does the same if only what this one sends is lost. A tunnel that asks nothing is not silent, and
// neither is one of which a single peer is heard.
type Silence struct {
	known    bool
	received map[string]uint64 // octets, by the peer's identity
	last     time.Time         // handshake
	sent     uint64            // octets to all peers, when one was heard last
	at       time.Time         // when that was
	seen     time.Time         // when the tunnel was looked at last
	since    time.Time
}

// Octets of WireGuard's messages: a handshake's first one, and an empty one. Messages with data are multiples of 16.
const (
	initiation = 148
	keepalive  = 32
)

const (
	// callsEvery is the time between two first messages of a handshake that is not answered (REKEY_TIMEOUT).
	callsEvery = 5 * time.Second
	// handshakeError is how exact the time of a handshake is: charon has the age of an SA in whole seconds.
	handshakeError = 2 * time.Second
)

// See takes what is observed of a network's tunnel, and returns what is heard of it.
func (q *Silence) See(c netinst.NetworkInstanceConfig, s netstate.TunnelStatus, now time.Time) Heard {
	if !c.HasVPN() {
		*q = Silence{}
		return Heard{}
	}
	waits, answered := q.hear(c.VPN.WireGuard, s, now)
	if c.VPN.WireGuard == nil {
		waits = s.Silent
	}
	if !waits {
		q.since = time.Time{}
	} else if q.since.IsZero() {
		q.since = now
	}
	h := Heard{Silent: q.since, Answered: answered && !waits}
	for _, p := range s.Peers {
		if end, err := netip.ParseAddrPort(p.Endpoint); err == nil {
			six := end.Addr().Unmap().Is6()
			h.IPv4, h.IPv6 = h.IPv4 || !six, h.IPv6 || six
		}
	}
	return h
}

// hear reports whether a WireGuard tunnel waits for an answer, and whether any tunnel has got one since the last time.
// What is seen first, or of another process, is none.
func (q *Silence) hear(w *netinst.WireGuard, s netstate.TunnelStatus, now time.Time) (waits, answered bool) {
	anew, sent := !q.known, uint64(0)
	calls := 2 + uint64(max(0, now.Sub(q.seen)/callsEvery)) // of a peer that does not hear us
	q.seen = now
	received, last := map[string]uint64{}, time.Time{}
	for _, p := range s.Peers {
		sent += p.Sent
		received[p.Identity] = p.Received
		if p.LastHandshake.After(last) {
			last = p.LastHandshake
		}
		before, known := q.received[p.Identity]
		anew = anew || !known || p.Received < before
		more := p.Received - before
		answered = answered || known && p.Received > before && (w == nil || more%initiation != 0 || more > calls*initiation)
	}
	anew = anew || sent < q.sent
	answered = !anew && (answered || last.Sub(q.last) > handshakeError)
	if anew || answered || !last.Equal(q.last) {
		q.known, q.last, q.sent, q.at = true, last, sent, now
	}
	q.received = received
	return w != nil && sent-q.sent > 2*initiation+uint64(keepalives(*w)*now.Sub(q.at).Seconds()), answered
}

// keepalives returns how many octets of keepalives a tunnel sends in a second, with some to spare.
func keepalives(w netinst.WireGuard) (perSecond float64) {
	for _, p := range w.Peers {
		if p.Keepalive > 0 {
			perSecond += 1.5 * keepalive / float64(p.Keepalive)
		}
	}
	return perSecond
}

// TunnelEvents returns what has happened to a tunnel from one status to the next, in a sentence each: that it went up
// or down, that a peer did, and that one was heard from another address.
func TunnelEvents(was, now netstate.TunnelStatus) (texts []string) {
	switch {
	case now.Kind == "":
		return nil
	case now.Up && !was.Up:
		texts = append(texts, "up")
	case was.Up && !now.Up:
		texts = append(texts, "down: "+cmp.Or(now.Error, "no peer answers"))
	case !now.Up && now.Error != was.Error && now.Error != "":
		texts = append(texts, "still down: "+now.Error)
	}
	for _, p := range now.Peers {
		i := slices.IndexFunc(was.Peers, func(q netstate.TunnelPeer) bool { return q.Name == p.Name })
		if i < 0 {
			continue
		}
		q := was.Peers[i]
		switch {
		case len(now.Peers) > 1 && p.Up != q.Up && p.Up:
			texts = append(texts, fmt.Sprintf("peer %s is up", p.Name))
		case len(now.Peers) > 1 && p.Up != q.Up:
			texts = append(texts, fmt.Sprintf("peer %s is down: %s", p.Name, cmp.Or(p.Error, "it does not answer")))
		case q.Endpoint != "" && p.Endpoint != "" && p.Endpoint != q.Endpoint:
			texts = append(texts, fmt.Sprintf("peer %s moved from %s to %s", p.Name, q.Endpoint, p.Endpoint))
		}
	}
	return texts
}
