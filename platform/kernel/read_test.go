package kernel

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// message returns a header and attributes as the kernel sends them.
func message(head []byte, attrs ...*nl.RtAttr) []byte {
	for _, a := range attrs {
		head = append(head, a.Serialize()...)
	}
	return head
}

func TestRulesAreReadFromTheKernelsMessages(t *testing.T) {
	attr := func(kind int, value []byte) *nl.RtAttr { return nl.NewRtAttr(kind, value) }
	num := func(kind int, n uint32) *nl.RtAttr { return attr(kind, nl.Uint32Attr(n)) }
	ports := func(first, last uint16) *nl.RtAttr {
		return attr(nl.FRA_DPORT_RANGE, binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, first), last))
	}
	own := attr(nl.FRA_PROTOCOL, []byte{netstate.RouteProtocol})
	head := func(family, dst, src byte) []byte {
		return append([]byte{family, dst, src}, make([]byte, unix.SizeofRtMsg-3)...)
	}
	v4 := func(s string) []byte { return netip.MustParseAddr(s).AsSlice() }
	for name, c := range map[string]struct {
		m    []byte
		want netstate.Rule
		own  bool
	}{
		"from a subnet": {message(head(unix.AF_INET, 0, 24), num(nl.FRA_PRIORITY, 20007), num(nl.FRA_TABLE, 20007), own,
			attr(nl.FRA_SRC, v4("10.7.0.0"))), netstate.Rule{Priority: 20007, From: "10.7.0.0/24", Table: 20007}, true},
		"to one of IPv6": {message(head(unix.AF_INET6, 64, 0), own, num(nl.FRA_PRIORITY, 21007), num(nl.FRA_TABLE, 20007),
			attr(nl.FRA_DST, v4("2001:db8::"))),
			netstate.Rule{Priority: 21007, To: "2001:db8::/64", Table: 20007, IPv6: true}, true},
		"a goto, whose table does nothing": {message(head(unix.AF_INET, 0, 0), own, num(nl.FRA_PRIORITY, 22007),
			num(nl.FRA_GOTO, 22010), num(nl.FRA_TABLE, 5)), netstate.Rule{Priority: 22007, Goto: 22010}, true},
		"a mark": {message(head(unix.AF_INET, 0, 0), own, num(nl.FRA_PRIORITY, 18007), num(nl.FRA_FWMARK, 0x1000000),
			num(nl.FRA_FWMASK, 0xf000000), num(nl.FRA_TABLE, 30017)),
			netstate.Rule{Priority: 18007, Mark: 0x1000000, Mask: 0xf000000, Table: 30017}, true},
		"a port of an interface": {message(head(unix.AF_INET, 0, 0), own, num(nl.FRA_PRIORITY, 22007), ports(53, 53),
			attr(nl.FRA_OIFNAME, nl.ZeroTerminated("eth0")), num(nl.FRA_TABLE, 20007)),
			netstate.Rule{Priority: 22007, OIF: "eth0", DPort: 53, Table: 20007}, true},
		"ports": {message(head(unix.AF_INET, 0, 0), own, num(nl.FRA_PRIORITY, 22007), ports(53, 54)),
			netstate.Rule{Priority: 22007, DPort: 53, To: "ports 53-54"}, true},
		"of another program":  {message(head(unix.AF_INET, 0, 0), num(nl.FRA_PRIORITY, 20007)), netstate.Rule{}, false},
		"of another priority": {message(head(unix.AF_INET, 0, 0), own, num(nl.FRA_PRIORITY, 1000)), netstate.Rule{}, false},
		"without a protocol": {message(head(unix.AF_INET, 0, 0), num(nl.FRA_PRIORITY, 20007), attr(nl.FRA_PROTOCOL, nil)),
			netstate.Rule{}, false},
		"cut":   {message(head(unix.AF_INET, 0, 0), own, num(nl.FRA_PRIORITY, 20007))[:20], netstate.Rule{}, false},
		"short": {[]byte{unix.AF_INET}, netstate.Rule{}, false},
	} {
		n, r, ours := parseRule(c.m)
		if ours != c.own || ours && (r != c.want || n != 7) {
			t.Errorf("%s: %d %+v %v, want %+v", name, n, r, ours, c.want)
		}
	}
}

func TestLinksAreReadFromTheKernelsMessages(t *testing.T) {
	head := nl.NewIfInfomsg(unix.AF_UNSPEC)
	head.Index, head.Flags = 9, unix.IFF_UP
	info := nl.NewRtAttr(unix.IFLA_LINKINFO|unix.NLA_F_NESTED, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.ZeroTerminated("bridge"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA|unix.NLA_F_NESTED, nil)
	data.AddRtAttr(nl.IFLA_BR_STP_STATE, nl.Uint32Attr(1))
	data.AddRtAttr(nl.IFLA_BR_AGEING_TIME, nl.Uint32Attr(30000))
	l, err := parseLink(message(head.Serialize(), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated("es1")),
		nl.NewRtAttr(unix.IFLA_IFALIAS, nl.ZeroTerminated("edgespan ni x")), nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(1400)),
		nl.NewRtAttr(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, 1}), nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(3)), info))
	if err != nil || l.name != "es1" || l.alias != "edgespan ni x" || l.mtu != 1400 || l.mac != "02:00:00:00:00:01" ||
		l.master != 3 || l.index != 9 || !l.up || l.kind != netstate.Bridge || l.netns != -1 {
		t.Errorf("%+v, %v", l, err)
	}
	if len(l.odd) != 1 || l.odd["stp_state"] != 1 {
		t.Errorf("attributes that differ: %v", l.odd)
	}
	head.Flags = 0
	l, err = parseLink(message(head.Serialize(), nl.NewRtAttr(unix.IFLA_ADDRESS, make([]byte, 6)),
		nl.NewRtAttr(unix.IFLA_LINK_NETNSID, nl.Uint32Attr(4))))
	if err != nil || l.kind != "device" || l.mac != "" || l.up || l.netns != 4 || l.odd != nil {
		t.Errorf("a device: %+v, %v", l, err)
	}
	if _, err := parseLink(make([]byte, 3)); err == nil {
		t.Error("a short message is read")
	}
}
