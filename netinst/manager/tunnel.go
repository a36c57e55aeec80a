package manager

import (
	"cmp"
	"fmt"
	"slices"

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
	if !was.known && m.awaitsTunnel(was) || !slices.Equal(was.Addresses, s.Addresses) || !slices.Equal(was.DNS, s.DNS) {
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
