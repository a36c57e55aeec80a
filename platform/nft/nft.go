// Package nft writes and reads tables of the families bridge, inet, ip6 and arp in the kernel's nf_tables, removes
// chains of the family ip, and reports changes by other programs, through netlink. The nft command reads the complete
// ruleset of the host before it changes anything, which takes 50 ms with a hundred networks; this package takes well
// below one.
//
// It supports the part of nft's language that edgespan's tables use and refuses anything else. It never decides what a
// table contains, and only changes tables and chains that the caller names, and jumps into chains that it removes.
package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

const (
	timeout = 5 * time.Second
	// buffer is the size of the send buffer: the batch of a table of a thousand adapters has some four megabytes.
	buffer   = 16 << 20
	maxTries = 20 // of a dump that a change interrupts
)

// Conn is a socket to the nf_tables of one network namespace.
type Conn struct {
	mu    sync.Mutex
	netns string
	fd    int
	port  uint32 // of the socket: names it as the owner of tables and in events
	seq   uint32
	keeps *bool         // the kernel keeps an owned table after its owner closes; nil: not queried yet
	buf   [1 << 16]byte // for receive: a netlink message is smaller
}

// Table names a table of nf_tables.
type Table struct {
	Family netstate.Family
	Name   string
}

func (t Table) String() string { return string(t.Family) + " " + t.Name }

// The numbers of the families (linux/netfilter.h).
var families = map[netstate.Family]byte{netstate.BridgeFamily: unix.AF_BRIDGE, netstate.InetFamily: 1,
	netstate.ARPFamily: 3, netstate.IP6Family: unix.AF_INET6}

// Flags of a table (linux/netfilter/nf_tables.h). Only its owner's socket can change and flush an owned table. A
// persistent one survives when that socket closes (Linux 6.9).
const (
	flagOwner   = 0x2
	flagPersist = 0x4
)

// Open opens the namespace at a path, "" for the process's own.
func Open(netnsPath string) (*Conn, error) {
	c := &Conn{fd: -1, netns: netnsPath}
	err := proc.In(netnsPath, func() (err error) {
		c.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open nf_tables: %w", err)
	}
	tv := unix.NsecToTimeval(timeout.Nanoseconds())
	err = errors.Join(
		unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv),
		unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, buffer),
		unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer),
	)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("set up nf_tables: %w", err)
	}
	name, err := unix.Getsockname(c.fd)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("set up nf_tables: %w", err)
	}
	c.port = name.(*unix.SockaddrNetlink).Pid
	return c, nil
}

// Close closes the socket. The tables remain.
func (c *Conn) Close() {
	if c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
	}
}

// Replace replaces a table in one transaction. lines is the content of `table FAMILY NAME { … }` in nft(8), line by
// line. If the kernel can keep the table afterwards, this socket owns it while it is open.
func (c *Conn) Replace(t Table, lines []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := compile(t.Family, lines, c.setNumber)
	if err != nil {
		return fmt.Errorf("table %s: %w", t, err)
	}
	family, name := families[t.Family], text(t.Name)
	table := attr(unix.NFTA_TABLE_NAME, name)
	b := batch{}
	// Only an existing table can be deleted, so create it first. The first message has no flags, since the flags of an
	// existing table can't be changed.
	b.addTo(family, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, table)
	b.addTo(family, unix.NFT_MSG_DELTABLE, 0, table)
	b.addTo(family, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, table, c.flags())
	b.addBody(family, name, body, false)
	if err := c.commit(b); err != nil {
		return fmt.Errorf("write table %s: %w", t, err)
	}
	return nil
}

// flags returns the flags of edgespan's tables.
func (c *Conn) flags() []byte {
	if !c.keepsOwned() {
		return nil
	}
	return attr(unix.NFTA_TABLE_FLAGS, be32(flagOwner|flagPersist))
}

// OwnsTables reports whether the kernel keeps an owned table after its owner closes. If it does not (before Linux 6.9),
// tables have no owner.
func (c *Conn) OwnsTables() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keepsOwned()
}

// keepsOwned queries that with a batch without an end, which the kernel checks and rolls back.
func (c *Conn) keepsOwned() bool {
	if c.keeps == nil {
		b := batch{open: true}
		b.addTo(families[netstate.InetFamily], unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE,
			attr(unix.NFTA_TABLE_NAME, text("edgespan-asks")), attr(unix.NFTA_TABLE_FLAGS, be32(flagOwner|flagPersist)))
		keeps := c.commit(b) == nil
		c.keeps = &keeps
	}
	return *c.keeps
}

// Delete removes a table. A missing table is no error.
func (c *Conn) Delete(t Table) error { return c.Remove(Removal{Tables: []Table{t}}) }

