package fake

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"edgespan/netinst/netstate"
)

// SetDHCP sets the DHCP server behind all interfaces: it returns the replies to a message. nil is none.
func (h *Host) SetDHCP(server func(ifName string, q netstate.DHCPQuery) []netstate.DHCPReply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dhcp = server
}

// RefuseDHCP makes DHCP fail with an error that f returns; nil: it never fails.
func (h *Host) RefuseDHCP(f func(ifName string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noDHCP = f
}

// DHCP opens a client's socket: the server's replies arrive at once.
func (h *Host) DHCP(ctx context.Context, ifName string, emit func(netstate.DHCPReply), ended func(error)) (
	send func(netstate.DHCPQuery) error, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(h.ifaces, func(i netstate.Interface) bool { return i.Name == ifName }) {
		return nil, fmt.Errorf("interface %s does not exist", ifName)
	}
	if h.noDHCP != nil {
		if err := h.noDHCP(ifName); err != nil {
			return nil, err
		}
	}
	context.AfterFunc(ctx, func() { ended(ctx.Err()) })
	return func(q netstate.DHCPQuery) error {
		h.mu.Lock()
		server := h.dhcp
		h.mu.Unlock()
		if server == nil {
			return nil
		}
		for _, r := range server(ifName, q) {
			emit(r)
		}
		return ctx.Err()
	}, nil
}

// SetInUse sets which other host, by its MAC address, has an address; nil: none has any.
func (h *Host) SetInUse(who func(addr netip.Addr) string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inUse = who
}

// InUse answers as SetInUse says.
func (h *Host) InUse(_ context.Context, _ string, addr netip.Addr, emit func(who string)) {
	h.mu.Lock()
	who := h.inUse
	h.mu.Unlock()
	if who == nil {
		emit("")
		return
	}
	emit(who(addr))
}
