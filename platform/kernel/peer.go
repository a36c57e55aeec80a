package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// changePeer sets the MTU and MAC that are new in l on the peer of a veth, in whatever namespace and under whatever
// name the app has it. have is the host's side as it is now; its alias records the settings the peer was given last.
//
// A veth drops frames longer than the MTU of the receiving side. So a larger MTU is set on the host's side first, and a
// smaller one on the peer first.
func (k *Kernel) changePeer(ctx context.Context, have netlink.Link, l netstate.Link) error {
	was, _ := netstate.ParseVethMark(have.Attrs().Alias)
	if was.MTU == l.Peer.MTU && was.MAC == l.Peer.MAC {
		return nil
	}
	h, peer, err := k.openPeer(ctx, have, l.Peer.Netns)
	if err != nil {
		return err
	}
	defer h.Close()
	if l.MTU > have.Attrs().MTU {
		if err := k.h.LinkSetMTU(have, l.MTU); err != nil {
			return fmt.Errorf("set MTU %d: %w", l.MTU, err)
		}
	}
	if mtu := peer.Attrs().MTU; was.MTU != l.Peer.MTU && (mtu == was.MTU || mtu > l.Peer.MTU || was.MTU == 0) {
		// Keep an MTU that the app chose if it fits.
		if err := h.LinkSetMTU(peer, l.Peer.MTU); err != nil {
			return fmt.Errorf("set MTU %d of the app's side: %w", l.Peer.MTU, err)
		}
	}
	if was.MAC != l.Peer.MAC {
		mac, err := net.ParseMAC(l.Peer.MAC)
		if err != nil {
			return err
		}
		if err := h.LinkSetHardwareAddr(peer, mac); err != nil {
			return fmt.Errorf("set MAC %s of the app's side: %w", mac, err)
		}
	}
	return nil
}

// openPeer finds the peer of a veth by its index in the namespace at a name and opens that namespace. If it is not
// there, both sides stay unchanged and the error wraps netstate.ErrWaiting.
func (k *Kernel) openPeer(ctx context.Context, have netlink.Link, name string) (*netlink.Handle, netlink.Link, error) {
	ns, err := k.openNetns(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	defer ns.Close()
	id, err := k.h.GetNetNsIdByFd(int(ns.Fd()))
	if err != nil {
		return nil, nil, fmt.Errorf("ask for the number of namespace %s: %w", name, err)
	}
	if id != have.Attrs().NetNsID {
		return nil, nil, fmt.Errorf("the app's side is not in namespace %s: %w", name, netstate.ErrWaiting)
	}
	h, err := netlink.NewHandleAt(netns.NsHandle(int(ns.Fd())), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, nil, fmt.Errorf("open netlink in namespace %s: %w", name, err)
	}
	if err := h.SetSocketTimeout(requestTimeout); err != nil {
		h.Close()
		return nil, nil, fmt.Errorf("set netlink timeout: %w", err)
	}
	peer, err := retry(func() (netlink.Link, error) { return h.LinkByIndex(have.Attrs().ParentIndex) })
	if err != nil {
		h.Close()
		if isNotFound(err) {
			err = errors.Join(err, netstate.ErrWaiting)
		}
		return nil, nil, fmt.Errorf("find the app's side in namespace %s: %w", name, err)
	}
	return h, peer, nil
}
