package watched

import (
	"container/list"
	"net/netip"
	"slices"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// minShare is how many answers are kept of each adapter, however many there are.
const minShare = 16

// Adapter is an adapter whose messages are watched on a link. With its address, the link is that of a whole network,
// and its messages are those of its MAC address. Without one, all of the link are its own, but for DHCP messages of
// other clients.
type Adapter struct {
	Key       netinst.AdapterKey
	Link, MAC string
	IP        netip.Addr // that edgespan gave it
}

// Answer is the last of equal DNS answers that an app has got: to the same question.
type Answer struct {
	Name, Type         string
	RCode              int
	Addresses          []netip.Addr
	TTL                time.Duration
	Server             netip.Addr
	TCP                bool
	Truncated, Partial bool
	At                 time.Time
	Count              uint64 // of answers to the question since it is kept
}

// Class groups response codes.
type Class int

// The classes.
const (
	NoError Class = iota
	NXDomain
	ServFail
	Refused
	OtherError
	classes
)

// ClassOf is the class of a response code (RFC 1035 §4.1.1).
func ClassOf(rcode int) Class {
	switch rcode {
	case 0:
		return NoError
	case 2:
		return ServFail
	case 3:
		return NXDomain
	case 5:
		return Refused
	}
	return OtherError
}

// Asked counts DNS messages.
type Asked struct {
	Queries uint64
	Answers [classes]uint64
	Evicted uint64 // answers that others of the same app have replaced
}

// Counts are what was counted on a network.
type Counts struct {
	Asked
	// Malformed and Unread are as in netstate.Messages.
	Malformed, UnreadDNS, UnreadDHCP uint64
	DHCP                             map[netstate.DHCPType]uint64
}

// Watched is what is known of one adapter.
type Watched struct {
	Adapter
	Asked
	Recent []Answer // the newest first
	Lease  Lease
}

// Network keeps what is watched on one network. The caller's lock guards it.
type Network struct {
	limit    int
	adapters map[netinst.AdapterKey]*adapter
	senders  map[sender]*adapter
	counts   Counts
}

// sender is whose messages are on a link; "" is all of it.
type sender struct{ link, mac string }

type question struct{ name, kind string }

type adapter struct {
	Adapter
	Asked
	recent  *list.List // of *Answer, the newest last
	answers map[question]*list.Element
	names   map[netip.Addr]*Answer // the newest with an address
	lease   Lease
	report  report
}

// NewNetwork returns a network without adapters.
func NewNetwork() *Network {
	return &Network{adapters: map[netinst.AdapterKey]*adapter{}, senders: map[sender]*adapter{},
		counts: Counts{DHCP: map[netstate.DHCPType]uint64{}}}
}

// Use sets whose messages are watched, and reports whether a lease has changed in what Changes reports: the adapter has
// another address now. What is known of an adapter that has another MAC address now is forgotten.
func (n *Network) Use(all []Adapter) (changed bool) {
	adapters := map[netinst.AdapterKey]*adapter{}
	n.senders = map[sender]*adapter{}
	for _, a := range all {
		known := n.adapters[a.Key]
		if known == nil || known.MAC != a.MAC {
			known = &adapter{recent: list.New(), answers: map[question]*list.Element{}, names: map[netip.Addr]*Answer{}}
		}
		known.Adapter = a
		known.lease.compare(a.IP)
		changed = changed || known.lease.Word() != known.report.word
		adapters[a.Key] = known
		if n.senders[sender{a.Link, a.MAC}] = known; !a.IP.IsValid() {
			n.senders[sender{a.Link, ""}] = known
		}
	}
	n.adapters = adapters
	n.Limit(n.limit)
	return changed
}

// Limit sets how many answers are kept, of all adapters together, as long as that is more than minShare of each.
func (n *Network) Limit(answers int) {
	n.limit = answers
	for _, a := range n.adapters {
		a.evict(n.share())
	}
}

func (n *Network) share() int { return max(minShare, n.limit/max(1, len(n.adapters))) }

// Add counts and keeps messages, and reports whether a lease has changed in what Changes reports, unless Changes holds
// that one back already: an app whose lease changes all the time wakes no one, and delays no report of others.
func (n *Network) Add(m netstate.Messages) (changed bool) {
	n.counts.Malformed += m.Malformed
	n.counts.UnreadDNS += m.UnreadDNS
	n.counts.UnreadDHCP += m.UnreadDHCP
	for _, x := range m.DNS {
		a := n.senders[sender{m.Link, x.MAC}]
		if a == nil {
			a = n.senders[sender{m.Link, ""}]
		}
		n.dns(a, x)
	}
	for _, x := range m.DHCP {
		n.counts.DHCP[x.Type]++
		if a := n.senders[sender{m.Link, x.MAC}]; a != nil {
			a.dhcp(x)
			changed = changed || !a.report.held && a.lease.Word() != a.report.word
		}
	}
	return changed
}

// dns counts a message of an adapter, nil for one of none, and keeps an answer.
func (n *Network) dns(a *adapter, m netstate.DNSMessage) {
	counts := []*Asked{&n.counts.Asked}
	if a != nil {
		counts = append(counts, &a.Asked)
	}
	for _, c := range counts {
		if m.Answer {
			c.Answers[ClassOf(m.RCode)]++
		} else {
			c.Queries++
		}
	}
	if a == nil || !m.Answer || m.Name == "" {
		return
	}
	n.counts.Evicted += a.keep(m, n.share())
}

// keep keeps an answer as the newest one, and returns how many others it has evicted.
func (a *adapter) keep(m netstate.DNSMessage, share int) uint64 {
	q := question{m.Name, m.Type}
	e := a.answers[q]
	if e == nil {
		e = a.recent.PushBack(&Answer{Name: m.Name, Type: m.Type})
		a.answers[q] = e
	}
	x := e.Value.(*Answer)
	a.forgetNames(x)
	*x = Answer{Name: m.Name, Type: m.Type, RCode: m.RCode, Addresses: m.Addresses, TTL: m.TTL, Server: m.Server,
		TCP: m.TCP, Truncated: m.Truncated, Partial: m.Partial, At: m.At, Count: x.Count + 1}
	for _, addr := range x.Addresses {
		a.names[addr] = x
	}
	a.recent.MoveToBack(e)
	return a.evict(share)
}

func (a *adapter) evict(share int) (n uint64) {
	for ; a.recent.Len() > share; n++ {
		e := a.recent.Front()
		x := a.recent.Remove(e).(*Answer)
		delete(a.answers, question{x.Name, x.Type})
		a.forgetNames(x)
	}
	a.Evicted += n
	return n
}

func (a *adapter) forgetNames(x *Answer) {
	for _, addr := range x.Addresses {
		if a.names[addr] == x {
			delete(a.names, addr)
		}
	}
}

// NameOf returns the name for which an adapter's app has got an address last, "" if it is not known.
func (n *Network) NameOf(k netinst.AdapterKey, addr netip.Addr) string {
	if a := n.adapters[k]; a != nil && a.names[addr] != nil {
		return a.names[addr].Name
	}
	return ""
}

// Watched returns what is known of each adapter, in no order.
func (n *Network) Watched() []Watched {
	out := make([]Watched, 0, len(n.adapters))
	for _, a := range n.adapters {
		w := Watched{Adapter: a.Adapter, Asked: a.Asked, Lease: a.lease}
		for e := a.recent.Back(); e != nil; e = e.Prev() {
			x := *e.Value.(*Answer)
			x.Addresses = slices.Clone(x.Addresses)
			w.Recent = append(w.Recent, x)
		}
		out = append(out, w)
	}
	return out
}

// Counts returns what was counted so far.
func (n *Network) Counts() Counts {
	c := n.counts
	c.DHCP = map[netstate.DHCPType]uint64{}
	for kind, count := range n.counts.DHCP {
		c.DHCP[kind] = count
	}
	return c
}
