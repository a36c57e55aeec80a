package wireguard

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	"edgespan/platform/proc"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// steerRest is the least time between two looks at the routes of tunnels: others may change routes all the time.
const steerRest = 100 * time.Millisecond

// way is where the packets to a peer leave.
type way struct {
	link   int
	source netip.Addr
}

// routeEvents are the changes of IPv6 routes, rules and addresses (linux/rtnetlink.h).
const routeEvents = 1<<(unix.RTNLGRP_IPV6_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_RULE-1)

// steer makes the kernel's tunnels leave by the routes of their marks as soon as these change, until ctx ends. Over
// IPv6 the kernel otherwise keeps the source address at which the peer was last heard, as long as it exists, until a
// handshake has failed for 15 s; over IPv4 it compares the link. Setting a peer's endpoint to the same one makes it
// forget the address. Where events can't be had, it is as the kernel has it.
func (t *Tunnels) steer(ctx context.Context) {
	var events *os.File
	err := proc.In(t.netns, func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		events = os.NewFile(uintptr(fd), "netlink")
		return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: routeEvents})
	})
	if events == nil {
		return
	}
	defer events.Close()
	defer context.AfterFunc(ctx, func() { _ = events.Close() })()
	ways := map[int]map[key]way{}
	for buf := make([]byte, 4096); err == nil; { // a longer message is cut
		t.steerAll(ctx, ways)
		if _, err = events.Read(buf); errors.Is(err, unix.ENOBUFS) {
			err = nil // some are lost: this one is enough
		}
		rest := time.NewTimer(steerRest)
		for waiting := err == nil; waiting; { // what comes meanwhile is part of the same look
			_ = events.SetReadDeadline(time.Now().Add(steerRest))
			_, more := events.Read(buf)
			waiting = more == nil
			select {
			case <-rest.C:
				waiting = false
			default:
			}
		}
		rest.Stop()
		_ = events.SetReadDeadline(time.Time{})
	}
}

// steerAll compares the ways to the peers with those of the last look.
func (t *Tunnels) steerAll(ctx context.Context, ways map[int]map[key]way) {
	t.mu.Lock()
	numbers := slices.Collect(maps.Keys(t.kernel))
	t.mu.Unlock()
	maps.DeleteFunc(ways, func(n int, _ map[key]way) bool { return !slices.Contains(numbers, n) })
	for _, n := range numbers {
		r, err := readRecord(t.folder(n))
		if err != nil || !r.Kernel {
			continue
		}
		dev := t.device(r, n)
		have, err := dev.get(ctx)
		if err != nil {
			continue
		}
		var c change
		now := map[key]way{}
		for public, p := range have.peers {
			if !p.endpoint.Addr().Is6() {
				continue
			}
			w, ok := t.way(p.endpoint.Addr(), have.mark)
			if !ok {
				continue // nothing leaves: the next route is another
			}
			if now[public] = w; ways[n][public] != w {
				c.peers = append(c.peers, peerChange{public: public, endpoint: p.endpoint})
			}
		}
		ways[n] = now
		if !c.empty() {
			_ = dev.set(ctx, c) // the interface may be gone
		}
	}
}

func (t *Tunnels) way(to netip.Addr, mark uint32) (way, bool) {
	h, err := t.links.handle()
	if err != nil {
		return way{}, false
	}
	routes, err := h.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{Mark: mark})
	if err != nil || len(routes) == 0 {
		return way{}, false
	}
	source, _ := netip.AddrFromSlice(routes[0].Src)
	return way{routes[0].LinkIndex, source}, true
}

// steered counts a tunnel of the kernel's, and begins to steer with the first.
func (t *Tunnels) steered(number int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kernel[number] = true
	if t.steering == nil {
		ctx, cancel := context.WithCancel(context.Background())
		t.steering = cancel
		go t.steer(ctx)
	}
}
