package nodeconf

import (
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"edgespan/netinst"
)

// Word is the form of a string field.
type Word string

// The words.
const (
	wordAny        Word = "text"
	wordDisplay    Word = "display name"
	wordLabel      Word = "label"
	wordLabelRef   Word = "label of a port"
	wordNetPort    Word = "port of a network"
	wordName       Word = "name"
	wordIndex      Word = "index"
	wordUUID       Word = "UUID"
	wordHostname   Word = "host name"
	wordIfName     Word = "interface name"
	wordNetns      Word = "network namespace"
	wordMAC        Word = "MAC address"
	wordIP         Word = "IP address"
	wordServer     Word = "server address"
	wordIPv4       Word = "IPv4 address"
	wordSubnet     Word = "IPv4 subnet"
	wordPrefix     Word = "IP prefix"
	wordGateway    Word = "gateway's address"
	wordPrefixOrIP Word = "IP prefix or address"
	wordIPv6       Word = "IPv6 address"
	wordSubnet6    Word = "IPv6 subnet"
	wordEntry      Word = "prefix or address"
	wordOnLink     Word = "IPv4 interface address"
	wordRange      Word = "IPv4 range"
	wordProtocol   Word = "protocol"
	wordPorts      Word = "ports"
	wordURL        Word = "https URL"
	wordCollector  Word = "collector"
	wordSocketPath Word = "socket path"
	wordTarget     Word = "probe target"
	wordRate       Word = "rate"
	wordPortRange  Word = "port range"
	wordVLAN       Word = "VLAN"
	wordOwnPrefix  Word = "address with prefix length"
	wordKey        Word = "WireGuard key"
	wordEndpoint   Word = "endpoint"
	wordHostOrIP   Word = "host name or address"
	wordIdentity   Word = "IKE identity"
	wordProposals  Word = "proposals"
	wordSecret     Word = "secret text"
	wordPEM        Word = "PEM text or path"
)

// word is the implementation of a Word. parse returns false for an invalid string, with a hint for the message if the
// intention is recognisable.
type word struct {
	parse   func(s string) (v any, hint string, ok bool)
	allowed string
	plural  string // for lists
}

const (
	maxIndex = 999
	maxVLAN  = 4094 // IEEE 802.1Q §9.6 reserves 4095
)

