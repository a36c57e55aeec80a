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
	wordPrefix     Word = "IPv4 prefix"
	wordPrefixOrIP Word = "IPv4 prefix or address"
	wordRange      Word = "IPv4 range"
	wordProtocol   Word = "protocol"
	wordPorts      Word = "ports"
	wordURL        Word = "https URL"
)

// word is the implementation of a Word. parse returns false for an invalid string, with a hint for the message if the
// intention is recognisable.
type word struct {
	parse   func(s string) (v any, hint string, ok bool)
	allowed string
	plural  string // for lists
}

const maxIndex = 999

var words = map[Word]word{
	wordAny:     {parse: plain(func(s string) (string, bool) { return s, true }), allowed: "a string"},
	wordDisplay: {parse: plain(parseDisplay), allowed: "at most 64 printable characters"},
	wordLabel: {parse: plain(parseLabel),
		allowed: "1 to 64 letters, digits, '.', '_' and '-', but not uplink, freeuplink or all",
		plural:  "labels of 1 to 64 letters, digits, '.', '_' and '-', not uplink, freeuplink or all"},
	wordLabelRef: {parse: plain(parseName), allowed: "a port's label, a shared label, uplink, freeuplink or all"},
	wordNetPort:  {parse: plain(parseNetPort), allowed: `a port's label, a shared label, uplink, freeuplink, all or ""`},
	wordName:     {parse: plain(parseName), allowed: "1 to 64 letters, digits, '.', '_' and '-'"},
	wordIndex:    {parse: plain(parseIndex), allowed: fmt.Sprintf("an index of 0 to %d", maxIndex)},
	wordUUID:     {parse: plain(parseUUID), allowed: "a UUID of 8-4-4-4-12 hexadecimal digits, not all 0"},
	wordHostname: {parse: plain(noError(netinst.ParseHostname)),
		allowed: "a host name of at most 253 characters, in labels of 1 to 63 letters, digits and inner hyphens"},
	wordIfName: {parse: plain(noError(netinst.ParseIfName)),
		allowed: "an interface name of 1 to 15 letters, digits, '.', '_' and '-'"},
	wordNetns: {parse: plain(parseNetns),
		allowed: "a name of 1 to 255 letters, digits, '.', '_' and '-', or a clean absolute path"},
	wordMAC:    {parse: plain(parseMAC), allowed: "a unicast MAC address such as 02:00:00:00:00:01"},
	wordIP:     {parse: plain(parseIP), allowed: "an IP address", plural: "IP addresses"},
	wordServer: {parse: plain(parseServer), allowed: "a unicast IP address", plural: "unicast IP addresses"},
	wordIPv4:   {parse: plain(parseIPv4), allowed: "a unicast IPv4 address", plural: "unicast IPv4 addresses"},
	wordSubnet: {parse: parseSubnet,
		allowed: "an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local"},
	wordPrefix:     {parse: parsePrefix, allowed: "an IPv4 prefix such as 10.0.0.0/24"},
	wordPrefixOrIP: {parse: parsePrefixOrIP, allowed: "an IPv4 prefix such as 10.0.0.0/24, or an IPv4 address"},
	wordRange:      {parse: plain(parseRange), allowed: `"first-last", two IPv4 addresses in order`},
	wordProtocol:   {parse: plain(parseProtocol), allowed: "tcp, udp, icmp or a number of 0 to 255"},
	wordPorts: {parse: plain(parsePorts),
		allowed: `a port of 1 to 65535, a range such as "80-90" or a list such as "80,443" of at most 15, a range ` +
			`counting as two`},
	wordURL: {parse: plain(parseURL), allowed: `https://HOST:PORT, or ""`},
}

// plain wraps a parse function that has no hints.
func plain[T any](f func(string) (T, bool)) func(string) (any, string, bool) {
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
	return s, s != "" && len(s) <= 64 && s != "." && s != ".." && plainWord(s)
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

func plainWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	})
}

func parseIndex(s string) (string, bool) {
	n, ok := canonicalInt(s)
	return s, ok && n >= 0 && n <= maxIndex
}

// canonicalInt parses a decimal number in canonical spelling.
func canonicalInt(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
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
	return s, s != "" && len(s) <= 255 && s != "." && s != ".." && plainWord(s)
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
	ok := err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && !u.ForceQuery &&
		u.Fragment == "" && !strings.HasSuffix(s, "#")
	return s, ok && len(s) <= 255 && !strings.ContainsFunc(s,
		func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"<>\\^`{|}$", r) })
}
