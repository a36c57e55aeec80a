package nft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// Change is a change in nf_tables.
type Change struct {
	Port  uint32 // of the socket that made it; usually the command's process ID
	Table Table
	Chain string // that changed, or that a map's element leads to; "" for a table or another element
	Gone  bool   // the table was deleted, with all that was in it
}

// Own reports whether this connection made a change.
func (c *Conn) Own(ch Change) bool { return ch.Port == c.port }

const (
	watchBuffer = 4 << 20 // bytes: a flushed ruleset of some ten thousand rules
	// nfgenLen is the length of struct nfgenmsg, which precedes the attributes.
	nfgenLen = 4
)

// Watch emits changes by any program until ctx ends (then it returns nil): of chains and rules, removals of tables,
// and, in the families that edgespan's tables use, changes of set elements. It calls listening once every later change
// is sure to be emitted. It emits equal consecutive changes once. lost means that events were lost: anything may have
// changed. Both functions must be fast.
func (c *Conn) Watch(ctx context.Context, listening func(), emit func(changes []Change, lost bool)) error {
	fd := -1
	err := proc.In(c.netns, func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
		return err
	})
	if err != nil {
		return fmt.Errorf("subscribe to nf_tables: %w", err)
	}
	sock := os.NewFile(uintptr(fd), "nf_tables") // waits in the runtime's poller, which needs no thread
	defer sock.Close()
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, watchBuffer),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES),
	)
	if err != nil {
		return fmt.Errorf("subscribe to nf_tables: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = sock.Close() })()
	listening()
	buf := make([]byte, 1<<16)
	for ctx.Err() == nil {
		n, err := sock.Read(buf)
		switch {
		case errors.Is(err, os.ErrClosed): // ctx has ended
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
		if ch, ok := changeOf(m); ok && (len(list) == 0 || list[len(list)-1] != ch) {
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
	kind := m.Header.Type & 0xff
	ofElement := kind == unix.NFT_MSG_NEWSETELEM || kind == unix.NFT_MSG_DELSETELEM
	switch kind {
	case unix.NFT_MSG_DELTABLE, unix.NFT_MSG_NEWSETELEM, unix.NFT_MSG_DELSETELEM:
	case unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN:
		chain = unix.NFTA_CHAIN_NAME
	case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
		chain = unix.NFTA_RULE_CHAIN
	default:
		return Change{}, false
	}
	ch := Change{Port: m.Header.Pid, Gone: kind == unix.NFT_MSG_DELTABLE}
	switch m.Data[0] {
	case families[netstate.BridgeFamily]:
		ch.Table.Family = netstate.BridgeFamily
	case families[netstate.InetFamily]:
		ch.Table.Family = netstate.InetFamily
	case families[netstate.ARPFamily]:
		ch.Table.Family = netstate.ARPFamily
	case families[netstate.IP6Family]:
		ch.Table.Family = netstate.IP6Family
	case unix.AF_INET:
		if ofElement {
			return Change{}, false // edgespan has no sets of this family
		}
		ch.Table.Family = netstate.IPv4
	default:
		return Change{}, false
	}
	if ofElement {
		ch.Table.Name, ch.Chain = elementOf(m)
		return ch, ch.Table.Name != ""
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

// elementOf returns the table of an element, and the chain to which it leads. An event is about one element.
func elementOf(m syscall.NetlinkMessage) (table, chain string) {
	a := attrs(m)
	eachAttribute(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, elem []byte) {
		value := attributes(attributes(elem)[unix.NFTA_SET_ELEM_DATA])
		chain = str(attributes(value[unix.NFTA_DATA_VERDICT])[unix.NFTA_VERDICT_CHAIN])
	})
	return str(a[unix.NFTA_SET_ELEM_LIST_TABLE]), chain
}
