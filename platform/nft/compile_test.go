package nft

import (
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

func TestCompileRefusesWhatItDoesNotKnow(t *testing.T) {
	for rule, want := range map[string]string{
		"ip saddr 10.0.0.1 accept":                             "without ether type ip",
		"ether type arp ip saddr 10.0.0.1 accept":              "without ether type ip",
		"ether type != ip ip saddr 1.1.1.1 accept":             "without ether type ip",
		"udp sport 68 accept":                                  "without ether type ip",
		"tcp dport 1 accept":                                   "without ether type ip",
		"ether type ip icmpv6 type 1 accept":                   "without ether type ip6",
		"ether type ip6 ip saddr 10.0.0.1 accept":              "without ether type ip",
		"ether type ip6 ip6 saddr 10.0.0.1 accept":             "no value",
		"ether type ip6 ip6 saddr fe80::1/10 accept":           "no value",
		"ether type ip6 ip6 daddr & 255.255.0.0 @nets accept":  "want & and",
		"ether type ip6 ip6 nexthdr > 5 accept":                "no order",
		"ether type ip6 icmpv6 type 256 accept":                "no value",
		"vlan id 5 accept":                                     "without ether type vlan",
		"ether type ip vlan type ip accept":                    "without ether type vlan",
		"ether type vlan ip saddr 10.0.0.1 accept":             "without ether type ip",
		"ether type vlan vlan id 65536 accept":                 "no value",
		"ether type vlan vlan type vlan vlan type ip":          "no verdict",
		"ether type ip ip saddr 10.0.0.1/8 accept":             "no value",
		"ether type ip ip saddr fe80::/10 accept":              "no value",
		"ether type ip ip saddr fe80::1 accept":                "no value",
		"ether type ip udp sport 70000 accept":                 "no value",
		"ether saddr 02:16:3e accept":                          "no value",
		"ether type arp arp hlen 300 accept":                   "no value",
		"limit rate over 5/day burst 5 packets drop":           "want rate [over]",
		"limit rate 0/second burst 5 packets drop":             "want rate [over]",
		"limit rate 5/second bursts 5 packets drop":            "want rate [over]",
		"limit rate over 5/second":                             "want rate [over]",
		"ether type ip @nh,48,16 & 0x13fff != 0 drop":          "no value",
		"ether type ip @nh,48,16 & != 0 drop":                  "no value",
		"@nh,64,24 1 accept":                                   "without ether type",
		"ether type ip udp dport 67 @th,64,24 16777216 accept": "no value",
		"ether type ip udp dport 67 @th,4,8 1 accept":          "no value",
		"ether type ip udp dport 67 @th,64,136 1 accept":       "no value",
		"ether type ip udp dport 67 @th,64,0 1 accept":         "no value",
		"ether type ip udp dport 67 @th,64 1 accept":           "unknown",
		"ether type ip udp dport 67 @th,64,8x 1 accept":        "unknown",
		"ether type ip udp dport 67 @ll,64,8 1 accept":         "unknown",
		"iifname es1a1 drop":                                   "quoted name",
		`iifname "" drop`:                                      "quoted name",
		`iifname "aaaaaaaaaaaaaaaa" drop`:                      "quoted name",
		"ether type ip":                                        "no verdict",
		`log prefix a group 5`:                                 "want log prefix",
		`log prefix "a" group 65536`:                           "want log prefix",
		`log prefix "a" group 5 drop`:                          "want log prefix",
		"drop drop":                                            "follows the verdict",
		"goto":                                                 "names no chain",
		"type filter hook sideways priority 0; policy drop;":   "unknown",
		"type filter hook input priority 0; policy later;":     "unknown",
		"type mangle hook output priority 0; policy accept;":   "want type filter, nat or route",
		"type route hook forward priority 0; policy accept;":   "unknown",
		"ct original ip daddr 10.0.0.1 drop":                   "unknown",
		"ct original zone 65536 drop":                          "want a zone",
		"ct original zone > 5 drop":                            "want a zone",
		"ct original zone vmap @m drop":                        "follows the zone or map",
		"ct original zone != vmap @m":                          "vmap behind !=",
		"ct reply zone set x":                                  "want ct zone set",
		"ct original zone set 5 drop":                          "follows the zone or map",
		"jump":                                                 "names no chain",
		"meta nfproto arp drop":                                "nfproto arp is unknown",
		"tcp flags ack accept":                                 "want tcp flags syn",
		"tcp option sack size set 7":                           "want tcp option maxseg",
		"tcp option maxseg size set 70000":                     "want tcp option maxseg",
		"tcp option maxseg size set 7 drop":                    "follows",
		"meta length 7 drop":                                   "meta length is unknown",
		"meta iifkind bridge drop":                             "want a quoted word",
		"meta mark 7 drop":                                     "without a mask",
		"meta mark & 0x1ffffffff == 1 drop":                    "no number",
		"meta mark & 1 drop":                                   "compared with nothing",
		"meta mark & 1 == x drop":                              "no number",
		"ether type ip ip saddr & 255.255.255.0 10.1.0.0 drop": "is of a set",
		"ether type ip ip saddr >= 10.1.0.0 drop":              "no order",
		"ether type ip ip saddr & 24 @nets drop":               "want & and",
		"ether saddr & 255.255.255.0 @nets drop":               "want & and",
		"meta mark set meta mark | x drop":                     "no number",
		"meta mark set meta mark | 1":                          "no verdict",
		"meta mark | 1 drop":                                   "without a mask",
		"ct status seen drop":                                  `ct bit "seen" is unknown`,
		"ct state old drop":                                    `ct bit "old" is unknown`,
		"ct state new, drop":                                   `ct bit "" is unknown`,
		"ct status & snat drop":                                "want == 0",
		"ct direction both drop":                               "ct direction both is unknown",
		"ct count 5 drop":                                      "want ct count over",
		"ct count over x drop":                                 "ct count",
		"meta l4proto tcp drop":                                "meta l4proto",
		"masquerade drop":                                      "follows masquerade",
		"iifname <= \"es1\" drop":                              "no order",
		"meta random 7 drop":                                   "want meta random <",
		"meta random < 4294967296 drop":                        "want meta random <",
		"ct reply ip saddr 10.0.0.1 drop":                      "want ct reply ip daddr",
		"ct reply ip daddr fe80::1 drop":                       "want ct reply ip daddr",
		"ct reply ip6 daddr 10.0.0.1 drop":                     "want ct reply ip daddr",
		"ct reply ip6 daddr ::ffff:10.0.0.1%a drop":            "want ct reply ip daddr",
		"ct reply ip6 saddr 2001:db8::1 drop":                  "want ct reply ip daddr",
		"meta mark set meta mark & 1 | x accept":               "no number",
		"ct":                                                   "unknown",
		"meta mark & 1 == 1":                                   "no verdict",
		"iifname @ drop":                                       "names no set",
		"ether saddr @some drop":                               "is of no set",
		"notrack drop":                                         "follows notrack",
		"iifname > \"es1\" drop":                               "no order",
		"ether type > 5 drop":                                  "no order",
		"ether type ip ip saddr > @m drop":                     "no order",
		"ether type ip udp dport > x drop":                     "no value",
		"ether type ip udp dport > @m drop":                    "is of no set",
		"ip protocol 17 drop":                                  "without ether type ip",
		"iifname vmap @m drop":                                 "follows the map",
		"iifname vmap m":                                       "want @",
		"iifname vmap @":                                       "want @",
		"iifname != vmap @m":                                   "vmap behind !=",
		"ether saddr vmap @m":                                  "no value",
		"match-set s dst accept":                               "want a set",
		"rt ip hop 10.0.0.1 return":                            "want rt ip nexthop",
		"rt ip nexthop fe80::1 return":                         "want an address",
		`rt ip nexthop "es1" return`:                           "want an address",
		"meter size 0 { rt ip nexthop timeout 5s } return":     "want meter size",
		"meter size 5 { rt ip nexthop timeout 0s } return":     "want meter size",
		"meter size 5 { rt ip nexthop timeout 5 } return":      "want meter size",
		"meter size 5 { rt ip nexthops timeout 5s } return":    "want rt ip nexthop",
		"meter size 5 { ip daddr timeout 5s } return":          "want meter size",
		"meter size 5 { rt ip nexthop timeout 5s }":            "no verdict",
		"meter": "want meter size",
	} {
		_, err := compile(netstate.BridgeFamily, []string{"chain a {", rule, "}"}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), strings.Fields(rule)[0]) {
			t.Errorf("%s: %v, want %q in it", rule, err, want)
		}
	}
	for _, lines := range [][]string{{"drop"}, {"chain a {"}, {"chain a {", "drop", "}", "}"},
		{"chain a {", "chain b {", "}"}} {
		if _, err := compile(netstate.BridgeFamily, lines, nil); err == nil {
			t.Errorf("%q is taken", lines)
		}
	}
	for lines, want := range map[string]string{
		"type inet_service;": "want type", "type ipv4_addr; flags timeout;": "want type",
		"type ifname; flags interval;": "want type", "type ifname; flags timeout;": "want type",
		"size 5;":                                                       "want size",
		"type ifname;|size 0;":                                          "want size",
		"type ifname;|size x;":                                          "want size",
		"elements = { 10.0.0.1 }":                                       "behind a type",
		"type ipv4_addr;|elements = { 10.0.0.1":                         "behind a type",
		"type ipv4_addr;|elements = { 10.0.0.0/8 }":                     "no address",
		"type ipv4_addr;|elements = { fe80::1 }":                        "another type",
		"type ipv6_addr;|elements = { 10.0.0.1 }":                       "another type",
		"type ipv6_addr;|elements = { fe80::1%1 }":                      "no address",
		"type ifname;|elements = { es1 }":                               "quoted name",
		`type ifname;|elements = { "es1*" }`:                            "quoted name",
		`type ifname;|elements = { "aaaaaaaaaaaaaaaa" }`:                "quoted name",
		`type ifname;|elements = { "es1" }|set b {`:                     "want type",
		`type ipv4_addr;|elements = { 10.0.0.1 }|}|chain a {|notrack|}`: "outside of a chain",
	} {
		_, err := compile(netstate.InetFamily, append(append([]string{"set a {"}, strings.Split(lines, "|")...), "}"), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("set %s: %v, want %q in it", lines, err, want)
		}
	}
	for lines, want := range map[string]string{
		"type ifname;": "want type", "type ifname : mac;": "want type", "type ifname : mark;": "want type",
		"type ipv6_addr : verdict;":                                       "want type",
		"type inet_service : verdict;":                                    "want type",
		"type ifname : verdict;|elements = { \"es1\" }":                   "its verdict",
		"type ifname : verdict;|elements = { \"es1\" : 7 }":               "verdict",
		"type ifname : verdict;|elements = { \"es1\" : jump }":            "names no chain",
		"type ifname : verdict;|elements = { \"es1\" : reject }":          "verdict",
		"type ifname : verdict;|elements = { \"es1\" : drop a }":          "verdict",
		"type ifname : verdict;|elements = { \"es1\" : jump a b }":        "verdict",
		"type ifname : verdict;|elements = { 10.0.0.1 : drop }":           "another type",
		"type ipv4_addr : verdict;|elements = { \"es1\" : drop }":         "another type",
		"type ipv4_addr : verdict;|elements = { 10.0.0.1 : drop, 10.0.0.": "behind a type",
	} {
		_, err := compile(netstate.InetFamily, append(append([]string{"map a {"}, strings.Split(lines, "|")...), "}"), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("map %s: %v, want %q in it", lines, err, want)
		}
	}
	if _, err := compile(netstate.InetFamily, []string{"set a {", "type ifname : verdict;", "}"}, nil); err == nil {
		t.Error("a set has values")
	}
	if _, err := compile(netstate.ARPFamily,
		[]string{"chain a {", "type filter hook forward priority 0; policy accept;", "}"}, nil); err == nil {
		t.Error("family arp has a hook forward")
	}
}
