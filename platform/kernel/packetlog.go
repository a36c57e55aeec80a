package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"edgespan/netinst/netstate"

	"golang.org/x/sys/unix"
)

// Of linux/netfilter/nfnetlink_log.h.
const (
	ulogConfig     = 1 // NFULNL_MSG_CONFIG
	ulogPayload    = 9
	ulogPrefix     = 10
	ulogCommand    = 1 // NFULA_CFG_CMD
	ulogMode       = 2 // NFULA_CFG_MODE
	ulogTimeout    = 4 // NFULA_CFG_TIMEOUT, in hundredths of a second
	ulogBind       = 1 // NFULNL_CFG_CMD_BIND
	ulogCopyPacket = 2 // NFULNL_COPY_PACKET

	// loggedBytes is how much of each packet is copied: the header of IPv6, those that may follow, and the ports.
	loggedBytes = 128
	// logDelay is how long the kernel collects packets, in hundredths of a second.
	logDelay = 10
)

// joinLog makes a socket the listener of a group of nfnetlink_log. Each group has one: EPERM says that another program
// is it.
func joinLog(fd int, group uint16) error {
	mode := binary.BigEndian.AppendUint32(nil, loggedBytes)
	for n, attrs := range [][]byte{
		appendAttr(nil, ulogCommand, []byte{ulogBind}),
		appendAttr(appendAttr(nil, ulogMode, append(mode, ulogCopyPacket, 0)), ulogTimeout,
			binary.BigEndian.AppendUint32(nil, logDelay)),
	} {
		err := configureLog(fd, uint32(n+1), group, attrs)
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("another program listens to it, or this one lacks CAP_NET_ADMIN: %w", err)
		}
		if err != nil {
			return fmt.Errorf("group %d of nfnetlink_log: %w", group, err)
		}
	}
	return nil
}

func configureLog(fd int, seq uint32, group uint16, attrs []byte) error {
	b := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+nfgenLen+len(attrs))
	b = binary.BigEndian.AppendUint16(append(b, unix.AF_UNSPEC, unix.NFNETLINK_V0), group)
	b = append(b, attrs...)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.NFNL_SUBSYS_ULOG<<8|ulogConfig)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	binary.NativeEndian.PutUint32(b[8:], seq)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	// The kernel answers before sendto returns; packets may come before the answer.
	answer := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		msgs, err := syscall.ParseNetlinkMessage(answer[:n])
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		for _, m := range msgs {
			if m.Header.Type != unix.NLMSG_ERROR || m.Header.Seq != seq || len(m.Data) < 4 {
				continue
			}
			if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
				return unix.Errno(-code)
			}
			return nil
		}
	}
}

var errShort = errors.New("the packet is too short")

// parseLogged reads a logged packet.
func parseLogged(b []byte, now time.Time) (p netstate.DeniedPacket, ok bool) {
	p.At = now
	if len(b) < nfgenLen {
		return p, false
	}
	var packet []byte
	each(b[nfgenLen:], func(kind uint16, v []byte) {
		switch kind {
		case ulogPrefix:
			p.Chain = string(bytes.TrimRight(v, "\x00"))
		case ulogPayload:
			packet = v
		}
	})
	var err error
	if p.Flow, p.Bytes, err = parseHead(packet); err != nil {
		return p, false
	}
	return p, true
}

// parseHead reads the head of an IP packet: its ends, and its length in octets as it says. A fragment that is not the
// first has no ports.
func parseHead(b []byte) (f netstate.Flow, size uint64, err error) {
	var src, dst netip.Addr
	var rest []byte
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		src, dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		f.Proto, size = b[9], uint64(binary.BigEndian.Uint16(b[2:]))
		if head := int(b[0]&15) * 4; head >= 20 && head <= len(b) && binary.BigEndian.Uint16(b[6:])&0x1fff == 0 {
			rest = b[head:]
		}
	case len(b) >= 40 && b[0]>>4 == 6:
		src, dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
		size = 40 + uint64(binary.BigEndian.Uint16(b[4:]))
		f.Proto, rest = skipHeaders(b[6], b[40:])
	default:
		return f, 0, errShort
	}
	var from, to uint16
	if (f.Proto == unix.IPPROTO_TCP || f.Proto == unix.IPPROTO_UDP) && len(rest) >= 4 {
		from, to = binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	}
	f.Src, f.Dst = netip.AddrPortFrom(src, from), netip.AddrPortFrom(dst, to)
	f.ReplySrc, f.ReplyDst = f.Dst, f.Src
	return f, size, nil
}

// skipHeaders returns the protocol behind the extension headers of IPv6, and what follows them; nothing follows in a
// fragment that is not the first (RFC 8200 §4).
func skipHeaders(next byte, b []byte) (proto byte, rest []byte) {
	for range 8 { // more than any honest packet has
		switch {
		case next == unix.IPPROTO_FRAGMENT && len(b) >= 8:
			first := binary.BigEndian.Uint16(b[2:])&0xfff8 == 0
			if next, b = b[0], b[8:]; !first {
				return next, nil
			}
		case next == unix.IPPROTO_HOPOPTS || next == unix.IPPROTO_ROUTING || next == unix.IPPROTO_DSTOPTS:
			if len(b) < 8 || len(b) < 8+8*int(b[1]) {
				return next, nil
			}
			next, b = b[0], b[8+8*int(b[1]):]
		default:
			return next, b
		}
	}
	return next, nil
}
