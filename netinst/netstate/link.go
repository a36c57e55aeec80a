package netstate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// LinkType is what a link is made as.
type LinkType string

// The link types.
const (
	Bridge LinkType = "bridge"
	Veth   LinkType = "veth"
	Tap    LinkType = "tap"   // persistent, for a virtual machine that root opens
	VXLAN  LinkType = "vxlan" // one end of a tunnel
)

// Peer is the application's side of a veth. Its namespace and its name are given at
// creation alone; its MAC and MTU also later, in place, when the desired ones change.
// What the application itself changes of it is no drift.
type Peer struct {
	Netns string // a name below /run/netns, or an absolute path
	Name  string
	MAC   string
	MTU   int
}

// Link is a network link: it exists, with these attributes, whether up or not.
// Every link of ours has addr_gen_mode none. The Alias carries the owner's mark
// and, for a veth, what its peer was last given (VethMark), so that a change of the
// desired peer is seen on the host side alone.
type Link struct {
	Name  string
	Type  LinkType
	MAC   string
	MTU   int
	Alias string
	Peer  *Peer   // desired veth only; not compared, the Alias says what it was given
	Vxlan *Tunnel // VXLAN only
	// Attrs are observed of a bridge: the attributes whose value is not the one in
	// BridgeAttrs. A desired bridge has none.
	Attrs map[string]uint64
	// Replaced is observed of a veth: the namespace where the peer was made is no longer
	// the one that the desired name leads to.
	Replaced bool
}

func (l Link) ID() ID      { return ID{KindLink, l.Name} }
func (l Link) Needs() []ID { return nil }
func (l Link) Text() string {
	alias := l.Alias
	if m, ok := l.mark(); ok {
		alias = m.String() // two spellings of one mark are the same mark
	}
	s := fmt.Sprintf("%s mac %s mtu %d alias %q", l.Type, l.MAC, l.MTU, alias) + l.Vxlan.text()
	for _, name := range slices.Sorted(maps.Keys(l.Attrs)) {
		s += fmt.Sprintf(" %s %d", name, l.Attrs[name])
	}
	if l.Replaced {
		s += " namespace replaced"
	}
	return s
}

// Recreate says whether going from old to l needs a new link. Everything that the kernel
// changes in place is changed in place; a new link it takes for another type, other ends
// of a tunnel, another adapter, and a peer in another namespace or of another configured
// name. inUse says that the old one is up: one without a readable mark is then whole, and
// somebody has taken its alias, while one that is down may be half made.
func (l Link) Recreate(old Link, inUse bool) bool {
	if l.Type != old.Type || l.Vxlan.text() != old.Vxlan.text() {
		return true
	}
	if l.Type != Veth {
		return false
	}
	m, _ := l.mark()
	was, readable := old.mark()
	return old.Replaced || !readable && !inUse || readable && !m.sameLink(was)
}

func (l Link) mark() (VethMark, bool) {
	if l.Type != Veth {
		return VethMark{}, false
	}
	return ParseVethMark(l.Alias)
}

// BridgeAttrs are the attributes that every bridge of ours has, by the names that ip-link(8)
// has for them. The nf_call ones hand bridged packets to the adapters' chains; the others are
// what the kernel gives a new bridge, and what the data path rests on: with an ageing time of
// 0 every frame is flooded, with stp or vlan_filtering ports stop to forward.
func BridgeAttrs() map[string]uint64 {
	return map[string]uint64{
		"nf_call_iptables": 1, "nf_call_ip6tables": 1, "nf_call_arptables": 0,
		"ageing_time": 30000, // hundredths of a second
		"stp_state":   0, "vlan_filtering": 0, "mcast_snooping": 1, "group_fwd_mask": 0,
	}
}

// VethMark is the mark of ownership on an adapter's link, and what its peer was last given.
// It is kept in the link's alias as
//
//	edgespan ni <uuid> adapter <app>#<index> netns=<name> peer=<name> mac=<mac> mtu=<octets>
//
// and always parsed, never compared as text. Words that a reader does not know are passed
// over. A release that gives a word another meaning writes form=<n>, with n > 1, first: a
// release that does not know that form takes the link for what its name and its adapter say.
type VethMark struct {
	NI, Adapter string
	Netns       string // as in Peer, or "sha256:" and the digest of a path too long for an alias
	Peer        string // the name that the peer was made with
	MAC         string
	MTU         int
	Unknown     bool // of a form that this release does not know: only NI and Adapter are read
}

const markWords = "edgespan ni "

// ParseVethMark reads an alias; false if it is no mark of an adapter's veth. A path of a
// namespace may hold spaces, the name of a link can't: the last peer= ends the path.
func ParseVethMark(alias string) (VethMark, bool) {
	rest, own := strings.CutPrefix(alias, markWords)
	head, tail, _ := strings.Cut(rest, " netns=")
	words := strings.Fields(head)
	if !own || len(words) < 3 || words[1] != "adapter" {
		return VethMark{}, false
	}
	m := VethMark{NI: words[0], Adapter: words[2]}
	for _, w := range words[3:] {
		if form, is := strings.CutPrefix(w, "form="); is && form != "1" {
			m.Unknown = true
			return m, true
		}
	}
	at := strings.LastIndex(tail, " peer=")
	if at < 0 {
		return m, false
	}
	m.Netns = tail[:at]
	for _, w := range strings.Fields(tail[at:]) {
		switch name, value, _ := strings.Cut(w, "="); name {
		case "peer":
			m.Peer = value
		case "mac":
			m.MAC = value
		case "mtu":
			m.MTU, _ = strconv.Atoi(value) // 0 where it is none: the peer is given its MTU again
		}
	}
	return m, true
}

// String is the alias.
func (m VethMark) String() string {
	if m.Unknown {
		return markWords + m.NI + " adapter " + m.Adapter + " form=?"
	}
	return fmt.Sprintf("%s%s adapter %s netns=%s peer=%s mac=%s mtu=%d", markWords, m.NI, m.Adapter, m.Netns, m.Peer,
		m.MAC, m.MTU)
}

// sameLink says whether the link of mark old serves for m. The MAC and the MTU of the peer
// are changed in place.
func (m VethMark) sameLink(old VethMark) bool {
	if m.NI != old.NI || m.Adapter != old.Adapter {
		return false
	}
	return old.Unknown || m.Netns == old.Netns && m.Peer == old.Peer
}
