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

// pause is the time between two queries to a server that is not up yet.
const pause = 5 * time.Millisecond

// answers sends p's query once from the namespace and checks that the answer has the address that p expects. If it
// expects none, any answer will do, even NXDOMAIN (RFC 1035 §4.1.1). bridge is the index of the link that the helper
// serves, 0 if it is unknown.
func answers(ctx context.Context, netns string, p netstate.Probe, bridge int) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(p.Name), dns.TypeA)
	q.RecursionDesired = false // no upstream server
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
		return err
	}
	defer conn.Close()
	conn = newToLink(conn, bridge)
	r, _, err := new(dns.Client).ExchangeWithConnContext(ctx, q, &dns.Conn{Conn: conn})
	if err != nil || p.IP == "" {
		return err
	}
	for _, rr := range r.Answer {
		if a, ok := rr.(*dns.A); ok && a.A.String() == p.IP {
			return nil
		}
	}
	return fmt.Errorf("%s is answered with %s and %d records: must have %s", p.Name, dns.RcodeToString[r.Rcode],
		len(r.Answer), p.IP)
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

// await repeats the query until a good answer arrives, the process ends or ctx does.
func await(ctx context.Context, netns string, p netstate.Probe, bridge int, id proc.Ident) error {
	for {
		err := answers(ctx, netns, p, bridge)
		switch {
		case err == nil && id.Alive():
			return nil
		case !id.Alive():
			return fmt.Errorf("process exited")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no DNS answer from %s: %w (%w)", p.Addr, context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}
