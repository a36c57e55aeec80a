package netinst

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// AddressSet is a named set of prefixes of a network (networkInstances.<uuid>.sets). Rules have its content and not
// only its name: an adapter's rules and the sets that they name change together.
type AddressSet struct {
	Name    string
	Entries []netip.Prefix // sorted, masked, each once; of both families
	Digest  string         // of Entries
}

// NewAddressSet returns a set of masked prefixes; it sorts them.
func NewAddressSet(name string, entries []netip.Prefix) *AddressSet {
	slices.SortFunc(entries, comparePrefixes)
	texts := make([]string, len(entries))
	for i, p := range entries {
		texts[i] = p.String()
	}
	return &AddressSet{Name: name, Entries: entries, Digest: digest(texts...)}
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits())
}

// Contains reports whether an entry contains an address, by looking each of its prefixes up.
func (s AddressSet) Contains(a netip.Addr) bool {
	for bits := range a.BitLen() + 1 {
		p, _ := a.Prefix(bits)
		if _, found := slices.BinarySearchFunc(s.Entries, p, comparePrefixes); found {
			return true
		}
	}
	return false
}

// kernelSet returns the set of network n that has a set's entries of one family. Its name follows from its content, so
// a changed one is another set, which exists before the first rule that names it: the rules that name the former one
// never meet a set that is incomplete or has other entries.
func (s AddressSet) kernelSet(n int, six bool) netstate.Set {
	set := netstate.Set{Name: s.kernelName(n, six), IPv6: six}
	for _, p := range s.Entries {
		if p.Addr().Is6() == six {
			set.Entries = append(set.Entries, p)
		}
	}
	return set
}

func (s AddressSet) kernelName(n int, six bool) string {
	return fmt.Sprintf("%s%d-%s%s", linkPrefix, n, ofFamily(six), s.Digest)
}

// ofFamily is the part of a set's name that tells the families apart: a digest has no "v".
func ofFamily(six bool) string {
	if six {
		return "v6"
	}
	return ""
}

// families returns those of the network's packets: whether it is IPv6, for each.
func (nw network) families() []bool {
	if nw.hasIPv6() || nw.Config.BridgesIPv6() {
		return []bool{false, true}
	}
	return []bool{false}
}

// sets returns the sets that the rules of the network's adapters name.
func (nw network) sets() []netstate.Object {
	objs := nw.hostSets()
	found := map[string]bool{}
	add := func(s *AddressSet) {
		if s != nil && !found[s.Digest] {
			found[s.Digest] = true
			for _, six := range nw.families() {
				objs = append(objs, s.kernelSet(nw.n, six))
			}
		}
	}
	for _, a := range nw.Adapters {
		for _, r := range a.Config.Spec.ACL {
			add(r.Set)
		}
	}
	for _, h := range nw.hosts() {
		add(nw.own[h])
	}
	return objs
}

// setMatches returns what a rule's sets match, as words of iptables or, of IPv6, of nft, one for each of their rules; a
// single "" if it names none, and nothing if it names a host where no DNS server fills its set.
func (nw network) setMatches(r ACLRule, d Direction, six bool) []string {
	verb, end := "-m set --match-set ", " dst"
	if six {
		verb = "match-set "
	}
	if d == Ingress {
		end = " src"
	}
	match := func(name string) string { return verb + name + end }
	of := ""
	if r.Set != nil {
		of = match(r.Set.kernelName(nw.n, six))
	}
	switch {
	case r.Host == "":
		return []string{of}
	case nw.isSwitch():
		return nil
	}
	list := []string{strings.TrimSpace(of + " " + match(hostSetName(nw.n, r.Host, six)))}
	if own := nw.own[r.Host]; own != nil {
		list = append(list, strings.TrimSpace(of+" "+match(own.kernelName(nw.n, six))))
	}
	return list
}

// A rule with a host matches the addresses that the network's DNS server gave for that name and the names below it:
// dnsmasq adds each address of an answer to the host's set before it sends the answer on (option ipset). It does so for
// the answers of other servers alone, so:
//
//   - it keeps no cache of them (cache-size): an answer from it would fill no set, and may join the names of two others
//     (a CNAME of one name, the address of another app's question for its target);
//   - it bounds their TTL, so that no app uses an address longer than its entry lasts;
//   - names that it answers itself have a set of their own, an AddressSet.
//
// The name of a host's set follows from the host alone. It keeps its entries while rules, names and processes change.

const (
	// hostTTL is the maximum of a TTL that apps get, and hostTimeout how long an address stays in a set after the last
	// answer with it, in seconds: half an hour longer than any app may use it.
	hostTTL     = 1800
	hostTimeout = 3600
	// maxHostAddresses bounds a set, of some 40 octets for each address: an app may ask for all names below a host.
	maxHostAddresses = 16384
)