// batch is one transaction.
type batch struct {
	msgs []message
	sets uint32 // that it creates
	open bool   // without an end: the kernel rolls it back
}

type message struct {
	kind  uint16
	flags uint16
	body  []byte
}

func (b *batch) addTo(family byte, kind, flags int, attrs ...[]byte) {
	b.msgs = append(b.msgs,
		message{unix.NFNL_SUBSYS_NFTABLES<<8 | uint16(kind), uint16(flags), join(genmsg(family, 0), attrs)})
}

// addBody adds the messages that create the content of a table. With refill, chains and sets that exist keep their
// handles, chains get new rules, and sets get more elements. Elements are last: their verdicts name chains.
func (b *batch) addBody(family byte, table []byte, body body, refill bool) {
	for _, s := range slices.Concat(body.sets, body.meters) {
		b.addSet(family, table, s)
	}
	chain := func(kind uint16, name string) [][]byte {
		return [][]byte{attr(unix.NFTA_CHAIN_TABLE, table), attr(kind, text(name))}
	}
	for _, ch := range body.chains {
		b.addTo(family, unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, append(chain(unix.NFTA_CHAIN_NAME, ch.name), ch.hook)...)
	}
	for _, ch := range body.chains {
		if refill {
			b.addTo(family, unix.NFT_MSG_DELRULE, 0, chain(unix.NFTA_RULE_CHAIN, ch.name)...)
		}
		for _, r := range ch.rules {
			b.addTo(family, unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND,
				append(chain(unix.NFTA_RULE_CHAIN, ch.name), nestAttrs(unix.NFTA_RULE_EXPRESSIONS, r))...)
		}
	}
	for _, s := range body.sets {
		b.addElements(family, table, s.name, unix.NFT_MSG_NEWSETELEM, s.elements)
	}
}

// commit sends a batch. The kernel processes it before the send returns: first it checks each message, then, if none
// failed, it commits all of them at once.
func (c *Conn) commit(b batch) error {
	var out []byte
	c.seq++
	first := c.seq
	out = frame(out, unix.NFNL_MSG_BATCH_BEGIN, 0, c.seq, genmsg(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES))
	for i, m := range b.msgs {
		c.seq++
		flags := m.flags
		if i == len(b.msgs)-1 {
			flags |= unix.NLM_F_ACK
		}
		out = frame(out, m.kind, flags, c.seq, m.body)
	}
	last := c.seq
	c.seq++
	if !b.open {
		out = frame(out, unix.NFNL_MSG_BATCH_END, 0, c.seq, genmsg(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES))
	}
	if err := c.send(out); err != nil {
		return err
	}
	var failed error
	acked := false
	for {
		msgs, err := c.receive(unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			break
		} else if err != nil {
			return err
		}
		for _, m := range msgs {
			if m.Header.Type != unix.NLMSG_ERROR || m.Header.Seq < first || m.Header.Seq > c.seq {
				continue
			}
			if err := answer(m); err != nil && failed == nil {
				failed = err
			}
			acked = acked || m.Header.Seq == last
		}
	}
	if failed == nil && !acked {
		failed = errors.New("the kernel did not answer")
	}
	return failed
}

func (c *Conn) send(b []byte) error {
	return unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// receive returns the next messages, which are valid until the next call.
func (c *Conn) receive(flags int) ([]syscall.NetlinkMessage, error) {
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buf[:], flags)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return syscall.ParseNetlinkMessage(c.buf[:n])
	}
}

// answer returns the error of an NLMSG_ERROR message, or nil for an ack.
func answer(m syscall.NetlinkMessage) error {
	if len(m.Data) < 4 {
		return errors.New("truncated answer from the kernel")
	}
	if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// genmsg returns the nfgenmsg that precedes the attributes.
func genmsg(family byte, resource uint16) []byte {
	return []byte{family, unix.NFNETLINK_V0, byte(resource >> 8), byte(resource)}
}

func frame(out []byte, kind, flags uint16, seq uint32, body []byte) []byte {
	out = binary.NativeEndian.AppendUint32(out, uint32(unix.SizeofNlMsghdr+len(body)))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = binary.NativeEndian.AppendUint16(out, unix.NLM_F_REQUEST|flags)
	out = binary.NativeEndian.AppendUint32(out, seq)
	out = binary.NativeEndian.AppendUint32(out, 0)
	return pad(append(out, body...))
}

func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func join(head []byte, rest [][]byte) []byte {
	for _, r := range rest {
		head = append(head, r...)
	}
	return head
}

func attr(kind uint16, data []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return pad(append(b, data...))
}

func nestAttrs(kind uint16, attrs ...[]byte) []byte {
	return attr(kind|unix.NLA_F_NESTED, join(nil, attrs))
}

func text(s string) []byte { return append([]byte(s), 0) }

func be32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
