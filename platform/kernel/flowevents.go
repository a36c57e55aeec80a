package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// More of linux/netfilter/nfnetlink_conntrack.h, nfnetlink.h and sock_diag.h.
const (
	ctDestroyGroup = 3 // NFNLGRP_CONNTRACK_DESTROY
	ctTimestamp    = 20
	ctStart        = 1 // CTA_TIMESTAMP_START
	ctStop         = 2 // CTA_TIMESTAMP_STOP
	memDrops       = 8 // SK_MEMINFO_DROPS

	// flowBuffer is how much the kernel keeps of events that are not read yet: a second of 10,000 flows.
	flowBuffer = 8 << 20
	// flowPause is how long events are collected: a hundred, of 10,000 flows a second.
	flowPause = 10 * time.Millisecond
)

// EndedFlows reports the ends of tracked connections of this network namespace as they happen, and uses the slices
// again. It returns nil once ctx ends.
func (k *Kernel) EndedFlows(ctx context.Context, emit func(netstate.FlowEvents)) error {
	return k.readEvents(ctx, "listen to the ends of connections", func(fd int) error {
		return os.NewSyscallError("setsockopt",
			unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, ctDestroyGroup))
	}, emit)
}

// DeniedPackets is EndedFlows for the packets that are logged to a group of nfnetlink_log.
func (k *Kernel) DeniedPackets(ctx context.Context, group uint16, emit func(netstate.FlowEvents)) error {
	return k.readEvents(ctx, "listen to denied packets", func(fd int) error { return joinLog(fd, group) }, emit)
}

// readEvents reads a socket, which join makes get events, until ctx ends.
func (k *Kernel) readEvents(ctx context.Context, what string, join func(fd int) error,
	emit func(netstate.FlowEvents)) error {
	fd, err := k.flowSocket(join)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	file := os.NewFile(uintptr(fd), "nfnetlink")
	defer file.Close()
	defer context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })()
	socket, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	r := flowReader{buf: make([]byte, 1<<16)}
	for {
		var failed error
		if err := socket.Read(func(fd uintptr) bool {
			failed = r.read(int(fd))
			return !errors.Is(failed, unix.EAGAIN)
		}); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("%s: %w", what, err)
		}
		// ENOBUFS says that some are lost, and their number is in the socket.
		if failed != nil && !errors.Is(failed, unix.EINTR) && !errors.Is(failed, unix.ENOBUFS) {
			return fmt.Errorf("%s: %w", what, failed)
		}
		if r.Lost, err = r.lost(fd); err != nil {
			return fmt.Errorf("%s: count the lost ones: %w", what, err)
		}
		if len(r.Ended)+len(r.Denied) > 0 || r.Lost > 0 {
			emit(r.FlowEvents)
		}
		if len(r.Ended)+len(r.Denied) == flowsAtOnce {
			continue
		}
		select { // an event by itself costs several times as much as one of many
		case <-ctx.Done():
			return nil
		case <-time.After(flowPause):
		}
	}
}

// flowSocket opens a socket of netfilter with a large buffer.
func (k *Kernel) flowSocket(join func(fd int) error) (fd int, err error) {
	fd = -1
	err = proc.In(k.path, func() error {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
			unix.NETLINK_NETFILTER)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, flowBuffer); err != nil {
			// The limit applies without CAP_NET_ADMIN in the initial namespace.
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, flowBuffer); err != nil {
				return os.NewSyscallError("setsockopt", err)
			}
		}
		if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return os.NewSyscallError("bind", err)
		}
		return join(fd)
	})
	if err != nil && fd >= 0 {
		unix.Close(fd)
	}
	return fd, err
}

// flowReader reads a socket of events.
type flowReader struct {
	netstate.FlowEvents
	buf   []byte
	drops uint32 // of the socket, as last read
}

// flowsAtOnce limits how many ends are reported together.
const flowsAtOnce = 512

// read takes the events that are there, up to flowsAtOnce; EAGAIN if there are none.
func (r *flowReader) read(fd int) error {
	r.Ended, r.Denied = r.Ended[:0], r.Denied[:0]
	for len(r.Ended)+len(r.Denied) < flowsAtOnce {
		n, from, err := unix.Recvfrom(fd, r.buf, 0)
		if errors.Is(err, unix.EAGAIN) && len(r.Ended)+len(r.Denied) > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 { // only the kernel is believed
			continue
		}
		msgs, err := syscall.ParseNetlinkMessage(r.buf[:n])
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		now := time.Now()
		for _, m := range msgs {
			switch m.Header.Type {
			case unix.NFNL_SUBSYS_CTNETLINK<<8 | nl.IPCTNL_MSG_CT_DELETE:
				if f, ok := parseEnded(m.Data, now); ok {
					r.Ended = append(r.Ended, f)
				}
			case unix.NFNL_SUBSYS_ULOG << 8: // NFULNL_MSG_PACKET
				if p, ok := parseLogged(m.Data, now); ok {
					r.Denied = append(r.Denied, p)
				}
			}
		}
	}
	return nil
}

// lost returns how many events the socket has dropped since the last call.
func (r *flowReader) lost(fd int) (uint64, error) {
	var info [memDrops + 1]uint32 // of SO_MEMINFO
	size := uint32(unsafe.Sizeof(info))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		return 0, os.NewSyscallError("getsockopt", errno)
	}
	n := info[memDrops] - r.drops
	r.drops = info[memDrops]
	return uint64(n), nil
}

// parseEnded reads the event of a connection that has ended at a time, unless the kernel says when.
func parseEnded(b []byte, now time.Time) (netstate.EndedFlow, bool) {
	f, _, ok := parseFlow(b)
	out := netstate.EndedFlow{Flow: f, End: now}
	if !ok {
		return out, false
	}
	each(b[nfgenLen:], func(kind uint16, v []byte) {
		switch kind {
		case nl.CTA_COUNTERS_ORIG:
			out.Out = parseTraffic(v)
		case nl.CTA_COUNTERS_REPLY:
			out.In = parseTraffic(v)
		case ctTimestamp:
			each(v, func(kind uint16, v []byte) {
				switch at := parseTime(v); {
				case at.IsZero():
				case kind == ctStart:
					out.Start = at
				case kind == ctStop:
					out.End = at
				}
			})
		}
	})
	return out, true
}

func parseTraffic(b []byte) (t netstate.Traffic) {
	each(b, func(kind uint16, v []byte) {
		switch {
		case len(v) != 8:
		case kind == nl.CTA_COUNTERS_PACKETS:
			t.Packets = binary.BigEndian.Uint64(v)
		case kind == nl.CTA_COUNTERS_BYTES:
			t.Bytes = binary.BigEndian.Uint64(v)
		}
	})
	return t
}

// parseTime reads nanoseconds since 1970.
func parseTime(v []byte) time.Time {
	if len(v) != 8 {
		return time.Time{}
	}
	ns := binary.BigEndian.Uint64(v)
	if ns == 0 || ns > 1<<62 {
		return time.Time{}
	}
	return time.Unix(0, int64(ns))
}