func (nw network) hostSet(h Hostname, six bool) netstate.Set {
	return netstate.Set{Name: hostSetName(nw.n, h, six), IPv6: six, Timeout: hostTimeout, Max: maxHostAddresses}
}

func hostSetName(n int, h Hostname, six bool) string {
	return fmt.Sprintf("%s%d-%sh%s", linkPrefix, n, ofFamily(six), digest(string(h)))
}

// covers reports whether a name is a host or below it.
func (h Hostname) covers(name string) bool {
	return string(h) == name || strings.HasSuffix(name, "."+string(h))
}

// hosts returns the hosts that rules of the network's adapters name, sorted.
func (nw network) hosts() []Hostname {
	found := map[Hostname]bool{}
	for _, a := range nw.Adapters {
		for _, r := range a.Config.Spec.ACL {
			if r.Host != "" {
				found[r.Host] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// hostSets returns the sets of the hosts that rules name.
func (nw network) hostSets() []netstate.Object {
	var objs []netstate.Object
	if nw.isSwitch() {
		return nil
	}
	for _, h := range nw.hosts() {
		for _, six := range nw.families() {
			objs = append(objs, nw.hostSet(h, six))
		}
	}
	return objs
}

// ownAddresses returns the addresses of hosts for which the network's DNS server asks no other, by those that have any.
// The gateway's name is left out: the node's own addresses need a rule that names them.
func (nw network) ownAddresses() map[Hostname]*AddressSet {
	hosts := nw.hosts()
	if len(hosts) == 0 {
		return nil
	}
	names, own := nw.names(), map[Hostname]*AddressSet{}
	for _, h := range hosts {
		var entries []netip.Prefix
		for name, addrs := range names {
			if !h.covers(name) && !h.covers(name+"."+nw.domain()) {
				continue
			}
			for _, a := range addrs {
				if a != nw.Config.IPv4.Gateway && a != nw.Config.IPv6.Gateway {
					entries = append(entries, netip.PrefixFrom(a, a.BitLen()))
				}
			}
		}
		if slices.SortFunc(entries, comparePrefixes); len(entries) > 0 {
			own[h] = NewAddressSet("", slices.Compact(entries))
		}
	}
	return own
}

// ipsetOptions returns dnsmasq's options for hosts. It applies only the most specific name that matches a question, so
// each has the sets of those above it too. The kernel refuses an address for a set of the other family.
func (nw network) ipsetOptions() []string {
	hosts := nw.hosts()
	if len(hosts) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("max-ttl=%d", hostTTL)}
	for _, h := range hosts {
		var sets []string
		for _, above := range hosts {
			if above.covers(string(h)) {
				for _, six := range nw.families() {
					sets = append(sets, hostSetName(nw.n, above, six))
				}
			}
		}
		lines = append(lines, "ipset=/"+string(h)+"/"+strings.Join(sets, ","))
	}
	return lines
}

// cacheSize is the number of names that dnsmasq keeps of other servers' answers.
func (nw network) cacheSize() string {
	if len(nw.hosts()) > 0 {
		return "0"
	}
	return "1000"
}

// HostAddresses are the addresses of hosts, as far as they are known.
type HostAddresses func(Hostname) (addrs []netip.Addr, known bool)

// hostAddresses reads the sets of hosts from the observed state. Of an adapter whose rules did not change nothing is
// known: its flows to addresses that have expired since go on.
func (nw network) hostAddresses(a Adapter) HostAddresses {
	if !slices.ContainsFunc([]string{"E", "I", "N", "M"}, func(part string) bool {
		return nw.Changed[chainID(tableFilter, nw.adapterChain(a, part))] ||
			nw.Changed[nw.six(fmt.Sprint(a.Lease.Number)+part, nil).ID()]
	}) {
		return nil
	}
	return func(h Hostname) ([]netip.Addr, bool) {
		addrs := nw.own[h].addrs()
		for _, six := range nw.families() {
			set, _ := nw.Observed[nw.hostSet(h, six).ID()].(netstate.Set)
			addrs = append(addrs, set.Members...)
		}
		return addrs, true
	}
}

func (s *AddressSet) addrs() []netip.Addr {
	var list []netip.Addr
	if s != nil {
		for _, p := range s.Entries {
			list = append(list, p.Addr())
		}
	}
	return list
}

// matchesHost reports whether a rule's host may have an address. If nothing is known of the host, a rule that allows
// matches and one that drops does not: the flow stays.
func (r ACLRule) matchesHost(p packet) bool {
	if r.Host == "" {
		return true
	}
	if p.hosts != nil {
		if addrs, known := p.hosts(r.Host); known {
			return slices.Contains(addrs, p.remote.Addr())
		}
	}
	return r.Action != Drop
}
