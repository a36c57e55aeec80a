package dnsmasq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// tryTime is the time limit of one query: a port without a listener answers at once, a missing address never.
const tryTime = 200 * time.Millisecond

// The pauses between two queries to a server that is not up yet: the first ones, while it starts as usual, and others.
const (
	startPause  = time.Millisecond
	startPauses = 16
	pause       = 5 * time.Millisecond
)

// asker asks a server p's query and expects p's answer.
type asker struct {
	probe netstate.Probe
	query *dns.Msg
	conn  *dns.Conn
}

// newAsker connects to the server of p from the namespace. bridge is the index of the link that the server serves, 0 if
// it is unknown.
func newAsker(ctx context.Context, netns string, p netstate.Probe, bridge int) (*asker, error) {
	a := &asker{probe: p, query: new(dns.Msg)}
	a.query.SetQuestion(dns.Fqdn(p.Name), dns.TypeA)
	a.query.RecursionDesired = false // no upstream server
	var conn net.Conn
	err := proc.In(netns, func() error {
		var err error
		// The firewall does not track flows from this address, so the answer arrives even if the machine can track no more
		// flows. A host without all of 127.0.0.0/8 on lo lacks the address.
		conn, err = (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(netstate.AskingAddr)}}).DialContext(ctx, "udp4",
			p.Addr)
		if errors.Is(err, unix.EADDRNOTAVAIL) {
			conn, err = (&net.Dialer{}).DialContext(ctx, "udp", p.Addr)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	a.conn = &dns.Conn{Conn: newToLink(conn, bridge)}
	return a, nil
}

func (a *asker) close() { _ = a.conn.Close() }

// ask sends the query once and checks that the answer has the address that p expects. If it expects none, any answer
// will do, even NXDOMAIN (RFC 1035 §4.1.1).
func (a *asker) ask(ctx context.Context) error {
	until := time.Now().Add(tryTime)
	if at, limited := ctx.Deadline(); limited && at.Before(until) {
		until = at
	}
	if err := errors.Join(ctx.Err(), a.conn.SetDeadline(until)); err != nil {
		return err
	}
	if err := a.conn.WriteMsg(a.query); err != nil {
		return err
	}
	r, err := a.conn.ReadMsg()
	for err == nil && r.Id != a.query.Id { // the answer to an abandoned query of another connection
		r, err = a.conn.ReadMsg()
	}
	if err != nil || a.probe.IP == "" {
		return err
	}
	for _, rr := range r.Answer {
		if x, ok := rr.(*dns.A); ok && x.A.String() == a.probe.IP {
			return nil
		}
	}
	return fmt.Errorf("%s is answered with %s and %d records: must have %s", a.probe.Name, dns.RcodeToString[r.Rcode],
		len(r.Answer), a.probe.IP)
}

// answers sends p's query once from the namespace and checks the answer.
func answers(ctx context.Context, netns string, p netstate.Probe, bridge int) error {
	a, err := newAsker(ctx, netns, p, bridge)
	if err != nil {
		return err
	}
	defer a.close()
	return a.ask(ctx)
}

// toLink is a connection whose packets are for a link's own address, if several links have the same one
// (netstate.Address.Label): the kernel says on which of them a packet arrived, and dnsmasq answers on its own alone.
// Unlike a binding to the link, it lets the answer in, which comes by lo.
type toLink struct {
	*net.UDPConn
	control []byte // IP_PKTINFO, ip(7)
}

// newToLink returns a connection to a link, or c itself if its index is unknown.
func newToLink(c net.Conn, index int) net.Conn {
	udp, ok := c.(*net.UDPConn)
	local, isUDP := c.LocalAddr().(*net.UDPAddr)
	if !ok || !isUDP || index == 0 || local.IP.To4() == nil {
		return c
	}
	info := unix.Inet4Pktinfo{Ifindex: int32(index), Spec_dst: [4]byte(local.IP.To4())}
	return toLink{udp, unix.PktInfo4(&info)}
}

func (c toLink) Write(b []byte) (int, error) {
	n, _, err := c.WriteMsgUDP(b, c.control, nil)
	return n, err
}

// await repeats the query until a good answer arrives, the process ends or ctx does. It asks by one connection: while
// nothing listens at the address, the kernel says so at once, and each query costs some microseconds.
func await(ctx context.Context, netns string, p netstate.Probe, bridge int, id proc.Ident) error {
	var a *asker
	for tries := 0; ; tries++ {
		var err error
		if a == nil { // a missing address is no address to connect to
			if a, err = newAsker(ctx, netns, p, bridge); err == nil {
				defer a.close()
			}
		}
		if err == nil {
			err = a.ask(ctx)
		}
		switch {
		case err == nil && id.Alive():
			return nil
		case !id.Alive():
			return fmt.Errorf("process exited")
		}
		wait := startPause
		if tries >= startPauses {
			wait = pause
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no DNS answer from %s: %w (%w)", p.Addr, context.Cause(ctx), err)
		case <-time.After(wait):
		}
	}
}
