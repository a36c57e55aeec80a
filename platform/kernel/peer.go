package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// seenPeers are the veths whose peer was in the namespace of the desired name when that was last asked.
type seenPeers struct {
	mu sync.Mutex
	by map[int]map[int]seenPeer // by network, and index of the link
}

// seenPeer is a name of a namespace, what was at it, and the kernel's ID for that.
type seenPeer struct {
	name string
	file nsFile
	id   int
}

// peerSearch looks for the peers of a network's veths.
type peerSearch struct {
	k          *Kernel
	number     int
	old, found map[int]seenPeer
}

func (s *seenPeers) of(k *Kernel, number int) *peerSearch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &peerSearch{k: k, number: number, old: s.by[number], found: map[int]seenPeer{}}
}

// keep stores what was found for the next search.
func (p *peerSearch) keep() {
	s := &p.k.peers
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[int]map[int]seenPeer{}
	}
	if delete(s.by, p.number); len(p.found) > 0 {
		s.by[p.number] = p.found
	}
}

// isIn reports whether a veth's peer is in the namespace currently at name's path. If no namespace is at the path, the
// peer's own may live on unnamed, so the link stays unchanged.
//
// While a veth exists its peer's namespace does, too, and no other has its inode. So if the name leads to the same file
// as when the kernel was asked for its ID, the answer is still right; to ask again for each adapter each minute costs
// ten times as much.
func (p *peerSearch) isIn(ctx context.Context, name string, l link) bool {
	if old, known := p.old[l.index]; known && old.name == name && old.id == l.netns {
		if now, err := p.k.netns.at(name); err == nil && now == old.file {
			p.found[l.index] = old
			return true
		}
	}
	ns, err := p.k.openNetns(ctx, name)
	if err != nil {
		return true
	}
	defer ns.Close()
	id, err := p.k.h.GetNetNsIdByFd(int(ns.Fd()))
	if err != nil {
		return true
	}
	if file, err := fileAt(int(ns.Fd())); err == nil && id == l.netns && id >= 0 {
		p.found[l.index] = seenPeer{name, file, id}
	}
	return id == l.netns
}

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
