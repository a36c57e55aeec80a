package netstate

import (
	"fmt"
	"strings"
)

// Rule is one policy rule of protocol RouteProtocol.
type Rule struct {
	Priority int
	From, To string // prefixes, "" for any
	// OIF is the interface that a socket of the host is bound to (SO_BINDTODEVICE, IP_UNICAST_IF), "" for any; forwarded
	// packets are never bound to one.
	OIF string
	// IIF is the interface by which a packet arrives, "lo" for those of the host itself, "" for any. The kernel checks the
	// source of a forwarded packet (rp_filter) as if it had arrived by the interface to which it goes. It tells several
	// rules of one priority apart.
	IIF   string
	DPort int // of UDP or TCP; 0 for any
	// Mark and Mask select packets by bits of their mark; a Mask of 0 is any mark. Several rules of one priority that
	// look up packets by their mark are told apart by it.
	Mark, Mask uint32
	Table      int
	// Goto is the priority of the rule at which the kernel reads on, 0 to look the packet up in Table. With neither, the
	// rule does nothing: it is what other rules lead to. Several such rules
	// have one priority: the one for the packet's address matches.
	Goto  int
	After ID // the route that it leads to; zero for none
	IPv6  bool
}

func (r Rule) ID() ID {
	name := fmt.Sprint(r.Priority)
	if r.IPv6 { // the kernel has a list of rules for each family
		name = "ipv6 " + name
	}
	if r.Goto != 0 && r.selector() != "" {
		name += " " + r.selector()
	} else if m := r.mark(); m != "" {
		name += " " + m
	}
	if r.IIF != "" {
		name += " iif " + r.IIF
	}
	return ID{KindRule, name}
}

func (r Rule) Needs() []ID {
	if r.After == (ID{}) {
		return nil
	}
	return []ID{r.After}
}

func (r Rule) Text() string {
	to := "nop"
	switch {
	case r.Goto != 0:
		to = fmt.Sprintf("goto %d", r.Goto)
	case r.Table != 0:
		to = fmt.Sprintf("lookup %d", r.Table)
	}
	return strings.TrimSpace(r.selector() + " " + to)
}

// IsEnd reports whether the rule leads past others whatever the packet is.
func (r Rule) IsEnd() bool { return r.Goto != 0 && r.selector() == "" }

// selector is what a packet must be for the rule to match, "" for any.
func (r Rule) selector() string {
	s := ""
	if r.From != "" {
		s += "from " + r.From + " "
	}
	if r.To != "" {
		s += "to " + r.To + " "
	}
	if r.IIF != "" {
		s += "iif " + r.IIF + " "
	}
	if r.OIF != "" {
		s += "oif " + r.OIF + " "
	}
	if r.DPort != 0 {
		s += fmt.Sprintf("dport %d ", r.DPort)
	}
	s += r.mark()
	return strings.TrimSpace(s)
}

func (r Rule) mark() string {
	if r.Mark == 0 && r.Mask == 0 {
		return ""
	}
	return fmt.Sprintf("fwmark %#x/%#x", r.Mark, r.Mask)
}
