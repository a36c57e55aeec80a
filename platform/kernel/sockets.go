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

// EndConnections ends the TCP sockets in the network namespace at a name that have the addresses of flows, as ss -K
// does (sock_diag(7), SOCK_DESTROY): their app gets an error at once, and the remote end a reset. It returns how many
// there were. A flow without a socket is no error.
func (k *Kernel) EndConnections(ctx context.Context, name string, flows []netstate.Flow) (ended int, err error) {
	ns, err := k.openNetns(ctx, name)
	if err != nil {
		return 0, err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(netns.NsHandle(int(ns.Fd())), unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, fmt.Errorf("open sock_diag in namespace %s: %w", name, err)
	}
	defer h.Close()
	if err := h.SetSocketTimeout(requestTimeout); err != nil {
		return 0, fmt.Errorf("set netlink timeout: %w", err)
	}
	for _, f := range flows {
		if ctx.Err() != nil {
			return ended, fmt.Errorf("end connections in namespace %s: %w", name, ctx.Err())
		}
		switch err := h.SocketDestroy(net.TCPAddrFromAddrPort(f.Src), net.TCPAddrFromAddrPort(f.Dst)); {
		case err == nil:
			ended++
		case !errors.Is(err, unix.ENOENT):
			return ended, fmt.Errorf("end connections in namespace %s: %w", name, err)
		}
	}
	return ended, nil
}
