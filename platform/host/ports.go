package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"edgespan/netinst/netstate"
	"edgespan/platform/dhcp"
	"edgespan/platform/kernel"

	"go.uber.org/zap"
)

// doPort does one op on what edgespan sets on the interfaces of ports.
func (h *Host) doPort(verb netstate.Verb, obj netstate.Object) error {
	switch obj := obj.(type) {
	case netstate.Port:
		if obj.Foreign && obj.Master == "" {
			// A link that is up stays up: others may have come to use it.
			return pick(verb, func() error { return h.kernel.SetForeignUp(obj) }, func() error { return nil })
		}
	case netstate.Address:
		if obj.Foreign {
			return pick(verb, func() error { return h.kernel.AddForeignAddress(obj) },
				func() error { return h.removeForeignAddress(obj) })
		}
	case netstate.Link:
		if obj.Tag != nil && verb == netstate.Add {
			return h.kernel.AddVLAN(obj)
		}
	case netstate.Route:
		if kernel.IsPortRoute(obj) {
			return pick(verb, func() error { return h.kernel.PutRoute(obj) }, func() error { return h.kernel.RemoveRoute(obj) })
		}
	}
	return fmt.Errorf("%s is not of owner %s", obj.ID(), netstate.PortsOwner)
}

// removeVLANs removes interfaces of ports that edgespan has created.
func (h *Host) removeVLANs(ctx context.Context, items []netstate.Item) error {
	var names []string
	for _, it := range items {
		names = append(names, it.ID().Name)
	}
	return h.kernel.RemoveVLANs(ctx, names)
}

// removeForeignAddress removes an address from a port's interface. With the first address of a subnet the kernel
// removes the others of that subnet, and with the last one of an interface its routes, unless promote_secondaries is
// set: it is set meanwhile, as others may have an address there.
func (h *Host) removeForeignAddress(a netstate.Address) error {
	shared, err := h.kernel.SharesSubnet(a)
	if err != nil || !shared {
		return errors.Join(err, h.kernel.RemoveForeignAddress(a))
	}
	key := "net/ipv4/conf/" + a.Link + "/promote_secondaries"
	was, err := readSysctl(h.netns, key)
	if err == nil && was == "0" {
		err = writeSysctl(h.netns, key, "1")
	}
	if err != nil {
		return fmt.Errorf("keep other addresses of %s: %w", a.Link, err)
	}
	err = h.kernel.RemoveForeignAddress(a)
	if was == "0" {
		err = errors.Join(err, writeSysctl(h.netns, key, was))
	}
	return err
}

// DHCP opens a DHCP client's socket on an interface, until ctx ends or the interface fails, and returns what sends
// messages on it.
func (h *Host) DHCP(ctx context.Context, ifName string, emit func(netstate.DHCPReply), ended func(error)) (
	send func(netstate.DHCPQuery) error, err error) {
	c, err := dhcp.Open(h.netns, ifName)
	if err != nil {
		return nil, err
	}
	go func() { ended(c.Receive(ctx, emit)) }()
	return c.Send, nil
}

// InUse checks whether another host on the link of an interface has an address, and emits that one's MAC address or "".
func (h *Host) InUse(ctx context.Context, ifName string, addr netip.Addr, emit func(who string)) {
	go func() {
		who, err := dhcp.InUse(ctx, h.netns, ifName, addr)
		if err != nil {
			h.log.Info("an address is used unchecked", zap.Error(err))
		}
		emit(who)
	}()
}
