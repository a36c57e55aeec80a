package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Messages and attributes of linux/netfilter/nfnetlink_conntrack.h that the library doesn't define.
const (
	ctGetStats     = 5 // IPCTNL_MSG_CT_GET_STATS
	ctStatsEntries = 1 // CTA_STATS_GLOBAL_ENTRIES
	ctID           = 12
	ctZone         = 18
	ctTupleZone    = 3 // CTA_TUPLE_ZONE: that of one direction alone
	nfgenLen       = 4 // size of struct nfgenmsg in octets

	walkBase = 5 * time.Second       // base time limit of a walk
	walkEach = 50 * time.Microsecond // extra time per table entry
	walkMax  = 1 << 20               // entries counted at most

	listTimeout = 2 * time.Minute // of a list, whose receiver may write each entry to a slow disk
)

// forgetting is one request to delete connections, and its result.
type forgetting struct {
	match func(netstate.Flow) bool
	count int
	err   error
}

// ForgetFlows starts deleting the matching connections from the kernel's table, so that their next packet is
// filtered as a new one. The returned function waits for the end of the deletion or of ctx and returns the number
// deleted; with an error, the number deleted before it. match is called from another goroutine.
func (k *Kernel) ForgetFlows(ctx context.Context, match func(netstate.Flow) bool) (answer func() (int, error)) {
	w := &forgetting{match: match}
	done := k.flows.Begin(w)
	return func() (int, error) {
		select {
		case <-done:
		case <-ctx.Done():
			return 0, fmt.Errorf("forget flows: %w", ctx.Err())
		}
		if w.err != nil {
			return w.count, fmt.Errorf("forget flows: %w", w.err)
		}
		return w.count, nil
	}
}

// TrackedFlows reports all connections in the kernel's table with what it has counted of them so far; End is the time
// of the report. The table changes meanwhile, and a slow receiver delays no other.
func (k *Kernel) TrackedFlows(ctx context.Context, each func(netstate.EndedFlow)) error {
	w, err := k.openWalk()
	if err != nil {
		return fmt.Errorf("list the connections: %w", err)
	}
	defer w.close()
	w.until = time.Now().Add(listTimeout)
	err = w.send(w.dump, nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP, unix.AF_UNSPEC)
	if err == nil {
		err = w.receive(w.dump, func(m syscall.NetlinkMessage) error {
			if f, ok := parseEnded(m.Data, time.Now()); ok {
				each(f)
			}
			return ctx.Err()
		})
	}
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("list the connections: %w", err)
	}
	return nil
}

// walk reads the table once for all pending requests: a walk visits every bucket, so it costs the same for one request
// as for a hundred.
func (k *Kernel) walk(all []*forgetting) {
	_, err := retry(func() (struct{}, error) {
		w, err := k.openWalk()
		if err != nil {
			return struct{}{}, err
		}
		defer w.close()
		return struct{}{}, w.run(all)
	})
	for _, f := range all {
		f.err = err
	}
}

// flowWalk is one walk through the table. It buffers only one kernel answer at a time: the table may have a million
// entries.
type flowWalk struct {
	dump, remove int // two sockets: a second request would end the dump
	until        time.Time
	seq          uint32
	buf          []byte
}

