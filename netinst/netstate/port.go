package netstate

// Port is the running state of a link: up and, when Master is set, enslaved to
// that bridge. Its absence is the link down and in no bridge. It is an object of
// its own because a link joins its bridge only after its chains stand.
//
// A Foreign one is of a link that something else has made and that we only borrow:
// its absence is the link in no bridge, and nothing else of it is ever changed.
// Which link that is, the kernel tells each time by whom it has in the bridge: one
// that was deleted and made again under the same name is not there.
type Port struct {
	Link    string
	Master  string // "" for the bridge itself
	Foreign bool
	Down    bool // observed only: a foreign link in the bridge that is not up
	// Isolated: no frame of another isolated port of the bridge leaves by it.
	Isolated bool
	After    []ID // what must stand before a packet may pass
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
	return s
}