var words = map[Word]word{
	wordAny:     {parse: noHint(func(s string) (string, bool) { return s, true }), allowed: "a string"},
	wordDisplay: {parse: noHint(parseDisplay), allowed: "at most 64 printable characters"},
	wordLabel: {parse: noHint(parseLabel),
		allowed: "1 to 64 letters, digits, '.', '_' and '-', but not uplink, freeuplink or all",
		plural:  "labels of 1 to 64 letters, digits, '.', '_' and '-', not uplink, freeuplink or all"},
	wordLabelRef: {parse: noHint(parseName), allowed: "a port's label, a shared label, uplink, freeuplink or all"},
	wordNetPort:  {parse: noHint(parseNetPort), allowed: `a port's label, a shared label, uplink, freeuplink, all or ""`},
	wordName:     {parse: noHint(parseName), allowed: "1 to 64 letters, digits, '.', '_' and '-'"},
	wordIndex:    {parse: noHint(parseIndex), allowed: fmt.Sprintf("an index of 0 to %d", maxIndex)},
	wordUUID:     {parse: noHint(parseUUID), allowed: "a UUID of 8-4-4-4-12 hexadecimal digits, not all 0"},
	wordHostname: {parse: noHint(noError(netinst.ParseHostname)),
		allowed: "a host name of at most 253 characters, in labels of 1 to 63 letters, digits and inner hyphens"},
	wordIfName: {parse: noHint(noError(netinst.ParseIfName)),
		allowed: "an interface name of 1 to 15 letters, digits, '.', '_' and '-'"},
	wordNetns: {parse: noHint(parseNetns),
		allowed: "a name of 1 to 255 letters, digits, '.', '_' and '-', or a clean absolute path"},
	wordMAC:    {parse: noHint(parseMAC), allowed: "a unicast MAC address such as 02:00:00:00:00:01"},
	wordIP:     {parse: noHint(parseIP), allowed: "an IP address", plural: "IP addresses"},
	wordServer: {parse: noHint(parseServer), allowed: "a unicast IP address", plural: "unicast IP addresses"},
	wordIPv4:   {parse: noHint(parseIPv4), allowed: "a unicast IPv4 address", plural: "unicast IPv4 addresses"},
	wordSubnet: {parse: parseSubnet,
		allowed: "an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local"},
	wordPrefix: {parse: parseAnyPrefix, allowed: "a prefix such as 10.0.0.0/24 or 2001:db8::/32",
		plural: "prefixes such as 10.0.0.0/24 or 2001:db8::/32"},
	wordGateway:    {parse: noHint(parseGateway), allowed: "a unicast IP address"},
	wordPrefixOrIP: {parse: parsePrefixOrIP, allowed: "a prefix such as 10.0.0.0/24 or 2001:db8::/32, or an IP address"},
	wordIPv6:       {parse: noHint(parseIPv6), allowed: "a unicast IPv6 address"},
	wordSubnet6: {parse: parseSubnet6,
		allowed: "an IPv6 subnet of /64, unicast and not link-local, such as fd00:1::/64"},
	wordEntry: {parse: noHint(parseEntry),
		allowed: "an IP prefix of 1 bit or more such as 10.0.0.0/24, without host bits, or an IP address"},
	wordOnLink: {parse: noHint(parseOnLink),
		allowed: "a unicast IPv4 address with its prefix length of 8 to 32 such as 192.0.2.2/24",
		plural:  "unicast IPv4 addresses with their prefix lengths of 8 to 32 such as 192.0.2.2/24"},
	wordRange:    {parse: noHint(parseRange), allowed: `"first-last", two IPv4 addresses in order`},
	wordProtocol: {parse: noHint(parseProtocol), allowed: "tcp, udp, icmp or a number of 0 to 255"},
	wordPorts: {parse: noHint(parsePorts),
		allowed: `a port of 1 to 65535, a range such as "80-90" or a list such as "80,443" of at most 15, a range ` +
			`counting as two`},
	wordOwnPrefix: {parse: noHint(parseOwnPrefix),
		allowed: "a unicast address with its prefix length such as 192.0.2.2/24",
		plural:  "unicast addresses with their prefix lengths such as 192.0.2.2/24"},
	wordKey: {parse: noHint(parseWireGuardKey), allowed: `a key of 32 octets in base64, as "wg genkey" writes it`},
	wordEndpoint: {parse: noHint(parseTargetHostPort),
		allowed: "HOST:PORT of a host name or an address, such as 192.0.2.1:51820 or [2001:db8::1]:51820"},
	wordHostOrIP: {parse: noHint(parseHostOrIP), allowed: "a host name or a unicast IP address"},
	wordIdentity: {parse: noHint(parseIdentity),
		allowed: "1 to 255 ASCII characters without quotes, backslashes, braces, semicolons and $"},
	wordProposals: {parse: noHint(parseProposals),
		allowed: "names of algorithms joined by hyphens, in lower case, such as aes256gcm16-prfsha384-x25519"},
	wordSecret: {parse: noHint(parseSecretText), allowed: "1 to 255 octets of printable characters"},
	wordPEM: {parse: noHint(parsePEM),
		allowed: "PEM blocks, or the clean absolute path of a file in ASCII without spaces and quotes"},
	wordVLAN:      {parse: noHint(parseVLAN), allowed: "a VLAN of 2 to 4094", plural: "VLANs of 2 to 4094"},
	wordPortRange: {parse: noHint(parsePortRange), allowed: `a port of 1 to 65535 or a range such as "8000-8010"`},
	wordRate: {parse: noHint(netinst.ParseRate),
		allowed: `a whole number of 1 to 10000 packets a second, minute or hour, such as "10/s", "10/m" or "10/h"`},
	wordURL: {parse: noHint(parseURL), allowed: `https://HOST:PORT, or ""`},
	wordCollector: {parse: noHint(parseCollector),
		allowed: `udp://ADDRESS:PORT or tcp://ADDRESS:PORT of a unicast IP address, or ""`},
	wordSocketPath: {parse: noHint(parseSocketPath), allowed: `a clean absolute path of at most 107 octets, or ""`},
	wordTarget: {parse: noHint(parseTarget), allowed: "an IP address, a host name, HOST:PORT or an http(s) URL",
		plural: "IP addresses, host names, HOST:PORT or http(s) URLs"},
}

