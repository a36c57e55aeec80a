package netstate

import "slices"

// Sysctl is one kernel setting below /proc/sys of our network namespace. Its removal restores the previous value, if
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
	return []ID{{KindLink, s.Link}}
}
func (s Sysctl) Text() string { return s.Value }

// ForwardingOf returns the setting that controls forwarding of packets received on a link (IPv4).
func ForwardingOf(link string) string { return "net/ipv4/conf/" + link + "/forwarding" }

// ForwardAll is net.ipv4.ip_forward. Writing it writes the setting of every link.
const ForwardAll = "net/ipv4/ip_forward"

// Forwarding is which packets the host forwards, by receiving link.
type Forwarding struct {
	All     bool     // ForwardAll: the host forwards by itself
	On, Off []string // foreign links, sorted
	Opened  []string // those of On or Off that were off before edgespan opened them
}

// Equal reports whether two values are equal.
func (f Forwarding) Equal(o Forwarding) bool {
	return f.All == o.All && slices.Equal(f.On, o.On) && slices.Equal(f.Off, o.Off) && slices.Equal(f.Opened, o.Opened)
}
