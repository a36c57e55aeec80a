package probe

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Reach is what the host's own state says of a port.
type Reach uint8

// The values of Reach, the least first.
const (
	Down      Reach = iota // missing, or without carrier
	NoAddress              // up
	NoRoute                // up, with an address
	Out                    // up, with a default route
)

// Port is what the choice must know of one family of a port: IPv4 and IPv6 are probed and chosen each by itself.
type Port struct {
	Label, IfName string
	IPv6          bool
	Selectors     []string // which of the network's values of `port` select it
	Cost          int
	Metered       bool
	Reach         Reach
	Gateway       netip.Addr   // of the default route; invalid: it has none
	Servers       []netip.Addr // its DNS servers: of the family, else of the other one
	Neighbours    []netip.Prefix
}

// name tells the families of a port apart.
func (p Port) name() string {
	if p.IPv6 {
		return OfIPv6(p.Label)
	}
	return p.Label
}

// remoteServers bounds the DNS servers that are probed without configured targets.
const remoteServers = 2

// aloneInterval is the interval on the only port that a network may use: there is nothing to switch to.
const aloneInterval = 10 * time.Second

// probes returns the probes of a port: that of its gateway, and those of the remote targets. A port that leads nowhere
// is not probed.
func (c Config) probes(p Port, alone bool) (gateway, remote []ID) {
	if p.Reach != Out {
		return nil, nil
	}
	id := func(m Method, target string) ID {
		x := ID{Port: p.Label, IfName: p.IfName, Method: m, Target: target, Interval: c.interval(), Timeout: c.timeout()}
		switch {
		case p.Metered:
			x.Interval = max(x.Interval, MeteredInterval)
		case alone:
			x.Interval = max(x.Interval, aloneInterval)
		}
		return x
	}
	switch {
	case p.Gateway.Is4():
		gateway = append(gateway, id(ARP, p.Gateway.String()))
	case p.Gateway.Is6(): // also of IPv4 (RFC 5549)
		gateway = append(gateway, id(ND, p.Gateway.String()))
	}
	for _, t := range c.targets(p.IPv6) {
		x := id(c.Method, t)
		if x.Body = c.Body; c.Method != DNS && !addressOf(t).IsValid() {
			x.Servers, x.IPv6 = joined(p.Servers), p.IPv6
		}
		remote = append(remote, x)
	}
	if len(remote) > 0 {
		return gateway, remote
	}
	for _, s := range p.Servers {
		if len(remote) < remoteServers && s.Is6() == p.IPv6 && !p.neighbour(s) {
			remote = append(remote, id(DNS, s.String()))
		}
	}
	return gateway, remote
}

// targets returns the targets of a family: its addresses, and host names, which may have an address of each.
func (c Config) targets(ipv6 bool) []string {
	return slices.DeleteFunc(slices.Clone(c.Targets), func(t string) bool {
		a := addressOf(t)
		return a.IsValid() && a.Is6() != ipv6
	})
}

// quorum returns how many remote targets of a family must answer. The DNS servers that stand for targets back each
// other up.
func (c Config) quorum(ipv6 bool) int { return min(c.Quorum, len(c.targets(ipv6))) }

// addressOf returns the address in a target, invalid if it may have a host name.
func addressOf(target string) netip.Addr {
	host, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(target, "https://"), "http://"), "/")
	if six, is := strings.CutPrefix(host, "["); is {
		host, _, _ = strings.Cut(six, "]")
	} else if strings.Count(host, ":") == 1 {
		host, _, _ = strings.Cut(host, ":")
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a
}

func joined(list []netip.Addr) string {
	words := make([]string, 0, len(list))
	for _, a := range list {
		words = append(words, a.String())
	}
	return strings.Join(words, ",")
}

func (p Port) neighbour(a netip.Addr) bool {
	for _, n := range p.Neighbours {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

func (c Config) interval() time.Duration { return cmp.Or(c.Interval, DefaultInterval) }
func (c Config) timeout() time.Duration  { return cmp.Or(c.Timeout, DefaultTimeout) }
func (c Config) failAfter() int          { return cmp.Or(c.FailAfter, DefaultFailAfter) }
func (c Config) recoverAfter() int       { return cmp.Or(c.RecoverAfter, DefaultRecoverAfter) }

// Next returns the time from one shot of a probe to the next. A failure may be the first of many, so the shots after it
// follow sooner, for a while; and so do those after one that is late, which has had no answer for Late.
func (o Outcomes) Next(late bool) time.Duration {
	failed := 0
	for i := len(o.Last) - 1; i >= 0 && !o.Last[i].OK(); i-- {
		failed++
	}
	if failed == 0 && !late || failed > quickShots {
		return o.ID.Interval
	}
	return max(min(o.ID.Interval, MeteredInterval/4)/quickFactor, minInterval)
}

// Late returns the time after which a shot without an answer is late: a quarter of its timeout, and a quarter longer
// than any of the newest shots that were answered. Otherwise a target that is merely far away would always be probed
// quickly.
func (o Outcomes) Late() time.Duration {
	late := o.ID.Timeout / 4
	for _, x := range o.Last {
		if x.OK() {
			late = max(late, x.Lasted+x.Lasted/4)
		}
	}
	return min(late, o.ID.Timeout)
}

const (
	quickShots  = 16
	quickFactor = 10
	minInterval = 50 * time.Millisecond
)
