package netinst

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"edgespan/netinst/netstate"
)

// The names of objects that edgespan creates on a host (docs/architecture.md, law 3). n is the number of the network
// instance, from 1 to MaxNumber; k is the adapter's number on that network.
const (
	MaxNumber      = 999
	tableBase      = 20000
	ruleFromBase   = 20000
	ruleToBase     = 21000
	ruleDNSBase    = 22000
	ruleFlowsBase  = 18000
	ruleBoundBase  = 15000
	ruleAnswerBase = 16000
	tableFlowsBase = 30000
	linkPrefix     = "es"
	chainPrefix    = "ES"
	aliasPrefix    = "edgespan ni "
	maxAdapterNums = 9999
)

// BridgeName is the bridge of network n.
func BridgeName(n int) IfName { return IfName(fmt.Sprintf("%s%d", linkPrefix, n)) }

// HostIfName is the host side of adapter k of network n.
func HostIfName(n, k int) IfName { return IfName(fmt.Sprintf("%s%da%d", linkPrefix, n, k)) }

// Table is the route table of network n.
func Table(n int) int { return tableBase + n }

// RunFolder is the run folder of network n, relative to the run directory.
func RunFolder(n int) string { return fmt.Sprintf("ni/%d", n) }

// BridgeAlias is the mark of ownership on the bridge of a network.
func BridgeAlias(o netstate.Owner) string { return aliasPrefix + o.Name }

// Root chains of the host state, with one jump each from the built-in chain that their name ends with. They name no
// network: their rules are the same for one network and for a thousand.
const (
	RootForward     = "ES-FORWARD"
	RootInput       = "ES-INPUT"
	RootOutput      = "ES-OUTPUT"
	RootPostrouting = "ES-POSTROUTING"
	RootPrerouting  = "ES-PREROUTING" // of tables raw and nat
	// BaseChain drops any packet from or to edgespan's links that no adapter chain accepted.
	BaseChain = "ES-BASE"
	// ExitChain ends the path of a packet that an adapter sends out of a port: it accepts. The guard has dropped the first
	// packet of a flow to another network's subnet.
	ExitChain = "ES-EXIT"
)

// A packet from or to one of edgespan's links meets three things in turn: the rule that accepts known flows, the chain
// that leads to the hooks of the networks (hookTree), and BaseChain. A forwarded packet meets them in linksForward,
// others in their root chain.
const (
	linksForward = "ES-LINKS-FWD"
	netsForward  = "ES-NETS-FWD"
	// Of table nat: the hooks of port maps, for packets that arrive and those of the node itself.
	mapsArriving = "ES-MAPS"
	mapsOfNode   = "ES-MAPS-OUT"
	// Of table filter: the hooks of networks with port maps, for packets from adapters that a map has led.
	mapsAcross = "ES-MAPS-FWD"
	// Of table filter: the hooks of networks with port maps, for packets of the node itself that a map has led.
	mapsFromNode = "ES-MAPS-NODE"
)

// Values that reach a config file, a rule or a command line have these types, which only their Parse functions create
// (docs/architecture.md, law 10).
type (
	// Hostname is a DNS name: labels of letters, digits and inner hyphens, joined by dots, at most 253 octets, lower case
	// (RFC 1123 §2.1).
	Hostname string
	// Domain is a Hostname that is used as a DNS domain.
	Domain string
	// IfName is a Linux interface name: 1 to 15 octets of letters, digits, '.', '_', '-' (stricter than the kernel's
	// dev_valid_name).
	IfName string
)

// ParseHostname returns a Hostname, or why s is not one.
func ParseHostname(s string) (Hostname, error) {
	if s == "" || len(s) > 253 {
		return "", fmt.Errorf("invalid length of %d octets: must be 1 to 253", len(s))
	}
	for _, l := range strings.Split(s, ".") {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || !only(l, isAlnum, '-') {
			return "", fmt.Errorf("invalid host name: must be labels of 1 to 63 letters, digits and inner hyphens")
		}
	}
	return Hostname(strings.ToLower(s)), nil
}

// ParseIfName returns an IfName, or why s is not one.
func ParseIfName(s string) (IfName, error) {
	if s == "" || len(s) > 15 || s == "." || s == ".." || !only(s, isAlnum, '.', '_', '-') {
		return "", fmt.Errorf("invalid interface name: must be 1 to 15 letters, digits, '.', '_' and '-'")
	}
	return IfName(s), nil
}

// IsWireGuardKey reports whether a text is a key as wg(8) writes it: the 32 octets of a Curve25519 key (RFC 7748), not
// all of them 0, in base64. A decoder alone would skip line ends.
func IsWireGuardKey(s string) bool {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil && len(b) == 32 && [32]byte(b) != [32]byte{} && base64.StdEncoding.EncodeToString(b) == s
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func only(s string, class func(byte) bool, more ...byte) bool {
	for i := range len(s) {
		if !class(s[i]) && !strings.Contains(string(more), s[i:i+1]) {
			return false
		}
	}
	return true
}

// FoundLeases reconstructs the journalled leases of a network's adapters from its objects on the host: the number from
// the name of the link, the MAC from the link's mark, both and the address from dnsmasq's files. The number of a
// foreign link cannot be found. It serves a start that has lost the journal while the network runs.
func FoundLeases(n int, have netstate.State) map[AdapterKey]Lease {
	found := map[AdapterKey]Lease{}
	for id, obj := range have {
		switch obj := obj.(type) {
		case netstate.Link:
			if k, number, mac, ok := markedLink(n, obj); ok {
				l := found[k]
				if l.Number = number; l.MAC == "" {
					l.MAC = mac
				}
				found[k] = l
			}
		case netstate.File:
			if k, mac, ip, ok := reservation(n, id.Name, obj.Content); ok {
				l := found[k]
				l.MAC, l.IP = mac, ip
				found[k] = l
			}
		}
	}
	return found
}

// markedLink reads the mark of an adapter's link, of any release.
func markedLink(n int, l netstate.Link) (k AdapterKey, number int, mac string, ok bool) {
	words := strings.Fields(l.Alias)
	name := l.Name
	for i, w := range words {
		switch {
		case w == "adapter" && i+1 < len(words) && !ok:
			var err error
			k, err = ParseAdapterKey(words[i+1])
			ok = err == nil
		case strings.HasPrefix(w, "mac="):
			mac = strings.TrimPrefix(w, "mac=")
		case strings.HasPrefix(w, "link="):
			name = strings.TrimPrefix(w, "link=")
		}
	}
	if !ok || !strings.HasPrefix(l.Alias, aliasPrefix) {
		return k, 0, "", false
	}
	digits, ok := strings.CutPrefix(name, strings.TrimSuffix(string(HostIfName(n, 0)), "0"))
	number, err := strconv.Atoi(digits)
	return k, number, mac, ok && err == nil && number >= 1 && number <= maxAdapterNums
}

// reservation reads a file of dhcp-hosts.
func reservation(n int, path, content string) (k AdapterKey, mac string, ip netip.Addr, ok bool) {
	name, ok := strings.CutPrefix(path, RunFolder(n)+"/conf/dhcp-hosts/")
	at := strings.LastIndexByte(name, '-')
	words := strings.Split(strings.TrimSpace(content), ",")
	if !ok || len(words) < 3 {
		return k, "", ip, false
	}
	k, err := ParseAdapterKey(name[:max(at, 0)] + "#" + name[at+1:])
	ip, err2 := netip.ParseAddr(words[2])
	return k, words[0], ip, err == nil && err2 == nil
}
