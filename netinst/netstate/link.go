package netstate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// LinkType is the type with which a link is created.
type LinkType string

// The link types.
const (
	Bridge LinkType = "bridge"
	Veth   LinkType = "veth"
	Tap    LinkType = "tap"   // persistent, for a virtual machine that root opens
	VXLAN  LinkType = "vxlan" // one end of a tunnel
	VLAN   LinkType = "vlan"  // a sub-interface, which is a port
)

// Peer is the app's side of a veth. Its namespace and name are set only at creation; its MAC and MTU are also changed
// in place when the desired ones change. What the app itself changes is not drift.
type Peer struct {
	Netns string // a name below /run/netns, or an absolute path
	Name  string
	MAC   string
	MTU   int
}

// Link is a network link: it exists, with these attributes, up or not. Every link that edgespan creates has
// addr_gen_mode none. The Alias holds the owner's mark and, for a veth, the values last set on its peer (VethMark), so
// that a change of the desired peer shows on the host side alone.
type Link struct {
	Name  string
	Type  LinkType
	MAC   string
	MTU   int
	Alias string
	Peer  *Peer   // only of a desired veth; not compared, as the Alias has the values last set
	Vxlan *Tunnel // VXLAN only
	// Tag is of a VLAN only, which has no other attributes: it is an interface of the host like others, with the MAC
	// address and the MTU of its parent. Unmarked is observed of a VLAN that another program has created: see Claim.
	Tag      *VLANTag
	Unmarked bool
	// Attrs are the attributes of a bridge that differ from BridgeAttrs.
	Attrs map[string]uint64
	// Replaced is observed of a veth: the desired name leads to another namespace than the one in which the peer was
	// created.
	Replaced bool
}

func (l Link) ID() ID      { return ID{KindLink, l.Name} }
func (l Link) Needs() []ID { return nil }
func (l Link) Text() string {
	if l.Tag != nil {
		return l.Tag.text()
	}
	alias := l.Alias
	if m, ok := l.mark(); ok {
		alias = m.String() // two spellings of one mark are equal
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

// Recreate reports whether going from old to l needs a new link. Everything that the kernel can change in place is
// changed in place. A new link is needed for another type, other ends of a tunnel, another VLAN, another adapter, and a
// peer in another namespace or with another configured name. inUse means that the old link is up: without a readable
// mark such a link is complete and lost its alias, while one that is down may be half created.
func (l Link) Recreate(old Link, inUse bool) bool {
	if l.Type != old.Type || l.Vxlan.text() != old.Vxlan.text() || l.Tag.text() != old.Tag.text() {
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

// BridgeAttrs are the attributes of every bridge that edgespan creates, by their names in ip-link(8). The nf_call ones
// pass bridged packets to the adapters' chains. With no_linklocal_learn the bridge does not learn from frames to
// 01:80:c2:00:00:0x, which the spoof guard never sees, and fdb_max_learned bounds what it learns where there is no
// spoof guard: an app could fill the kernel's memory with addresses. The others are the kernel's defaults, on which the
// data path relies: with an ageing time of 0 every frame is flooded; with stp or vlan_filtering ports stop forwarding.
// Link.Attrs has the exceptions.
func BridgeAttrs() map[string]uint64 {
	return map[string]uint64{
		"nf_call_iptables": 1, "nf_call_ip6tables": 1, "nf_call_arptables": 0,
		"ageing_time": 30000, // hundredths of a second
		"stp_state":   0, vlanFiltering: 0, "mcast_snooping": 1, "group_fwd_mask": 0,
		"priority": 0x8000, vlanDefault: 1,
		"no_linklocal_learn": 1, "fdb_max_learned": 16384, // as many as switches of an access layer
	}
}

// VethMark is the mark of ownership on an adapter's link, with the values last set on its peer. The link's alias holds
// it as
//
//	edgespan ni <uuid> adapter <app>#<index> netns=<name> peer=<name> mac=<mac> mtu=<octets>
//
// and it is always parsed, never compared as text. Readers skip unknown words. A release that changes the meaning of a
// word writes form=<n>, with n > 1, first: a release that does not know that form uses only the link's name and
// adapter.
type VethMark struct {
	NI, Adapter string
	Netns       string // as in Peer, or "sha256:" and the digest of a path that is too long for an alias
	Peer        string // the name with which the peer was created
	MAC         string
	MTU         int
	Unknown     bool // of an unknown form: only NI and Adapter are read
}

const markWords = "edgespan ni "

// ParseVethMark parses an alias; false if it is not the mark of an adapter's veth. The path of a namespace may contain
// spaces, the name of a link can't: the last peer= ends the path.
func ParseVethMark(alias string) (VethMark, bool) {
	rest, own := strings.CutPrefix(alias, markWords)
	head, tail, _ := strings.Cut(rest, " netns=")
	words := strings.Fields(head)
	if !own || len(words) < 3 || words[1] != "adapter" {
		return VethMark{}, false
	}
	m := VethMark{NI: words[0], Adapter: words[2]}
	for _, w := range words[3:] {
		if form, ok := strings.CutPrefix(w, "form="); ok && form != "1" {
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
			m.MTU, _ = strconv.Atoi(value) // 0 if it is invalid: the MTU is set again
		}
	}
	return m, true
}

// String returns the alias.
func (m VethMark) String() string {
	if m.Unknown {
		return markWords + m.NI + " adapter " + m.Adapter + " form=?"
	}
	return fmt.Sprintf("%s%s adapter %s netns=%s peer=%s mac=%s mtu=%d", markWords, m.NI, m.Adapter, m.Netns, m.Peer,
		m.MAC, m.MTU)
}

// sameLink reports whether a link with the mark old can be used for m. The MAC and the MTU of the peer are changed in
// place.
func (m VethMark) sameLink(old VethMark) bool {
	if m.NI != old.NI || m.Adapter != old.Adapter {
		return false
	}
	return old.Unknown || m.Netns == old.Netns && m.Peer == old.Peer
}
