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

// tryTime is how long one question waits: a port that nobody listens on answers
// at once, an address that is not there yet never does.
const tryTime = 200 * time.Millisecond

// pause is the time between two questions to a server that is not up yet.
const pause = 5 * time.Millisecond

// answers asks p's question once from the namespace and says whether the answer has
// the address that p wants; if it wants none, any answer will do, NXDOMAIN too
// (RFC 1035 §4.1.1).
func answers(ctx context.Context, netns string, p netstate.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(p.Name), dns.TypeA)
	q.RecursionDesired = false // only what it knows by itself, no server beyond
	var conn net.Conn
	err := proc.In(netns, func() error {
		var err error
		// From the address that the guard does not track: the answer comes also where the machine can
		// track no more flows. A host without the whole of 127.0.0.0/8 on lo has no such address.
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

// await asks until a good answer comes, the process ends or ctx does.
func await(ctx context.Context, netns string, p netstate.Probe, id proc.Ident) error {
	for {
		err := answers(ctx, netns, p)
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
