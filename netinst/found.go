package netinst

import (
	"net/netip"
	"strconv"
	"strings"

	"edgespan/netinst/netstate"
)

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
	digits, is := strings.CutPrefix(name, strings.TrimSuffix(string(HostIfName(n, 0)), "0"))
	number, err := strconv.Atoi(digits)
	return k, number, mac, is && err == nil && number >= 1 && number <= maxAdapterNums
}

// reservation reads a file of dhcp-hosts.
func reservation(n int, path, content string) (k AdapterKey, mac string, ip netip.Addr, ok bool) {
	name, is := strings.CutPrefix(path, RunFolder(n)+"/conf/dhcp-hosts/")
	at := strings.LastIndexByte(name, '-')
	words := strings.Split(strings.TrimSpace(content), ",")
	if !is || len(words) < 3 {
		return k, "", ip, false
	}
	k, err := ParseAdapterKey(name[:max(at, 0)] + "#" + name[at+1:])
	ip, err2 := netip.ParseAddr(words[2])
	return k, words[0], ip, err == nil && err2 == nil
}
