package netstate

import (
	"net/netip"
	"time"
)

// Address is an IPv4 or IPv6 address on one of edgespan's links, always without a prefix route: the connected route is
// a Route in the network's own table.
//
// A Foreign address is an IPv4 address on a foreign link, with the kernel's own prefix route. It is edgespan's if its
// protocol is RouteProtocol (IFA_PROTO).
type Address struct {
	Link    string
	Prefix  string // "10.1.0.1/24"
	Foreign bool
	// Label is the kernel's label of an IPv4 address on edgespan's links, if it is not the link's name. A program that
	// looks for the addresses of a label, as dnsmasq does, does not find one with another.
	Label string
	// Unmarked is observed of a Foreign address that another program has set: see Claim.
	Unmarked bool
	After    ID // the VLAN on which a desired Foreign address is; zero for none
	// Ends is when the kernel removes a Foreign address by itself, also while no daemon runs; zero for never.
	Ends time.Time
}

// endsSlack is how far Ends may be from the desired time: the kernel counts seconds from when it was told.
const endsSlack = 5 * time.Second

func (a Address) ID() ID { return ID{KindAddress, a.Link + " " + a.Prefix} }

func (a Address) Needs() []ID {
	switch {
	case a.After != ID{}:
		return []ID{a.After}
	case a.Foreign:
		return nil
	}
	return linkNeeds(KindLink, a.Link)
}

func (a Address) Text() string {
	s := "noprefixroute"
	if a.Foreign {
		s = "foreign"
	}
	if a.Label != "" {
		s += " label " + a.Label
	}
	if !a.Ends.IsZero() {
		s += " until " + a.Ends.UTC().Format(time.RFC3339)
	}
	return s
}

// Claim returns the objects of have that count for the desired state want. Of a foreign link, an address that another
// program has set, and that the link is up, count only if they are desired, and so does a VLAN that another program has
// created: then nothing is changed. Otherwise they belong to others, and are left alone. An address that ends at about
// the desired time is the desired one.
func Claim(have, want State) State {
	if !anyObject(have, mayBeOthers) { // as of a network without links of others
		return have
	}
	out := State{}
	for id, o := range have {
		a, isAddress := o.(Address)
		p, isPort := o.(Port)
		l, isLink := o.(Link)
		if isAddress && a.Unmarked || isPort && p.Foreign && p.Master == "" {
			if want[id] == nil {
				continue
			}
		}
		if isLink && l.Unmarked && (want[id] == nil || want[id].Text() != l.Text()) {
			continue
		}
		if w, ok := want[id].(Address); ok && isAddress && (a.Unmarked || a.Foreign && w.endsWith(a)) {
			o = w
		}
		out[id] = o
	}
	return out
}

// mayBeOthers reports whether Claim has to decide about an object.
func mayBeOthers(o Object) bool {
	switch o := o.(type) {
	case Address:
		return o.Unmarked || o.Foreign
	case Port:
		return o.Foreign && o.Master == ""
	case Link:
		return o.Unmarked
	}
	return false
}

// endsWith reports whether two addresses end at about the same time.
func (a Address) endsWith(b Address) bool {
	return a.Ends.IsZero() == b.Ends.IsZero() && a.Ends.Sub(b.Ends).Abs() <= endsSlack
}

// displaces reports whether old must be removed before a is added: on edgespan's own links, an address of the same
// subnet. On a foreign link the platform has the kernel promote what is left of the subnet, so nothing is lost there.
func (a Address) displaces(old Address) bool { return !a.Foreign && a.sameSubnet(old) }

// sameSubnet reports whether two addresses are in one subnet of one link.
func (a Address) sameSubnet(b Address) bool {
	p, _ := netip.ParsePrefix(a.Prefix)
	q, _ := netip.ParsePrefix(b.Prefix)
	return a.Link == b.Link && p.IsValid() && p.Masked() == q.Masked()
}
