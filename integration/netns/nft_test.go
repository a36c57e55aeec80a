package netns_test

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/nft"

	"github.com/google/go-cmp/cmp"
)

// bridgeWords has one rule of every form that edgespan's tables have.
var bridgeWords = []string{
	"chain a1 {",
	"ether saddr != 02:16:3e:01:00:01 drop",
	"ether type ip ip saddr 10.1.0.2 accept",
	"ether type ip ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
	"ether type arp arp htype 1 arp ptype ip arp hlen 6 arp plen 4 arp saddr ether 02:16:3e:01:00:01 arp saddr ip " +
		"0.0.0.0 arp daddr ip 10.1.0.2 accept",
	"ether saddr 02:16:3e:01:00:01 ether type ip ip saddr 10.1.0.2 udp dport > 68 accept",
	"ether type ip ip protocol != 17 accept",
	"ether type ip udp dport 67 goto d1",
	"ether type ip ip daddr 10.1.0.1 udp dport 53 limit rate over 128/second burst 512 packets drop",
	"ether type ip @nh,48,16 & 0x3fff == 0 @th,16,16 > 68 accept",
	"ether type ip @nh,48,16 & 0x3fff != 0 limit rate over 10/second burst 160 packets counter drop",
	"ether type ip6 drop",
	"ether type vlan vlan id 10 meta mark set meta mark & 0xffff0000 | 0x5212 goto d1",
	"meta mark set meta mark & 0xffff0000",
	"ether type vlan vlan type ip udp dport 68 drop",
	"ether type vlan vlan type arp arp saddr ether 02:16:3e:01:00:01 accept",
	"drop",
	"}",
	"chain d1 {",
	"ether type ip ip saddr 10.1.0.2 udp sport 68 @th,64,24 0x010106 @th,256,80 0x02163e010001 accept",
	"drop",
	"}",
	"chain frames {",
	"type filter hook prerouting priority -300; policy accept;",
	`iifname "es1a1" goto a1`,
	`iifname "es1a*" drop`,
	"}",
}

// mapWords has one map of every type.
var mapWords = []string{
	"map ports {",
	"type ifname : verdict;",
	"size 32768;",
	`elements = { "es1a1" : goto ES1-1F, "es1a2" : jump ES1-1D, "es1a3" : drop, "es1a4" : accept }`,
	"}",
	"map hosts {",
	"type ipv4_addr : verdict;",
	"elements = { 10.1.0.2 : jump ES1-1D }",
	"}",
	"set halves {",
	"type ipv4_addr;",
	"elements = { 10.1.0.0, 10.1.0.128 }",
	"}",
	"set names {",
	"type ifname;",
	`elements = { "es1", "es2" }`,
	"}",
	"chain ES1-1D {",
	"drop",
	"}",
	"chain ES1-1F {",
	"meta nfproto ipv4 ip daddr & 255.255.255.128 @halves drop",
	"drop",
	"}",
	"chain frames {",
	"type filter hook prerouting priority -300; policy accept;",
	"meta mark set meta mark | 0x20000000 iifname @names accept",
	"iifname vmap @ports",
	`oifname "es1*" iifname vmap @ports`,
	"oifname vmap @ports",
	"}",
}

var (
	bridgeTable = nft.Table{Family: netstate.BridgeFamily, Name: "es1"}
	guardTable  = nft.Table{Family: netstate.InetFamily, Name: netinst.GuardTable}
	arpTable    = nft.Table{Family: netstate.ARPFamily, Name: netinst.GuardTable}
)

// hostWords returns a table of host with two adjacent networks and a port. The guard skips network 7 if it is in
// unmarked.
func hostWords(table nft.Table, unmarked ...int) []string {
	st := netinst.HostState([]netinst.HostNetwork{
		{
			Number: 7, Subnet: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("10.1.0.1"),
			Ports: []netinst.HostPort{{IfName: "uplink0", Opened: true, HostForwards: []string{"lan0"}}},
		},
		{Number: 12, Subnet: netip.MustParsePrefix("10.1.1.0/24"), Gateway: netip.MustParseAddr("10.1.1.1")},
		{Number: 13, Subnet: netip.MustParsePrefix("10.1.0.128/25"), Gateway: netip.MustParseAddr("10.1.0.129")},
	}, unmarked...)
	return st[netstate.Chain{Family: table.Family, Name: table.Name}.ID()].(netstate.Chain).Rules
}

func guardWords(unmarked ...int) []string { return hostWords(guardTable, unmarked...) }

