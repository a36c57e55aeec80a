package kernel

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of a netconf message (linux/netconf.h), and the index that stands for all links.
const (
	netconfIfIndex    = 1
	netconfForwarding = 2
	netconfAll        = -1
)

// netconfHeader is struct netconfmsg, padded to the length of an attribute header.
type netconfHeader struct{ family uint8 }

func (h netconfHeader) Len() int          { return 4 }
func (h netconfHeader) Serialize() []byte { return []byte{h.family, 0, 0, 0} }

// Forwarding returns the foreign links on which the kernel forwards IPv4, and whether it forwards IPv6. What edgespan
// opened is left empty.
func (k *Kernel) Forwarding() (netstate.Forwarding, error) {
	links, err := retry(k.h.LinkList)
	if err != nil {
		return netstate.Forwarding{}, fmt.Errorf("list links: %w", err)
	}
	by, err := retry(func() (map[int]bool, error) { return k.netconf(unix.AF_INET) })
	if err != nil {
		return netstate.Forwarding{}, fmt.Errorf("list forwarding: %w", err)
	}
	by6, err := retry(func() (map[int]bool, error) { return k.netconf(unix.AF_INET6) })
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // a kernel without IPv6
		return netstate.Forwarding{}, fmt.Errorf("list forwarding of IPv6: %w", err)
	}
	all6, has6 := by6[netconfAll]
	f := netstate.Forwarding{All: by[netconfAll], All6: all6, No6: !has6}
	for _, l := range links {
		a := l.Attrs()
		on, known := by[a.Index]
		if _, own := linkOwner(a.Name, a.Alias); own || !isForeign(a.Name) || !known {
			continue
		}
		if on {
			f.On = append(f.On, a.Name)
		} else {
			f.Off = append(f.Off, a.Name)
		}
	}
	slices.Sort(f.On)
	slices.Sort(f.Off)
	return f, nil
}

// netconf returns the forwarding setting of every link by index.
func (k *Kernel) netconf(family uint8) (map[int]bool, error) {
	msgs, err := k.rt.request(unix.RTM_GETNETCONF, unix.NLM_F_DUMP,
		netconfHeader{family}).Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNETCONF)
	if err != nil {
		return nil, err
	}
	by := map[int]bool{}
	for _, m := range msgs {
		if index, on, ok := parseNetconf(m); ok {
			by[index] = on
		}
	}
	return by, nil
}

func parseNetconf(m []byte) (index int, forwarding, ok bool) {
	if len(m) < 4 {
		return 0, false, false
	}
	attrs, err := nl.ParseRouteAttr(m[4:])
	if err != nil {
		return 0, false, false
	}
	has := 0
	for _, a := range attrs {
		switch a.Attr.Type {
		case netconfIfIndex:
			index = int(int32(u32(a.Value)))
			has++
		case netconfForwarding:
			forwarding = u32(a.Value) != 0
			has++
		}
	}
	return index, forwarding, has == 2
}

// readForwarding records foreign links whose forwarding setting changed and ignores other settings. A link that is not
// yet known has just been created: the message about the link itself follows.
func (n *changes) readForwarding(m syscall.NetlinkMessage, owners ownLinks, foreign map[int]bool) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(m.Data) < unix.SizeofIfInfomsg {
			return
		}
		msg := nl.DeserializeIfInfomsg(m.Data)
		index := int(msg.Index)
		if l := owners[index]; msg.Family == unix.AF_BRIDGE {
			return
		} else if m.Header.Type == unix.RTM_DELLINK || l != nil && !l.lent {
			delete(foreign, index)
		} else {
			foreign[index] = true
		}
	case unix.RTM_NEWNETCONF:
		index, _, ok := parseNetconf(m.Data)
		if !ok || m.Data[0] == unix.AF_INET6 && index != netconfAll {
			return
		}
		if l := owners[index]; l != nil && !l.lent && l.name == "" {
			n.touched[l.num] = true
		}
		n.forward = n.forward || index == netconfAll || foreign[index]
	}
}
