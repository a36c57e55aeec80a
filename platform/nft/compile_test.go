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
		"ether type ip tcp dport 1 accept":                     "unknown",
		"ether type vlan accept":                               `no value "vlan"`,
		"ether type ip ip saddr 10.0.0.0/8 accept":             "no value",
		"ether type ip ip saddr fe80::1 accept":                "no value",
		"ether type ip udp sport 70000 accept":                 "no value",
		"ether saddr 02:16:3e accept":                          "no value",
		"ether type arp arp hlen 300 accept":                   "no value",
		"limit rate over 5/minute burst 5 packets drop":        "want rate over",
		"limit rate over 0/second burst 5 packets drop":        "want rate over",
		"limit rate 5/second burst 5 packets drop":             "want rate over",
		"limit rate over 5/second":                             "want rate over",
		"ether type ip @th,64,24 1 accept":                     "without a port of udp",
		"ether type ip udp dport 67 @th,64,24 16777216 accept": "no value",
		"ether type ip udp dport 67 @th,4,8 1 accept":          "no value",
		"ether type ip udp dport 67 @th,64,136 1 accept":       "no value",
		"ether type ip udp dport 67 @th,64,0 1 accept":         "no value",
		"ether type ip udp dport 67 @th,64 1 accept":           "unknown",
		"ether type ip udp dport 67 @th,64,8x 1 accept":        "unknown",
		"ether type ip udp dport 67 @nh,64,8 1 accept":         "unknown",
		"iifname es1a1 drop":                                   "quoted name",
		`iifname "" drop`:                                      "quoted name",
		`iifname "aaaaaaaaaaaaaaaa" drop`:                      "quoted name",
		"ether type ip":                                        "no verdict",
		"drop drop":                                            "follows the verdict",
		"goto":                                                 "names no chain",
		"type filter hook sideways priority 0; policy drop;":   "unknown",
		"type filter hook input priority 0; policy later;":     "unknown",
		"type nat hook prerouting priority 0; policy accept;":  "want type filter",
		"jump":                              "names no chain",
		"meta nfproto ipv6 drop":            "nfproto ipv6 is unknown",
		"meta length 7 drop":                "meta length is unknown",
		"meta iifkind bridge drop":          "want a quoted word",
		"meta mark 7 drop":                  "without a mask",
		"meta mark & 0x1ffffffff == 1 drop": "no number",
		"meta mark & 1 drop":                "compared with nothing",
		"meta mark & 1 == x drop":           "no number",
		"meta mark set meta mark & 1 drop":  "follows the mark",
		"ct status dnat drop":               "ct status dnat is unknown",
		"ct state new drop":                 "ct state new is unknown",
		"ct":                                "unknown",
		"meta mark & 1 == 1":                "no verdict",
		"iifname @ drop":                    "names no set",
		"ether saddr @some drop":            "is of no set",
		"notrack drop":                      "follows notrack",
	} {
		_, err := compile(netstate.BridgeFamily, []string{"chain a {", rule, "}"})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), strings.Fields(rule)[0]) {
			t.Errorf("%s: %v, want %q in it", rule, err, want)
		}
	}
	for _, lines := range [][]string{{"drop"}, {"chain a {"}, {"chain a {", "drop", "}", "}"},
		{"chain a {", "chain b {", "}"}} {
		if _, err := compile(netstate.BridgeFamily, lines); err == nil {
			t.Errorf("%q is taken", lines)
		}
	}
	for lines, want := range map[string]string{
		"type inet_service;": "want type", "type ipv4_addr; flags timeout;": "want type",
		"type ifname; flags interval;":                                  "want type",
		"elements = { 10.0.0.1 }":                                       "behind a type",
		"type ipv4_addr;|elements = { 10.0.0.1":                         "behind a type",
		"type ipv4_addr;|elements = { 10.0.0.0/8 }":                     "no address",
		"type ipv4_addr;|elements = { fe80::1 }":                        "no address",
		"type ipv4_addr; flags interval;|elements = { 10.0.0.1 }":       "no prefix",
		"type ipv4_addr; flags interval;|elements = { 10.0.0.1/8 }":     "no prefix",
		"type ipv4_addr; flags interval;|elements = { 0.0.0.0/0 }":      "no prefix",
		"type ifname;|elements = { es1 }":                               "quoted name",
		`type ifname;|elements = { "es1*" }`:                            "quoted name",
		`type ifname;|elements = { "aaaaaaaaaaaaaaaa" }`:                "quoted name",
		`type ifname;|elements = { "es1" }|set b {`:                     "want type",
		`type ipv4_addr;|elements = { 10.0.0.1 }|}|chain a {|notrack|}`: "outside of a chain",
	} {
		_, err := compile(netstate.InetFamily, append(append([]string{"set a {"}, strings.Split(lines, "|")...), "}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("set %s: %v, want %q in it", lines, err, want)
		}
	}
	if _, err := compile(netstate.ARPFamily,
		[]string{"chain a {", "type filter hook forward priority 0; policy accept;", "}"}); err == nil {
		t.Error("family arp has a hook forward")
	}
}
