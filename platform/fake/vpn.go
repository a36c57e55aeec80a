package fake

import (
	"context"
	"fmt"

	"edgespan/netinst/netstate"
)

// tunnels are the statuses of tunnels, by the number of the network, and those that do not answer.
type tunnels struct {
	statuses map[int]netstate.TunnelStatus
	hung     map[int]bool
	polls    map[int]int
}

// SetTunnel sets the status of a network's tunnel, as it is while the tunnel is there.
func (h *Host) SetTunnel(number int, s netstate.TunnelStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tunnels.statuses == nil {
		h.tunnels.statuses = map[int]netstate.TunnelStatus{}
	}
	h.tunnels.statuses[number] = s
}

// HangTunnel makes the process of a network's tunnel answer no more, or again.
func (h *Host) HangTunnel(number int, hangs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tunnels.hung == nil {
		h.tunnels.hung = map[int]bool{}
	}
	h.tunnels.hung[number] = hangs
}

// TunnelPolls returns how often the status of a network's tunnel was asked for.
func (h *Host) TunnelPolls(number int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tunnels.polls[number]
}

// TunnelStatus returns what SetTunnel set, or lasts until the deadline.
func (h *Host) TunnelStatus(ctx context.Context, o netstate.Owner) (netstate.TunnelStatus, error) {
	h.mu.Lock()
	if h.tunnels.polls == nil {
		h.tunnels.polls = map[int]int{}
	}
	h.tunnels.polls[o.Number]++
	_, is := h.state[o.Number][netstate.ID{Kind: netstate.KindVPN, Name: netstate.VPNName(o.Number)}]
	s, hung := h.tunnels.statuses[o.Number], h.tunnels.hung[o.Number]
	h.mu.Unlock()
	switch {
	case hung:
		<-ctx.Done()
		return netstate.TunnelStatus{}, fmt.Errorf("ask the tunnel: %w", ctx.Err())
	case !is:
		return netstate.TunnelStatus{Number: o.Number}, nil
	}
	return s, nil
}

// onLink returns what must exist before something can be on one of edgespan's links.
func onLink(st netstate.State, kind netstate.Kind, link string) error {
	if n, tunnel := netstate.VPNNumber(link); tunnel {
		return need(st, netstate.KindVPN, netstate.VPNName(n))
	}
	return need(st, kind, link)
}
