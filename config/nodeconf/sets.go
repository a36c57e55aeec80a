package nodeconf

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// maxSetEntries bounds the prefixes of all sets of a network: the kernel needs some 60 octets for each.
const maxSetEntries = 16384

// readSets reads a network's named sets, which the rules of its adapters share.
func (c *checker) readSets(ni uuid.UUID, all *object) {
	named, n := map[string]*netinst.AddressSet{}, 0
	for _, name := range all.keys() {
		o := all.objectOrEmpty(name)
		keys := o.sorted(func(slot) bool { return true })
		entries := make([]netip.Prefix, 0, len(keys))
		for _, key := range keys { // the walk has validated them, and spells them as prefixes
			if p, err := netip.ParsePrefix(key); err == nil {
				entries = append(entries, p)
			}
		}
		named[name] = netinst.NewAddressSet(name, entries)
		n += len(keys)
	}
	if n > maxSetEntries {
		c.addFault(all.path, config.TooMany("prefixes", n),
			fmt.Sprintf("must be at most %d in all sets together", maxSetEntries))
	}
	c.sets[ni] = named
}

// setOf returns the set that a rule of an adapter names, nil for none. Without the network's config it is empty: the
// app waits for the network.
func (c *checker) setOf(match *object, ni uuid.UUID) *netinst.AddressSet {
	name := value[string](match, "set")
	if name == "" {
		return nil
	}
	named, known := c.sets[ni]
	if s := named[name]; s != nil {
		return s
	}
	if known {
		c.addFault(match.pathOf("set"), config.Invalid(name)+", not a set of the network",
			oneOfOrNone(slices.Sorted(maps.Keys(named))))
	}
	return netinst.NewAddressSet(name, nil)
}

func oneOfOrNone(names []string) string {
	if len(names) == 0 {
		return "must be in networkInstances.<uuid>.sets, which is empty"
	}
	return config.OneOf(names)
}

// maxHosts bounds the names in rules of a network's adapters: each is a set in the kernel, of at most 0.7 MB.
const maxHosts = 64

// hostOf returns the host that a rule of an adapter names, "" for none.
func (c *checker) hostOf(match *object, ni uuid.UUID) netinst.Hostname {
	h := value[netinst.Hostname](match, "host")
	if h == "" {
		return ""
	}
	if c.cfg.Networks[ni].Type == netinst.Switch {
		c.addFault(match.pathOf("host"), config.Invalid(string(h))+" on a switch network",
			"only a local network has a DNS server, which knows the addresses of a name")
		return h
	}
	known := c.hosts[ni]
	if known == nil {
		known = map[netinst.Hostname]bool{}
		c.hosts[ni] = known
	}
	if !known[h] && len(known) == maxHosts {
		c.addFault(match.pathOf("host"), config.Invalid(string(h))+fmt.Sprintf(", the network's host number %d", maxHosts+1),
			fmt.Sprintf("must be one of at most %d different hosts in the rules of a network", maxHosts))
		return h
	}
	known[h] = true
	return h
}