// ip6Words has each match and statement that tables for IPv6 packets use.
var ip6Words = strings.Split(`set gateways {
type ipv6_addr;
size 1024;
elements = { fd00:1::1, fd00:2::1 }
}
set subnets {
type ipv6_addr;
elements = { fd00:1:: }
}
map from {
type ifname : verdict;
size 1024;
elements = { "es1" : jump ES1-FWD }
}
chain ES1-FWD {
ip6 saddr fd00:1::/64 iifname != "es1" drop
ct state invalid drop
ct direction original ct status confirmed ct status & snat == 0 drop
ct state established,related accept
ct status & confirmed == 0 ct count over 100 drop
limit rate 4/second burst 64 packets accept
limit rate 4/minute burst 6 packets accept
limit rate over 4/hour burst 5 packets drop
icmpv6 type >= 133 icmpv6 type <= 137 ip6 hoplimit 255 drop
icmpv6 type 135 ip6 length 32 @th,64,128 0xfd000001000000000000000000000005 @th,192,64 0x010102f5e2e32fa3 accept
ip6 nexthdr 44 @nh,320,8 58 drop
ip6 daddr 2001:db8::/32 tcp dport >= 80 tcp dport <= 90 accept
udp sport 546 udp dport 547 ip6 daddr ff02::1:2 drop
meta l4proto 47 drop
meta l4proto != 6 return
}
chain before-prerouting {
type filter hook prerouting priority -310; policy accept;
ip6 saddr & ffff:ffff:ffff:ffff:: @subnets iifname "eth0" drop
ip6 daddr @gateways drop
}
chain forward {
type filter hook forward priority 0; policy accept;
iifname vmap @from
}
chain postrouting {
type nat hook postrouting priority 100; policy accept;
oifname "eth0" masquerade
}`, "\n")

