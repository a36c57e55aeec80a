package dhcpclient

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"edgespan/netinst/netstate"
)

// Limits of what a server may say. A shorter lease than minLease would keep the client busy for ever; a longer one than
// maxLease is renewed as if it were that long, so that a lease of 136 years ends with its server.
const (
	minLease = 30 * time.Second
	maxLease = 7 * 24 * time.Hour
	minRenew = 5 * time.Second // T1, and the time between two renewals
	minBits  = 8               // of a subnet
	minMTU   = 1280            // networks with IPv6 need it (RFC 8200 §5)
	maxMTU   = 65535
	maxDNS   = 8
)

// Lease is an address that a DHCP server has assigned, with what it said about the network.
type Lease struct {
	IfName  string
	Address netip.Prefix
	Gateway netip.Addr   `json:",omitzero"` // invalid without one
	DNS     []netip.Addr `json:",omitempty"`
	MTU     int          `json:",omitempty"` // 0: not said
	Server  netip.Addr
	Via     string // the MAC address through which the server is reached
	// The times at which it was assigned, is renewed (T1), is asked of any server (T2), and ends.
	From, Renew, Rebind, End time.Time
	// Machine is the ID of the machine's boot at which it was assigned, and Booted the time of that boot by the clock of
	// then: a clock that is set changes both times.
	Machine string    `json:",omitempty"`
	Booted  time.Time `json:",omitzero"`
}

// IsValid reports whether the lease of an interface is valid at a time. One that is not assigned yet, by a clock that
// has jumped back, is not.
func (l *Lease) IsValid(ifName string, at time.Time) bool {
	return l != nil && l.IfName == ifName && l.Address.IsValid() && !at.Before(l.From) && at.Before(l.End)
}

// maxDrift is how far a clock may move before a lease is dated anew.
const maxDrift = time.Second

// Dated returns the lease with its times by the clock as that is set now, if the machine has not booted since the lease
// was assigned; booted is the time of its boot by that clock. A machine without a battery leases before it learns the
// time: without this, its lease would be over at the next start of the daemon.
func (l Lease) Dated(machine string, booted time.Time) Lease {
	set := booted.Sub(l.Booted)
	if l.Machine == "" || l.Machine != machine || set.Abs() <= maxDrift {
		return l
	}
	l.Booted = booted
	for _, at := range []*time.Time{&l.From, &l.Renew, &l.Rebind, &l.End} {
		*at = at.Add(set)
	}
	return l
}

// noHosts are the prefixes that contain no host's address (RFC 6890).
var noHosts = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
}

func isHost(a netip.Addr) bool {
	return a.Is4() && !slices.ContainsFunc(noHosts, func(p netip.Prefix) bool { return p.Contains(a) })
}

// newLease returns the lease that an offer or an acknowledgement makes, or why it can't be used. Options that can't be
// used are left out, like a router that is the client itself.
func newLease(ifName string, r netstate.DHCPReply, at time.Time) (*Lease, error) {
	p := netip.PrefixFrom(r.Address, r.Bits)
	switch {
	case !isHost(r.Address):
		return nil, fmt.Errorf("address %s: must be the address of a host", r.Address)
	case !p.IsValid() || r.Bits < minBits:
		return nil, fmt.Errorf("subnet mask of %d bits: must have %d to 32", r.Bits, minBits)
	case isEdge(r.Address, p):
		return nil, fmt.Errorf("address %s: must not be the first or the last one of its subnet", p)
	case !isHost(r.Server):
		return nil, fmt.Errorf("server %s: must be the address of a host", r.Server)
	case r.Server == r.Address:
		return nil, fmt.Errorf("address %s: must not be the server's", r.Address)
	case r.Lease < minLease:
		return nil, fmt.Errorf("lease of %v: must be at least %v", r.Lease, minLease)
	}
	l := &Lease{IfName: ifName, Address: p, Server: r.Server, Via: r.Via, From: at}
	usable := func(a netip.Addr) bool { return isHost(a) && a != r.Address && !isEdge(a, p) }
	if i := slices.IndexFunc(r.Routers, usable); i >= 0 {
		l.Gateway = r.Routers[i]
	}
	for _, a := range r.DNS {
		if usable(a) && !slices.Contains(l.DNS, a) && len(l.DNS) < maxDNS {
			l.DNS = append(l.DNS, a)
		}
	}
	if r.MTU >= minMTU && r.MTU <= maxMTU {
		l.MTU = r.MTU
	}
	end := min(r.Lease, maxLease)
	t1, t2 := r.T1, r.T2
	if t1 < minRenew || t1 >= t2 || t2 >= end { // RFC 2131 §4.4.5
		t1, t2 = end/2, end*7/8
	}
	l.Renew, l.Rebind, l.End = at.Add(t1), at.Add(t2), at.Add(end)
	return l, nil
}

// isEdge reports whether an address is the first or the last one of a subnet, which no host can have.
func isEdge(a netip.Addr, p netip.Prefix) bool {
	return p.Bits() < 31 && (p.Masked().Addr() == a || lastOf(p) == a)
}

// lastOf returns the last address of a subnet, its broadcast address.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}
