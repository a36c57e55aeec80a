package netstate

// Port is the running state of a link: up and, if Master is set, enslaved to that bridge. Without it the link is down
// and in no bridge. It is a separate object because a link joins its bridge only after its chains are in place.
//
// A Foreign port is of a link that another program created and that edgespan only enslaves: without it the link is in
// no bridge; nothing else of the link is ever changed. The kernel's list of the bridge's links identifies it: a link
// that was deleted and recreated under the same name is not in the bridge. A Foreign port without Master is a link that
// is set up, and is in no bridge of edgespan; it is never removed (Claim).
type Port struct {
	Link    string
	Master  string // "" for the bridge itself
	Foreign bool
	Down    bool // observed only: a foreign link in the bridge that is not up
	// Isolated ports of a bridge exchange no frames with each other.
	Isolated bool
	// Guarded ports of a bridge are disabled by the kernel when a BPDU (IEEE 802.1D §9) arrives, until their link goes
	// down and up. Cut is observed only: that has happened.
	Guarded, Cut bool
	// Station is the address of the one station behind a port of a bridge, "" for any number. The bridge need not learn
	// it, and sends the port no frame for an address that it has not learnt: that would be one of another port, whose link
	// is down, or which has been silent.
	Station string
	// VLANs are the VLANs of a port of a bridge that filters them, sorted by ID. Of other bridges they are unknown and
	// mean nothing. The bridge itself has none: the node is a station of no VLAN.
	VLANs []VLANMember
	After []ID // objects that must exist before a packet may pass
}

func (p Port) ID() ID { return ID{KindPort, p.Link} }
func (p Port) Needs() []ID {
	var n []ID
	if !p.Foreign {
		n = append(n, ID{KindLink, p.Link})
	}
	if p.Master != "" {
		n = append(n, ID{KindPort, p.Master})
	}
	return append(n, p.After...)
}

func (p Port) Text() string {
	s := "up"
	if p.Down {
		s = "down"
	}
	if p.Foreign {
		s = "foreign " + s
	}
	if p.Master != "" {
		s += " master " + p.Master
	}
	if p.Isolated {
		s += " isolated"
	}
	if p.Guarded {
		s += " guarded"
	}
	if p.Station != "" {
		s += " station " + p.Station
	}
	for _, v := range p.VLANs {
		s += " " + v.String()
	}
	if p.Cut {
		s += ", cut off after a BPDU"
	}
	return s
}
