package probe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"edgespan/netinst/probe"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

const (
	dnsPort = 53
	udpHead = 8 // length of a UDP header
	// maxServers is how many DNS servers are asked for one name.
	maxServers = 3
	// maxAnswer is the length of the longest answer that is read. A longer one is cut, and so invalid.
	maxAnswer = 4096
)

// dns asks a server for the root servers, which every resolver knows. Every answer but SERVFAIL proves that it works.
func (s shot) dns(ctx context.Context, target string) (time.Duration, error) {
	server, err := netip.ParseAddr(target)
	if err != nil {
		return 0, fmt.Errorf("invalid target %q: must be an address", target)
	}
	began := time.Now()
	answer, err := s.query(ctx, server, ".", dns.TypeNS)
	if err != nil {
		return 0, err
	}
	if answer.Rcode == dns.RcodeServerFailure {
		return 0, fmt.Errorf("DNS server %s answers SERVFAIL", target)
	}
	return time.Since(began), nil
}

// resolve asks the port's servers, one after the other, for the address of a host. Each has its share of the time
// that is left; the last share is the target's.
func (s shot) resolve(ctx context.Context, host string) (netip.Addr, error) {
	if _, ok := dns.IsDomainName(host); !ok || host == "" {
		return netip.Addr{}, fmt.Errorf("invalid host %q: must be an address or a name", host)
	}
	if len(s.servers) == 0 {
		return netip.Addr{}, fmt.Errorf("no DNS server for %s", host)
	}
	servers := s.servers[:min(len(s.servers), maxServers)]
	var failed error
	for i, server := range servers {
		a, err := s.askFor(ctx, host, server, len(servers)-i+1)
		if err == nil || ctx.Err() != nil {
			return a, err
		}
		if failed == nil || errors.Is(failed, probe.ErrNone) { // the first, unless it says nothing about the port
			failed = err
		}
	}
	return netip.Addr{}, failed
}

// askFor asks one server for the address of a host, for at most a part of the time that is left.
func (s shot) askFor(ctx context.Context, host string, server netip.Addr, parts int) (netip.Addr, error) {
	if end, ok := ctx.Deadline(); ok {
		within, cancel := context.WithTimeout(ctx, time.Until(end)/time.Duration(parts))
		defer cancel()
		ctx = within
	}
	kind, family := dns.TypeA, "IPv4"
	if s.ipv6 {
		kind, family = dns.TypeAAAA, "IPv6"
	}
	answer, err := s.query(ctx, server, dns.Fqdn(host), kind)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("resolve %s: %w", host, err)
	case answer.Rcode != dns.RcodeSuccess:
		return netip.Addr{}, fmt.Errorf("resolve %s: DNS server %s answers %s", host, server,
			dns.RcodeToString[answer.Rcode])
	}
	owner := dns.Fqdn(host)
	for _, rr := range answer.Answer {
		if !strings.EqualFold(rr.Header().Name, owner) {
			continue
		}
		switch rr := rr.(type) {
		case *dns.CNAME:
			owner = rr.Target
		case *dns.A:
			if a, ok := netip.AddrFromSlice(rr.A); ok && !s.ipv6 {
				return a.Unmap(), nil
			}
		case *dns.AAAA:
			if a, ok := netip.AddrFromSlice(rr.AAAA); ok && s.ipv6 && !a.Is4In6() {
				return a, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("resolve %s: no %s address", host, family)
}

// query sends one query and returns the server's answer. The socket is connected: the kernel drops what others send.
func (s shot) query(ctx context.Context, server netip.Addr, name string, kind uint16) (*dns.Msg, error) {
	silent := fmt.Errorf("no answer from DNS server %s", server)
	q := new(dns.Msg)
	q.SetQuestion(name, kind) // with a random id, recursion desired
	asked, err := q.Pack()
	if err != nil {
		return nil, fmt.Errorf("invalid name %q", name)
	}
	sock, done, err := s.open(ctx, familyOf(server), unix.SOCK_DGRAM, 0)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := filter(sock, idFilter(q.Id)); err != nil {
		return nil, fmt.Errorf("filter DNS: %w", err)
	}
	if err := s.reach(sock, netip.AddrPortFrom(server, dnsPort)); err != nil {
		return nil, err
	}
	if _, err := sock.Write(asked); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, silent
		}
		return nil, s.unsent("DNS server "+server.String(), err)
	}
	s.count(ipHead(server) + udpHead + len(asked))
	got := make([]byte, maxAnswer)
	for {
		n, err := sock.Read(got)
		switch {
		case err == nil:
			s.count(ipHead(server) + udpHead + n)
			if answer := answerTo(q, got[:n]); answer != nil {
				return answer, nil
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, silent
		case errors.Is(err, unix.ECONNREFUSED): // its sender has to know our port
			return nil, fmt.Errorf("no DNS server at %s", server)
		case !passing(err):
			return nil, s.unsent("DNS server "+server.String(), err)
		}
	}
}

// idFilter is a classic BPF program that accepts answers with an id, so that those of blind senders do not fill the
// socket. It begins at the UDP header.
func idFilter(id uint16) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: udpHead},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(id), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 16},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}

// answerTo returns the answer to q, nil if b is none.
func answerTo(q *dns.Msg, b []byte) *dns.Msg {
	answer := new(dns.Msg)
	if answer.Unpack(b) != nil || answer.Id != q.Id || !answer.Response || answer.Opcode != dns.OpcodeQuery ||
		len(answer.Question) != 1 {
		return nil
	}
	got, asked := answer.Question[0], q.Question[0]
	if got.Qtype != asked.Qtype || got.Qclass != asked.Qclass || !strings.EqualFold(got.Name, asked.Name) {
		return nil
	}
	return answer
}
