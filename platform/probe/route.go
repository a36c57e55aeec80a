package probe

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"edgespan/netinst/probe"
	"edgespan/platform/proc"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// reach makes remote the peer of a socket, as connect does, after it has checked that the host has a route to it by
// the interface. Without one, the kernel sends a bound socket's packets all the same: it takes every address for a
// neighbour. That it does not answer then says nothing about the port: the error wraps probe.ErrNone.
func (s shot) reach(sock *os.File, remote netip.AddrPort) error {
	if err := otherHost(remote.Addr()); err != nil {
		return err
	}
	route, err := s.route(sock, remote.Addr())
	switch {
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EACCES),
		errors.Is(err, unix.EINVAL): // no route, or one that is unreachable, prohibited or a black hole
		return s.noRoute(sock, remote.Addr())
	case err != nil:
		return s.refuse(err)
	case route.Type == unix.RTN_LOCAL: // it would answer itself, without any network
		return ownAddress(remote.Addr())
	}
	local, err := s.connect(sock, remote)
	if err != nil {
		return err
	}
	return s.admits(sock, local, remote.Addr())
}

// admits fails if the kernel would drop the target's answers: with a strict rp_filter it accepts an IPv4 packet only
// by the interface that it would send one to its sender by, unless told otherwise by a rule. What is forwarded for
// networks has such rules, so this says nothing about the port either.
func (s shot) admits(sock *os.File, local, remote netip.Addr) error {
	index, err := s.index(sock)
	if err != nil {
		return s.refuse(err)
	}
	strict, back := false, netlink.Route{}
	err = proc.In(s.netns, func() error {
		if strict = remote.Is4() && max(rpFilter("all"), rpFilter(s.ifName)) == 1; !strict {
			return nil
		}
		back, err = lookUp(remote, &netlink.RouteGetOptions{SrcAddr: local.AsSlice(), FIBMatch: true})
		return err
	})
	if !strict || err == nil && leadsBy(back, index) {
		return nil
	}
	return fmt.Errorf("%s drops answers of %s: rp_filter is strict, and the route there is by another interface: %w",
		s.ifName, remote, probe.ErrNone)
}

// rpFilter reads how an interface checks the source of packets (ip-sysctl.rst): the greater of its own value and that
// of "all" counts, 1 is strict.
func rpFilter(ifName string) int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + ifName + "/rp_filter")
	if err != nil { // the interface is going: the shot will say so
		return 0
	}
	value, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return value
}

// leadsBy reports whether a route, or one of its next hops, is by an interface.
func leadsBy(route netlink.Route, index int) bool {
	return route.LinkIndex == index || slices.ContainsFunc(route.MultiPath, func(hop *netlink.NexthopInfo) bool {
		return hop.LinkIndex == index
	})
}

// lookUp returns the entry of the kernel's tables that a packet follows. It runs in the namespace.
func lookUp(remote netip.Addr, how *netlink.RouteGetOptions) (netlink.Route, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return netlink.Route{}, err
	}
	defer h.Close()
	list, err := h.RouteGetWithOptions(remote.AsSlice(), how)
	if err != nil || len(list) == 0 {
		return netlink.Route{}, err
	}
	return list[0], nil
}

// route returns the entry of the kernel's tables that a packet to remote by the interface follows. This one request of
// netlink takes no lock that is held while links and addresses change, so it keeps the shot's deadline.
func (s shot) route(sock *os.File, remote netip.Addr) (route netlink.Route, err error) {
	index, err := s.index(sock)
	if err != nil {
		return route, err
	}
	err = proc.In(s.netns, func() error {
		route, err = lookUp(remote, &netlink.RouteGetOptions{OifIndex: index, FIBMatch: true})
		return err
	})
	return route, err
}

// noRoute words that the kernel finds no route.
func (s shot) noRoute(sock *os.File, remote netip.Addr) error {
	if flags, err := s.flags(sock); err == nil && flags&unix.IFF_UP == 0 {
		return s.refuse(unix.ENETDOWN)
	}
	return fmt.Errorf("no route to %s by %s: %w", remote, s.ifName, probe.ErrNone)
}

func ownAddress(a netip.Addr) error {
	return fmt.Errorf("%s is %w", a, errOwn)
}

// flags returns the flags of the interface (netdevice(7)).
func (s shot) flags(sock *os.File) (flags uint16, err error) {
	request, err := s.request(sock, unix.SIOCGIFFLAGS)
	if err != nil {
		return 0, err
	}
	return request.Uint16(), nil
}

func (s shot) index(sock *os.File) (int, error) {
	request, err := s.request(sock, unix.SIOCGIFINDEX)
	if err != nil {
		return 0, err
	}
	return int(request.Uint32()), nil
}

// request asks the kernel about the interface in the namespace of a socket.
func (s shot) request(sock *os.File, what uint) (*unix.Ifreq, error) {
	request, err := unix.NewIfreq(s.ifName)
	if err != nil {
		return nil, unix.ENODEV // too long for a name
	}
	return request, control(sock, func(fd int) error { return unix.IoctlIfreq(fd, what, request) })
}
