package nft

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

func TestWhatAnEventIsAbout(t *testing.T) {
	event := func(family byte, kind uint16, port uint32, attrs ...[]byte) []byte {
		b := frame(nil, unix.NFNL_SUBSYS_NFTABLES<<8|kind, 0, 1, join(genmsg(family, 0), attrs))
		b[12], b[13] = byte(port), byte(port>>8)
		return b
	}
	table := func(name string) []byte { return attr(unix.NFTA_RULE_TABLE, text(name)) }
	rule := attr(unix.NFTA_RULE_CHAIN, text("FORWARD"))
	verdict, err := elementValue("jump ES1-1F")
	if err != nil {
		t.Fatal(err)
	}
	filter := Table{netstate.IPv4, "filter"}
	for name, c := range map[string]struct {
		in   []byte
		want []Change
	}{
		"a rule": {event(unix.AF_INET, unix.NFT_MSG_DELRULE, 300, table("filter"), rule),
			[]Change{{300, filter, "FORWARD", false}}},
		"a chain": {event(unix.AF_INET, unix.NFT_MSG_NEWCHAIN, 1, table("filter"),
			attr(2, []byte{0, 0, 0, 0, 0, 0, 0, 1}), attr(unix.NFTA_CHAIN_NAME, text("ES1-FWD"))),
			[]Change{{1, filter, "ES1-FWD", false}}},
		"a table": {event(7, unix.NFT_MSG_DELTABLE, 1, table("es1")),
			[]Change{{1, Table{netstate.BridgeFamily, "es1"}, "", true}}},
		"the inet one": {event(1, unix.NFT_MSG_DELTABLE, 1, table("edgespan")),
			[]Change{{1, Table{netstate.InetFamily, "edgespan"}, "", true}}},
		"an element": {event(7, unix.NFT_MSG_DELSETELEM, 1, attr(unix.NFTA_SET_ELEM_LIST_TABLE, text("edgespan")),
			attr(unix.NFTA_SET_ELEM_LIST_SET, text("ports")), nestAttrs(unix.NFTA_SET_ELEM_LIST_ELEMENTS,
				nestAttrs(unix.NFTA_LIST_ELEM, data(unix.NFTA_SET_ELEM_KEY, make([]byte, 16)),
					nestAttrs(unix.NFTA_SET_ELEM_DATA, verdict)))),
			[]Change{{1, Table{netstate.BridgeFamily, "edgespan"}, "ES1-1F", false}}},
		"an element that leads nowhere": {event(1, unix.NFT_MSG_NEWSETELEM, 1,
			attr(unix.NFTA_SET_ELEM_LIST_TABLE, text("edgespan"))),
			[]Change{{1, Table{netstate.InetFamily, "edgespan"}, "", false}}},
		"equal ones": {append(event(unix.AF_INET, unix.NFT_MSG_DELRULE, 1, table("filter"), rule),
			event(unix.AF_INET, unix.NFT_MSG_NEWRULE, 1, table("filter"), rule)...), []Change{{1, filter, "FORWARD", false}}},
		"IPv6": {event(unix.AF_INET6, unix.NFT_MSG_DELRULE, 1, table("filter"), rule),
			[]Change{{1, Table{netstate.IP6Family, "filter"}, "FORWARD", false}}},
		"a table comes": {event(7, unix.NFT_MSG_NEWTABLE, 1, table("es1")), nil},
		"a generation":  {event(0, unix.NFT_MSG_NEWGEN, 1, attr(unix.NFTA_GEN_ID, be32(1))), nil},
		"no attributes": {event(unix.AF_INET, unix.NFT_MSG_DELRULE, 1), nil},
		"a length of 0": {event(unix.AF_INET, unix.NFT_MSG_DELRULE, 1, []byte{0, 0, 1, 0}), nil},
		"one too long":  {event(unix.AF_INET, unix.NFT_MSG_DELRULE, 1, []byte{200, 0, 1, 0}), nil},
		"another system": {frame(nil, unix.NFNL_SUBSYS_CTNETLINK<<8|unix.NFT_MSG_DELRULE, 0, 1,
			join(genmsg(unix.AF_INET, 0), [][]byte{table("filter"), rule})), nil},
		"cut short": {[]byte{1, 2, 3}, nil},
	} {
		if d := cmp.Diff(c.want, changesIn(c.in)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
