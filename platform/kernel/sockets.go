package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink/nl"
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
	s, err := nl.GetNetlinkSocketAt(netns.NsHandle(int(ns.Fd())), netns.None(), unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, fmt.Errorf("open sock_diag in namespace %s: %w", name, err)
	}
	defer s.Close()
	timeout := unix.NsecToTimeval(requestTimeout.Nanoseconds())
	if err := errors.Join(s.SetSendTimeout(&timeout), s.SetReceiveTimeout(&timeout)); err != nil {
		return 0, fmt.Errorf("set netlink timeout: %w", err)
	}
	sockets := map[int]*nl.SocketHandle{unix.NETLINK_INET_DIAG: {Socket: s}}
	for _, f := range flows {
		if ctx.Err() != nil {
			return ended, fmt.Errorf("end connections in namespace %s: %w", name, ctx.Err())
		}
		req := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
		req.Sockets = sockets
		req.AddRawData(socketOf(f))
		switch _, err := req.Execute(unix.NETLINK_INET_DIAG, 0); {
		case err == nil:
			ended++
		case !errors.Is(err, unix.ENOENT):
			return ended, fmt.Errorf("end connections in namespace %s: %w", name, err)
		}
	}
	return ended, nil
}

// socketOf names the TCP socket of a flow's sender: struct inet_diag_req_v2 (linux/inet_diag.h).
func socketOf(f netstate.Flow) []byte {
	family := byte(unix.AF_INET)
	if f.Src.Addr().Is6() {
		family = unix.AF_INET6
	}
	const anyState, noCookie = ^uint32(0), ^uint32(0)
	b := binary.NativeEndian.AppendUint32([]byte{family, unix.IPPROTO_TCP, 0, 0}, anyState)
	b = binary.BigEndian.AppendUint16(b, f.Src.Port())
	b = binary.BigEndian.AppendUint16(b, f.Dst.Port())
	for _, a := range [][]byte{f.Src.Addr().AsSlice(), f.Dst.Addr().AsSlice()} {
		b = append(append(b, a...), make([]byte, 16-len(a))...)
	}
	b = binary.NativeEndian.AppendUint32(b, 0) // any interface
	return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(b, noCookie), noCookie)
}
