package resolvconf

import (
	"fmt"
	"net/netip"
	"strings"
)

// maxServers bounds the servers of one file. A DHCP option holds 63 (RFC 2132 §3.8).
const maxServers = 16

// found is the content of a file.
type found struct {
	servers []netip.Addr
	skipped []string
}

// add parses one server in the spelling of a file.
func (f *found) add(word string) {
	a, why := parseServer(word)
	switch {
	case why != "":
		f.skip(why)
	case len(f.servers) >= maxServers:
		f.skip(fmt.Sprintf("more than %d servers", maxServers))
	default:
		f.servers = append(f.servers, a)
	}
}

// skip records why something was skipped, up to three reasons.
func (f *found) skip(why string) {
	if len(f.skipped) < 3 {
		f.skipped = append(f.skipped, why)
	}
}

// parseServer parses "ADDRESS", "[ADDRESS]:PORT" or "ADDRESS:PORT", each optionally followed by "%INTERFACE" and
// "#NAME" (systemd's in_addr_full). It accepts only port 53.
func parseServer(word string) (netip.Addr, string) {
	bare, _, _ := strings.Cut(word, "#")
	bare, _, _ = strings.Cut(bare, "%")
	if a, err := netip.ParseAddr(bare); err == nil {
		return a.Unmap(), ""
	}
	if ap, err := netip.ParseAddrPort(bare); err == nil {
		if ap.Port() != 53 {
			return netip.Addr{}, fmt.Sprintf("server %s: only port 53 can be asked", ap)
		}
		return ap.Addr().Unmap(), ""
	}
	if inner, ok := strings.CutPrefix(bare, "["); ok {
		if a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]")); err == nil {
			return a.Unmap(), ""
		}
	}
	return netip.Addr{}, fmt.Sprintf("not an IP address: %s", short(word))
}

// short quotes a word of a file, shortened for a status.
func short(word string) string {
	const limit = 40
	if len(word) > limit {
		word = word[:limit] + "…"
	}
	return fmt.Sprintf("%q", word)
}

// parseAssignments parses the words of the last "KEY=…" in a file of assignments, the format of systemd's state files.
func parseAssignments(text, key string) found {
	var value string
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && k == key {
			value = v
		}
	}
	var f found
	for _, word := range strings.Fields(strings.Trim(value, `"`)) {
		f.add(word)
	}
	return f
}

// parseResolvConf parses the lines "nameserver ADDRESS" of resolv.conf(5).
func parseResolvConf(text string) found {
	var f found
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) >= 2 && words[0] == "nameserver" {
			f.add(words[1])
		}
	}
	return f
}

// lease is a DHCP client's lease for one interface.
type lease struct {
	found
	link    string
	address netip.Addr
}

// parseLeases parses dhclient.leases(5) and returns the last lease of each interface, in the order of their first
// appearance. If the text begins within a lease, it skips that one.
func parseLeases(text string) []lease {
	var out []lease
	var now *lease
	for s := range statements(text) {
		words := strings.Fields(s)
		switch {
		case s == "}":
			if now != nil && now.link != "" {
				out = keep(out, *now)
			}
			now = nil
		case len(words) >= 2 && words[len(words)-2] == "lease" && words[len(words)-1] == "{": // after a truncated part
			now = &lease{}
		case now == nil || len(words) < 2:
		case words[0] == "interface":
			now.link = strings.Trim(words[1], `"`)
		case words[0] == "fixed-address":
			now.address, _ = netip.ParseAddr(words[1]) // invalid: the lease doesn't count
		case words[0] == "option" && words[1] == "domain-name-servers":
			for _, w := range strings.FieldsFunc(strings.Join(words[2:], ","), func(r rune) bool { return r == ',' }) {
				now.add(w)
			}
		}
	}
	return out
}

// maxLeases bounds the interfaces that one file may name.
const maxLeases = 64

func keep(all []lease, l lease) []lease {
	for i := range all {
		if all[i].link == l.link {
			all[i] = l
			return all
		}
	}
	if len(all) >= maxLeases {
		return all
	}
	return append(all, l)
}

// statements iterates over the parts of a text that end with ";", "{" or "}" outside of quotes. A part includes its
// final "{"; "}" is a part by itself.
func statements(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		begin, quoted := 0, false
		for i := 0; i < len(text); i++ {
			c := text[i]
			switch {
			case c == '\\' && quoted:
				i++
			case c == '\n': // a string never spans lines: a truncated one ends here
				quoted = false
			case c == '"':
				quoted = !quoted
			case quoted || c != ';' && c != '{' && c != '}':
			default:
				s := strings.TrimSpace(text[begin:i])
				if c == '{' {
					s += " {"
				}
				if s != "" && !yield(s) || c == '}' && !yield("}") {
					return
				}
				begin = i + 1
			}
		}
	}
}
