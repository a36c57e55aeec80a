package wireguard

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	tunDevice      = "/dev/net/tun"
	kernelType     = "wireguard" // of a link of the kernel's
	processType    = "tuntap"    // of a link of a process
	requestTimeout = 5 * time.Second
)

// links are the links of one network namespace.
type links struct {
	netns string

	mu sync.Mutex
	h  *netlink.Handle // nil: not open yet
}

func (l *links) handle() (*netlink.Handle, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.h != nil {
		return l.h, nil
	}
	ns := netns.None()
	if l.netns != "" {
		var err error
		if ns, err = netns.GetFromPath(l.netns); err != nil {
			return nil, fmt.Errorf("open namespace: %w", err)
		}
		defer ns.Close()
	}
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := h.SetSocketTimeout(requestTimeout); err != nil {
		h.Close()
		return nil, fmt.Errorf("set netlink timeout: %w", err)
	}
	l.h = h
	return h, nil
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.h != nil {
		l.h.Close()
		l.h = nil
	}
}

// link is what is observed of a link; the zero one is missing.
type link struct {
	netlink.Link
	mtu    int
	up     bool
	kernel bool // of type wireguard
	own    bool // has the network's mark
}

func (l *links) find(name string, number int) (link, error) {
	h, err := l.handle()
	if err != nil {
		return link{}, err
	}
	found, err := h.LinkByName(name)
	var none netlink.LinkNotFoundError
	switch {
	case errors.As(err, &none):
		return link{}, nil
	case err != nil:
		return link{}, fmt.Errorf("find link %s: %w", name, err)
	}
	a := found.Attrs()
	return link{Link: found, mtu: a.MTU, up: a.RawFlags&unix.IFF_UP != 0, kernel: found.Type() == kernelType,
		own: a.Alias == netstate.VPNAlias(number) && (found.Type() == kernelType || found.Type() == processType)}, nil
}

// errNoKernel means that the kernel has no WireGuard.
var errNoKernel = errors.New("the kernel has no WireGuard")

// add makes the link of v, without a mark: of the kernel's WireGuard, or a tun device that outlives its process.
func (l *links) add(name string, kernel bool) error {
	h, err := l.handle()
	if err != nil {
		return err
	}
	if kernel {
		err := h.LinkAdd(&netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: name}})
		if errors.Is(err, unix.EOPNOTSUPP) {
			return errNoKernel
		}
		if err != nil {
			return fmt.Errorf("make link %s: %w", name, err)
		}
		return nil
	}
	if err := proc.In(l.netns, func() error { return makeTun(name) }); err != nil {
		return fmt.Errorf("make link %s: %w", name, err)
	}
	return nil
}

func makeTun(name string) error {
	f, err := os.OpenFile(tunDevice, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("the kernel has neither WireGuard nor tun devices (module wireguard or tun): %w", err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	req, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_TUN_EXCL)
	fd := int(f.Fd())
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return fmt.Errorf("make tun device: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return fmt.Errorf("make tun device persist: %w", err)
	}
	return nil
}

// setUp gives a link its mark, its MTU, and sets it up.
func (l *links) setUp(at link, v netstate.VPN, number int) error {
	h, err := l.handle()
	if err != nil {
		return err
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"mark", func() error { return h.LinkSetAlias(at, netstate.VPNAlias(number)) }},
		{"set MTU of", func() error { return h.LinkSetMTU(at, v.MTU) }},
		{"set up", func() error { return h.LinkSetUp(at) }},
	}
	needed := []bool{!at.own, at.mtu != v.MTU, !at.up}
	if needed[0] { // a new one: a link-local address would make it send
		err := h.LinkSetIP6AddrGenMode(at, 1) // IN6_ADDR_GEN_MODE_NONE
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("set addr_gen_mode of link %s: %w", v.Link, err)
		}
	}
	if err := l.ignoreRouters(v.Link); err != nil {
		return fmt.Errorf("set accept_ra of link %s: %w", v.Link, err)
	}
	for i, s := range steps {
		if needed[i] {
			if err := s.do(); err != nil {
				return fmt.Errorf("%s link %s: %w", s.what, v.Link, err)
			}
		}
	}
	return nil
}

// ignoreRouters makes a link accept no router advertisement: a peer would lead the node's own IPv6 packets into the
// tunnel.
func (l *links) ignoreRouters(link string) error {
	return proc.SetIn(l.netns, "/proc/sys/net/ipv6/conf/"+link+"/accept_ra", "0")
}

// remove removes a link. A missing one is no error.
func (l *links) remove(at link) error {
	h, err := l.handle()
	if err != nil || at.Link == nil {
		return err
	}
	if err := h.LinkDel(at); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove link %s: %w", at.Attrs().Name, err)
	}
	return nil
}
