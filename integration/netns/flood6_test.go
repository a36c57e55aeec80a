package netns_test

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// floodICMP6 lets the provider of wan0 send a message of ICMPv6 from fe80::1 to the node again and again.
func (u *uplinks) floodICMP6(message []byte, hops int) (stop func(), sent func() int64) {
	u.t.Helper()
	var count atomic.Int64
	words := strings.Fields(u.node.Exec(u.t, "ip", "-6", "-o", "addr", "show", "dev", "wan0", "scope", "link"))
	node := words[slices.Index(words, "inet6")+1]
	to := &unix.SockaddrInet6{Addr: netip.MustParsePrefix(node).Addr().As16()}
	fd := -1
	u.isp[0].Do(u.t, func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6); err != nil {
			return err
		}
		from := &unix.SockaddrInet6{Addr: netip.MustParseAddr(nextHop6).As16()}
		for _, set := range []error{
			unix.BindToDevice(fd, "eth0"), unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, hops),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 7),
		} {
			if set != nil {
				return set
			}
		}
		return unix.Bind(fd, from)
	})
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
			for range 20 {
				if unix.Sendto(fd, message, 0, to) == nil {
					count.Add(1)
				}
			}
		}
	}()
	return func() {
		close(ended)
		<-done
		_ = unix.Close(fd)
	}, count.Load
}
