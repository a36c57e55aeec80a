package nft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// Change is a change in nf_tables.
type Change struct {
	Port  uint32 // of the socket that made it; usually the command's process ID
	Table Table
	Chain string // "" for a table
}

// Own reports whether this connection made a change.
func (c *Conn) Own(ch Change) bool { return ch.Port == c.port }

const (
	watchBuffer = 4 << 20 // bytes: a flushed ruleset of some ten thousand rules
	// nfgenLen is the length of struct nfgenmsg, which precedes the attributes.
	nfgenLen = 4
)

// Watch emits changes by any program until ctx ends (then it returns nil): of chains and rules, removals of tables,
// and, in the families that edgespan's tables use, changes of set elements. It emits equal consecutive changes once.
// lost means that events were lost: anything may have changed. emit must be fast.
func (c *Conn) Watch(ctx context.Context, emit func(changes []Change, lost bool)) error {
	fd := -1
	err := proc.In(c.netns, func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		return err
	})
	if err != nil {
		return fmt.Errorf("subscribe to nf_tables: %w", err)
	}
	defer unix.Close(fd)
	tv := unix.NsecToTimeval(int64(time.Second)) // how soon the end of ctx is noticed
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, watchBuffer),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES),
	)
	if err != nil {
		return fmt.Errorf("subscribe to nf_tables: %w", err)
	}
	buf := make([]byte, 1<<16)
	for ctx.Err() == nil {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
		case errors.Is(err, unix.ENOBUFS): // the socket continues by itself
			emit(nil, true)
		case err != nil:
			return fmt.Errorf("receive from nf_tables: %w", err)
		default:
			if changes := changesIn(buf[:n]); len(changes) > 0 {
				emit(changes, false)
			}
		}
	}
	return nil
}

// changesIn returns the changes in messages, the first of equal consecutive ones.
func changesIn(b []byte) []Change {
	var list []Change
	msgs, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return nil
	}
	for _, m := range msgs {
		if ch, is := changeOf(m); is && (len(list) == 0 || list[len(list)-1] != ch) {
			list = append(list, ch)
		}
	}
	return list
}

func changeOf(m syscall.NetlinkMessage) (Change, bool) {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < nfgenLen {
		return Change{}, false
	}
	chain := uint16(0)
	switch m.Header.Type & 0xff {
	case unix.NFT_MSG_DELTABLE, unix.NFT_MSG_NEWSETELEM, unix.NFT_MSG_DELSETELEM:
	case unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN:
		chain = unix.NFTA_CHAIN_NAME
	case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
		chain = unix.NFTA_RULE_CHAIN
	default:
		return Change{}, false
	}
	ch := Change{Port: m.Header.Pid}
	switch m.Data[0] {
	case families[netstate.BridgeFamily]:
		ch.Table.Family = netstate.BridgeFamily
	case families[netstate.InetFamily]:
		ch.Table.Family = netstate.InetFamily
	case families[netstate.ARPFamily]:
		ch.Table.Family = netstate.ARPFamily
	case unix.AF_INET:
		if kind := m.Header.Type & 0xff; kind == unix.NFT_MSG_NEWSETELEM || kind == unix.NFT_MSG_DELSETELEM {
			return Change{}, false // edgespan has no sets of this family
		}
		ch.Table.Family = netstate.IPv4
	default:
		return Change{}, false
	}
	// The names come first: the content of a rule is skipped.
	for b := m.Data[nfgenLen:]; len(b) >= 4; {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			break
		}
		switch kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER); {
		case kind == unix.NFTA_TABLE_NAME: // the same number in all messages
			ch.Table.Name = str(b[4:n])
		case chain != 0 && kind == chain:
			ch.Chain = str(b[4:n])
		}
		if ch.Table.Name != "" && (chain == 0 || ch.Chain != "") {
			return ch, true
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return ch, ch.Table.Name != ""
}