func (k *Kernel) openWalk() (*flowWalk, error) {
	w := &flowWalk{dump: -1, remove: -1, buf: make([]byte, 1<<16)}
	err := proc.In(k.path, func() (err error) {
		for _, fd := range []*int{&w.dump, &w.remove} {
			if *fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER); err != nil {
				return err
			}
			tv := unix.NsecToTimeval(requestTimeout.Nanoseconds())
			if err = errors.Join(unix.Bind(*fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
				unix.SetsockoptTimeval(*fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.close()
		return nil, fmt.Errorf("open conntrack: %w", err)
	}
	return w, nil
}

func (w *flowWalk) close() {
	for _, fd := range []int{w.dump, w.remove} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// run deletes the entries that match any of the requests.
func (w *flowWalk) run(all []*forgetting) error {
	entries, err := w.entries()
	if err != nil { // the kernel doesn't report it
		entries = walkMax
	}
	if entries == 0 { // of this namespace, while a walk visits the buckets of all
		return nil
	}
	w.until = time.Now().Add(walkBase + time.Duration(min(entries, walkMax))*walkEach)
	if err := w.send(w.dump, nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP, unix.AF_UNSPEC); err != nil {
		return err
	}
	return w.receive(w.dump, func(m syscall.NetlinkMessage) error {
		f, tuple, ok := parseFlow(m.Data)
		if !ok {
			return nil
		}
		forget := false
		for _, x := range all {
			if x.match(f) {
				x.count++
				forget = true
			}
		}
		if !forget {
			return nil
		}
		return w.forget(m.Data[0], tuple)
	})
}

// entries returns the number of entries in the table.
func (w *flowWalk) entries() (n uint32, err error) {
	if err = w.send(w.remove, ctGetStats, unix.NLM_F_ACK, unix.AF_UNSPEC); err != nil {
		return 0, err
	}
	w.until = time.Now().Add(walkBase)
	err = w.receive(w.remove, func(m syscall.NetlinkMessage) error {
		if len(m.Data) >= nfgenLen {
			each(m.Data[nfgenLen:], func(kind uint16, v []byte) {
				if kind == ctStatsEntries && len(v) == 4 {
					n = binary.BigEndian.Uint32(v)
				}
			})
		}
		return nil
	})
	return n, err
}

// forget deletes one entry. An entry that has already ended is no error.
func (w *flowWalk) forget(family byte, attrs []byte) error {
	if err := w.send(w.remove, nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK, family, attrs...); err != nil {
		return err
	}
	err := w.receive(w.remove, func(syscall.NetlinkMessage) error { return nil })
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (w *flowWalk) send(fd, kind, flags int, family byte, attrs ...byte) error {
	w.seq++
	b := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+nfgenLen+len(attrs))
	b = append(append(b, family, unix.NFNETLINK_V0, 0, 0), attrs...)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], uint16(unix.NFNL_SUBSYS_CTNETLINK<<8|kind))
	binary.NativeEndian.PutUint16(b[6:], uint16(unix.NLM_F_REQUEST|flags))
	binary.NativeEndian.PutUint32(b[8:], w.seq)
	return unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// receive passes the answers to the last request to take, until the dump or the acknowledgement ends.
func (w *flowWalk) receive(fd int, take func(syscall.NetlinkMessage) error) error {
	seq, interrupted := w.seq, false
	buf := w.buf
	if fd == w.remove { // while an answer of the dump is processed
		buf = make([]byte, 1<<12)
	}
	for {
		if time.Now().After(w.until) {
			return fmt.Errorf("walk through the connections: %w", context.DeadlineExceeded)
		}
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("walk through the connections: %w", err)
		}
		msgs, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return fmt.Errorf("walk through the connections: %w", err)
		}
		for _, m := range msgs {
			if m.Header.Seq != seq {
				continue
			}
			interrupted = interrupted || m.Header.Flags&unix.NLM_F_DUMP_INTR != 0
			switch {
			case m.Header.Type == unix.NLMSG_DONE && interrupted:
				return netlink.ErrDumpInterrupted
			case m.Header.Type == unix.NLMSG_DONE:
				return nil
			case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
				if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
					return unix.Errno(-code)
				}
				return nil
			}
			if err := take(m); err != nil {
				return err
			}
		}
	}
}

// parseFlow reads an entry and the attributes that identify it in a delete request.
func parseFlow(b []byte) (f netstate.Flow, name []byte, ok bool) {
	if len(b) < nfgenLen || b[0] != unix.AF_INET && b[0] != unix.AF_INET6 {
		return f, nil, false
	}
	orig := false
	each(b[nfgenLen:], func(kind uint16, v []byte) {
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			f.Proto, f.Src, f.Dst = parseTuple(v)
			orig = f.Src.Addr().IsValid() && f.Dst.Addr().IsValid()
			name = appendAttr(name, kind|unix.NLA_F_NESTED, v)
			each(v, func(part uint16, v []byte) {
				if part == ctTupleZone && len(v) == 2 {
					f.Zone = binary.BigEndian.Uint16(v)
				}
			})
		case nl.CTA_TUPLE_REPLY:
			_, f.ReplySrc, f.ReplyDst = parseTuple(v)
		case ctZone:
			if len(v) == 2 {
				f.Zone = binary.BigEndian.Uint16(v)
			}
			name = appendAttr(name, kind, v)
		case ctID: // a new entry in the same place has another ID
			name = appendAttr(name, kind, v)
		}
	})
	return f, name, orig
}

func parseTuple(b []byte) (proto uint8, src, dst netip.AddrPort) {
	var from, to netip.Addr
	var sport, dport uint16
	port := func(v []byte) uint16 {
		if len(v) != 2 {
			return 0
		}
		return binary.BigEndian.Uint16(v)
	}
	each(b, func(part uint16, v []byte) {
		each(v, func(kind uint16, v []byte) {
			switch {
			case part == nl.CTA_TUPLE_IP && (kind == nl.CTA_IP_V4_SRC || kind == nl.CTA_IP_V6_SRC):
				from, _ = netip.AddrFromSlice(v)
			case part == nl.CTA_TUPLE_IP && (kind == nl.CTA_IP_V4_DST || kind == nl.CTA_IP_V6_DST):
				to, _ = netip.AddrFromSlice(v)
			case part == nl.CTA_TUPLE_PROTO && kind == nl.CTA_PROTO_NUM && len(v) == 1:
				proto = v[0]
			case part == nl.CTA_TUPLE_PROTO && kind == nl.CTA_PROTO_SRC_PORT:
				sport = port(v)
			case part == nl.CTA_TUPLE_PROTO && kind == nl.CTA_PROTO_DST_PORT:
				dport = port(v)
			}
		})
	})
	return proto, netip.AddrPortFrom(from, sport), netip.AddrPortFrom(to, dport)
}

// each iterates over attributes and stops at a truncated one.
func each(b []byte, f func(kind uint16, v []byte)) {
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:n])
		b = b[min(len(b), (n+3)&^3):]
	}
}

func appendAttr(b []byte, kind uint16, v []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(v)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), v...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}
