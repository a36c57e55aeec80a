package netinst

import (
	"fmt"
	"strings"
)

// Values that reach a config file, a rule or a command line have these types, which only their Parse functions create
// (docs/architecture.md, law 10).
type (
	// Hostname is a DNS name: labels of letters, digits and inner hyphens, joined by dots, at most 253 octets, lower case
	// (RFC 1123 §2.1).
	Hostname string
	// Label is a Hostname that is used as a domain.
	Label string
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
