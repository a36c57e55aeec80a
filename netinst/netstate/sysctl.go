package netstate

import "slices"

// Sysctl is one kernel setting below /proc/sys of our network namespace. Its
// removal restores the value found before us if ours is still in force and nobody
// else has come to rely on it.
type Sysctl struct {
	Key   string // as "net/ipv4/conf/eth0/forwarding"
	Value string
	Link  string // a link of ours that it is a setting of; "" for none
}

func (s Sysctl) ID() ID { return ID{KindSysctl, s.Key} }
func (s Sysctl) Needs() []ID {
	if s.Link == "" {
		return nil
	}
	return []ID{{KindLink, s.Link}}
}
func (s Sysctl) Text() string { return s.Value }

// ForwardingOf is the setting by which what comes in by a link is forwarded (IPv4).
func ForwardingOf(link string) string { return "net/ipv4/conf/" + link + "/forwarding" }

// ForwardAll is net.ipv4.ip_forward. Writing it writes the setting of every link.
const ForwardAll = "net/ipv4/ip_forward"

// Forwarding is which packets the host forwards, by the link that they come in by.
type Forwarding struct {
	All     bool     // ForwardAll: the host forwards by itself
	On, Off []string // foreign links, sorted
	Opened  []string // those of On or Off that were off before we opened them
}

// Equal says whether two say the same.
func (f Forwarding) Equal(o Forwarding) bool {
	return f.All == o.All && slices.Equal(f.On, o.On) && slices.Equal(f.Off, o.Off) && slices.Equal(f.Opened, o.Opened)
}