// noHint wraps a parse function that has no hints.
func noHint[T any](f func(string) (T, bool)) func(string) (any, string, bool) {
	return func(s string) (any, string, bool) {
		v, ok := f(s)
		return v, "", ok
	}
}

func noError[T any](f func(string) (T, error)) func(string) (T, bool) {
	return func(s string) (T, bool) {
		v, err := f(s)
		return v, err == nil
	}
}

func parseDisplay(s string) (string, bool) {
	ok := utf8.RuneCountInString(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
	return s, ok
}

func parseName(s string) (string, bool) {
	return s, s != "" && len(s) <= 64 && s != "." && s != ".." && isPlainWord(s)
}

// parseNetPort also accepts "": a network without a port.
func parseNetPort(s string) (string, bool) {
	if s == "" {
		return s, true
	}
	return parseName(s)
}

// reserved labels select sets of ports.
var reserved = []string{"uplink", "freeuplink", "all"}

func parseLabel(s string) (string, bool) {
	for _, r := range reserved {
		if s == r {
			return s, false
		}
	}
	return parseName(s)
}

func isPlainWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	})
}

func parseIndex(s string) (string, bool) {
	n, ok := parseCanonicalInt(s)
	return s, ok && n >= 0 && n <= maxIndex
}

// parseCanonicalInt parses a decimal number in canonical spelling.
func parseCanonicalInt(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

func parseVLAN(s string) (int, bool) {
	n, ok := parseCanonicalInt(s)
	return int(n), ok && n > netinst.NativeVLAN && n <= maxVLAN
}

func parseUUID(s string) (uuid.UUID, bool) {
	id, err := uuid.Parse(s)
	return id, err == nil && strings.ToLower(s) == id.String() && id != uuid.Nil
}

func parseNetns(s string) (string, bool) {
	if strings.HasPrefix(s, "/") {
		ok := len(s) > 1 && len(s) < 4096 && path.Clean(s) == s // PATH_MAX, with its final NUL
		return s, ok && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
	}
	return s, s != "" && len(s) <= 255 && s != "." && s != ".." && isPlainWord(s)
}

// parseSocketPath accepts what fits into sockaddr_un with its final NUL (unix(7)).
func parseSocketPath(s string) (string, bool) {
	name, ok := parseNetns(s)
	return name, ok && path.IsAbs(s) && len(s) <= 107
}

// parseMAC parses six pairs of hexadecimal digits. The lowest bit of the first octet marks a group address (IEEE 802),
// which no host may have.
func parseMAC(s string) (string, bool) {
	parts := strings.Split(s, ":")
	if len(parts) != 6 {
		return "", false
	}
	first, sum := uint64(0), uint64(0)
	for i, p := range parts {
		b, err := strconv.ParseUint(p, 16, 8)
		if err != nil || len(p) != 2 {
			return "", false
		}
		if i == 0 {
			first = b
		}
		sum += b
	}
	return strings.ToLower(s), first&1 == 0 && sum > 0
}

// parseURL accepts the address of a service: the path is optional; user, query and fragment are refused.
func parseURL(s string) (string, bool) {
	u, err := url.Parse(s)
	return s, err == nil && u.Scheme == "https" && u.Hostname() != "" && u.RawQuery == "" && !u.ForceQuery &&
		isPlainURL(u, s)
}
