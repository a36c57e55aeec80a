package nodeconf

import (
	"encoding/pem"
	"net/netip"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"edgespan/netinst"
)

// parseOwnPrefix parses the address of a tunnel with the length of its subnet.
func parseOwnPrefix(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4() {
		return parseOnLink(s)
	}
	_, ok := parseIPv6(p.Addr().String())
	return p, ok && p.Bits() >= 8
}

func parseWireGuardKey(s string) (string, bool) { return s, netinst.IsWireGuardKey(s) }

// parseHostOrIP parses a host name or a unicast address.
func parseHostOrIP(s string) (string, bool) {
	h, _, ok := parseTargetHost(s)
	return h, ok
}

// parseIdentity parses an IKE identity (RFC 7296 §3.5) in the spelling of swanctl.conf(5), or a user's name.
func parseIdentity(s string) (string, bool) {
	ok := s != "" && len(s) <= 255 && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r > '~' || strings.ContainsRune("\"'`{}\\;$", r)
	})
	return s, ok
}

// parseProposals parses a list of proposals: names of algorithms joined by hyphens.
func parseProposals(s string) (string, bool) {
	for _, p := range strings.Split(s, ",") {
		if p == "" || len(s) > 255 || strings.ContainsFunc(p, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return s, false
		}
	}
	return s, true
}

// parseSecretText parses a shared key or a password. It reaches no file and no command line as it is.
func parseSecretText(s string) (string, bool) {
	ok := s != "" && len(s) <= 255 && utf8.ValidString(s)
	return s, ok && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == '\u2028' })
}

// maxPEM bounds a PEM text in octets: a chain of certificates has some thousands.
const maxPEM = 64 << 10

// parsePEM parses PEM blocks alone, or the path of a file with them.
func parsePEM(s string) (string, bool) {
	if strings.HasPrefix(s, "/") {
		ok := len(s) > 1 && len(s) < 4096 && path.Clean(s) == s
		return s, ok && !strings.ContainsFunc(s, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune("\"'`$;", r)
		})
	}
	rest := []byte(s)
	for n := 0; ; n++ {
		if len(strings.TrimSpace(string(rest))) == 0 {
			return s, n > 0 && len(s) <= maxPEM
		}
		block, more := pem.Decode(rest)
		if block == nil || !strings.HasPrefix(strings.TrimSpace(string(rest)), "-----BEGIN ") {
			return s, false
		}
		rest = more
	}
}
