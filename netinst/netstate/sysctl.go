package netstate

import "slices"

// Sysctl is one kernel setting below /proc/sys of this network namespace. Its removal restores the previous value, if
// edgespan's value is still set and no other program has come to rely on it.
type Sysctl struct {
	Key   string // such as "net/ipv4/conf/eth0/forwarding"
	Value string
	Link  string // edgespan's link whose setting it is; "" for none
}

func (s Sysctl) ID() ID { return ID{KindSysctl, s.Key} }
func (s Sysctl) Needs() []ID {
	if s.Link == "" {
		return nil
	}
	return linkNeeds(KindLink, s.Link)
}
func (s Sysctl) Text() string { return s.Value }

// ForwardingOf returns the setting that controls forwarding of packets received on a link (IPv4).
func ForwardingOf(link string) string { return "net/ipv4/conf/" + link + "/forwarding" }

// RPFilterOf returns the setting by which the kernel drops packets that arrive on a link from a source to which no
// route leads by it (1, strict) or at all (2, loose). The larger one of it and that for all links counts.
func RPFilterOf(link string) string { return "net/ipv4/conf/" + link + "/rp_filter" }

// ARPAnnounceOf returns the setting that chooses the sender's address in ARP requests on a link: with 2 the address in
// the subnet of the requested one. The larger one of it and that for all links counts.
func ARPAnnounceOf(link string) string { return "net/ipv4/conf/" + link + "/arp_announce" }

// ForwardAll is net.ipv4.ip_forward. Writing it writes the setting of every link.
const ForwardAll = "net/ipv4/ip_forward"

// Forwarding6Of returns the setting that makes a link a router's (IPv6): the node then says in its neighbour
// advertisements there that it is one. Whether packets are forwarded is decided by ForwardAll6 alone. It must be set
// before the link has addresses: if the link becomes a router between the request of an address and its check for
// duplicates, the kernel counts the anycast address of the subnet twice, and keeps its route without the address.
func Forwarding6Of(link string) string { return "net/ipv6/conf/" + link + "/forwarding" }

// ForwardAll6 is the setting by which the kernel forwards IPv6 packets, whatever link they arrive at. Writing it also
// writes the setting of every link; the platform puts those of foreign links back, which decide about router
// advertisements.
const ForwardAll6 = "net/ipv6/conf/all/forwarding"

// Forwarding is which packets the host forwards, by receiving link.
type Forwarding struct {
	All     bool     // ForwardAll: the host forwards by itself
	On, Off []string // foreign links, sorted
	Opened  []string // those of On or Off that were off before edgespan opened them
	// All6 is ForwardAll6: the host forwards IPv6. Opened6 means that it did not before edgespan turned it on, and No6
	// that the kernel has no IPv6.
	All6, Opened6, No6 bool
}

// Equal reports whether two values are equal.
func (f Forwarding) Equal(o Forwarding) bool {
	return f.All == o.All && f.All6 == o.All6 && f.Opened6 == o.Opened6 && f.No6 == o.No6 &&
		slices.Equal(f.On, o.On) && slices.Equal(f.Off, o.Off) && slices.Equal(f.Opened, o.Opened)
}