// The package writes the same as the nft command for the same text.
func TestATableIsWhatNftMakesOfIt(t *testing.T) {
	for table, words := range map[nft.Table][]string{bridgeTable: bridgeWords, guardTable: guardWords(7),
		arpTable: hostWords(arpTable), {Family: netstate.InetFamily, Name: "withmaps"}: mapWords,
		{Family: netstate.IP6Family, Name: "edgespan"}: ip6Words} {
		own, theirs := netns.New(t), netns.New(t)
		c := openNft(t, own)
		if err := c.Replace(table, words); err != nil {
			t.Fatal(err)
		}
		file := t.TempDir() + "/table"
		if err := os.WriteFile(file, []byte("table "+table.String()+" {\n"+strings.Join(words, "\n")+"\n}\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		theirs.Exec(t, "nft", "-f", file)
		list := strings.Fields("nft list table " + table.String())
		got := own.Exec(t, list...)
		for _, line := range []string{" # progname .*", "(?m)^\tflags owner.*\n\n?"} { // of an owned table
			got = regexp.MustCompile(line).ReplaceAllString(got, "")
		}
		if d := cmp.Diff(theirs.Exec(t, list...), got); d != "" {
			t.Errorf("(-nft +ours):\n%s", d)
		}
	}
}

func openNft(t *testing.T, ns *netns.NS) *nft.Conn {
	t.Helper()
	c, err := nft.Open(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func tableText(t *testing.T, c *nft.Conn, table nft.Table) string {
	t.Helper()
	all, err := c.Tables(func(x nft.Table) bool { return x == table })
	if err != nil {
		t.Fatal(err)
	}
	if content, stands := all[table]; stands {
		return content.Text()
	}
	return ""
}

// A flush or delete by another program does not affect edgespan's tables while the socket is open. They survive when
// it is closed, and the next process owns them again.
func TestAFlushByOthersDoesNotReachOurTables(t *testing.T) {
	ns := netns.New(t)
	c := openNft(t, ns)
	if !c.OwnsTables() {
		t.Skip("needs Linux 6.9: the kernel knows no owned table that persists")
	}
	ns.Exec(t, "nft", "add", "table", "ip", "filter")
	words := map[nft.Table][]string{bridgeTable: bridgeWords, guardTable: guardWords(), arpTable: hostWords(arpTable)}
	for table, w := range words {
		if err := c.Replace(table, w); err != nil {
			t.Fatal(err)
		}
	}
	hold := func(when string, c *nft.Conn) {
		t.Helper()
		ns.Exec(t, "nft", "flush", "ruleset")
		for table := range words {
			before := tableText(t, c, table)
			for _, argv := range []string{"delete table " + table.String(), "flush table " + table.String(), "add chain " +
				table.String() + " more"} {
				if out, err := ns.Try(strings.Fields("nft " + argv)...); err == nil {
					t.Errorf("%s: nft %s was done: %s", when, argv, out)
				}
			}
			if now := tableText(t, c, table); now != before || now == "" || strings.Contains(now, "owner") {
				t.Errorf("%s: %s was %q and is %q", when, table, before, now)
			}
		}
	}
	hold("while it is open", c)
	c.Close()
	second := openNft(t, ns)
	for table := range words {
		if text := tableText(t, second, table); !strings.HasPrefix(text, "without an owner\n") || !strings.Contains(text, "chain ") {
			t.Errorf("after the end of its owner %s reads %q", table, text)
		}
	}
	if err := second.Claim(func(x nft.Table) bool { return words[x] != nil }); err != nil {
		t.Fatal(err)
	}
	hold("claimed", second)
	for table, w := range words { // its owner still writes and deletes it
		before := tableText(t, second, table)
		if err := second.Replace(table, w); err != nil || tableText(t, second, table) != before {
			t.Errorf("written again: %v", err)
		}
		if err := second.Delete(table); err != nil || tableText(t, second, table) != "" {
			t.Errorf("deleted: %v", err)
		}
	}
	// A table of an earlier release has no owner until it is written.
	ns.Exec(t, "nft", "add", "table", "bridge", "es1")
	if err := second.Claim(func(nft.Table) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if err := second.Replace(bridgeTable, bridgeWords); err != nil {
		t.Fatal(err)
	}
	words = map[nft.Table][]string{bridgeTable: bridgeWords}
	hold("of a former release", second)
}

func TestABridgeTableIsReplacedAndReadBack(t *testing.T) {
	t.Parallel()
	ns := netns.New(t)
	c := openNft(t, ns)
	gen := func() uint32 {
		g, err := c.Generation()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	texts := map[string]bool{}
	tables := func() string { return tableText(t, c, bridgeTable) }
	begin := gen()
	if err := c.Delete(bridgeTable); err != nil {
		t.Fatalf("delete what is not there: %v", err)
	}
	for i := range 2 { // repeating changes nothing
		if err := c.Replace(bridgeTable, bridgeWords); err != nil {
			t.Fatal(err)
		}
		if texts[tables()] = true; len(texts) != 1 || tables() == "" {
			t.Fatalf("write %d reads as %q", i, tables())
		}
	}
	if gen() == begin {
		t.Error("the generation is the same after writes")
	}
	still := gen()
	if tables(); gen() != still {
		t.Error("a look changes the generation")
	}
	// A failed batch changes nothing.
	before := tables()
	if err := c.Replace(bridgeTable, []string{"chain a {", "goto nowhere", "}"}); err == nil || tables() != before {
		t.Errorf("a jump to nowhere: err %v, table %q, want %q", err, tables(), before)
	}
	if err := c.Delete(bridgeTable); err != nil || tables() != "" {
		t.Errorf("delete: %v, left %q", err, tables())
	}
	// Each change by others gives another text, in a table that they can change.
	ns.Exec(t, "nft", "add", "table", "bridge", "es1")
	for _, argv := range []string{"add chain bridge es1 a1", "add rule bridge es1 a1 drop",
		"add rule bridge es1 a1 accept", "add chain bridge es1 more", "flush chain bridge es1 a1",
		"delete chain bridge es1 more", "flush table bridge es1"} {
		ns.Exec(t, append([]string{"nft"}, strings.Fields(argv)...)...)
		if n := len(texts); argv != "delete chain bridge es1 more" && argv != "flush table bridge es1" {
			if texts[tables()] = true; len(texts) != n+1 {
				t.Errorf("after %s the table reads as before: %s", argv, tables())
			}
		}
	}
	// The elements of a set count, in any order.
	for _, argv := range []string{"add set bridge es1 some { type ipv4_addr; }",
		"add element bridge es1 some { 10.1.0.2, 10.1.0.1 }", "delete element bridge es1 some { 10.1.0.2 }"} {
		before := tables()
		ns.Exec(t, append([]string{"nft"}, strings.Fields(argv)...)...)
		if tables() == before {
			t.Errorf("after %s the table reads as before: %s", argv, before)
		}
	}
}

// Sets for a thousand networks are one transaction.
func TestABigSet(t *testing.T) {
	ns := netns.New(t)
	c := openNft(t, ns)
	var hs []netinst.HostNetwork
	for i := range 999 {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		hs = append(hs, netinst.HostNetwork{Number: i + 1, Subnet: subnet, Gateway: subnet.Addr().Next()})
	}
	st := netinst.HostState(hs)
	for _, table := range []nft.Table{guardTable, arpTable} {
		words := st[netstate.Chain{Family: table.Family, Name: table.Name}.ID()].(netstate.Chain).Rules
		began := time.Now()
		if err := c.Replace(table, words); err != nil {
			t.Fatal(err)
		}
		first := tableText(t, c, table)
		err := c.Replace(table, words)
		if d := cmp.Diff(first, tableText(t, c, table)); err != nil || d != "" {
			t.Errorf("written again, %s reads otherwise: %v (-first +again):\n%s", table, err, d)
		}
		t.Logf("%s: twice in %v", table, time.Since(began))
	}
	if got := strings.Count(ns.Exec(t, "nft", "list", "set", "inet", "edgespan", "subnets24"), ",") + 1; got != 999 {
		t.Errorf("%d subnets", got)
	}
}

// A table of a thousand adapters is one transaction.
func TestABigBridgeTable(t *testing.T) {
	ns := netns.New(t)
	c := openNft(t, ns)
	var lines []string
	part := bridgeWords[:slices.Index(bridgeWords, "chain frames {")]
	rules := slices.Index(part, "}") - 1 // of the first chain
	for i := range 1000 {
		for _, l := range part {
			lines = append(lines, strings.NewReplacer("chain a1 ", fmt.Sprintf("chain a%d ", i),
				"chain d1 ", fmt.Sprintf("chain d%d ", i), "goto d1", fmt.Sprintf("goto d%d", i)).Replace(l))
		}
	}
	if err := c.Replace(bridgeTable, lines); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(tableText(t, c, bridgeTable), fmt.Sprintf(", %d rules, ", rules)); n != 1000 {
		t.Errorf("%d chains of %d rules", n, rules)
	}
}
