package firewall

import (
	"context"
	"fmt"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
)

// counters are those of the rules of the legacy backend's filter table, by chain.
type counters map[string][]netstate.Counter

// Counters returns what the rules of each of these chains, of iptables' filter table or of family ip6, have counted
// since the chain was written, in order. A chain that does not exist is left out.
func (f *Firewall) Counters(ctx context.Context, chains []netstate.ID) (map[netstate.ID][]netstate.Counter, error) {
	names := map[nft.Table][]string{}
	ids := map[nft.Table]map[string]netstate.ID{}
	for _, id := range chains {
		family, rest, _ := strings.Cut(id.Name, "/")
		table, chain, _ := strings.Cut(rest, "/")
		t := nft.Table{Family: netstate.Family(family), Name: table}
		if ids[t] == nil {
			ids[t] = map[string]netstate.ID{}
		}
		names[t], ids[t][chain] = append(names[t], chain), id
	}
	_, netlink := f.generation(ctx)
	out := map[netstate.ID][]netstate.Counter{}
	for t, list := range names {
		var counts map[string][]netstate.Counter
		var err error
		if netlink || t.Family.Native() {
			counts, err = f.nft.Counters(ctx, t, list)
		} else {
			counts, err = f.counters.Get(ctx)
		}
		if err != nil {
			return nil, withCommand(err)
		}
		for chain, id := range ids[t] {
			if c, ok := counts[chain]; ok {
				out[id] = c
			}
		}
	}
	return out, nil
}

// legacyCounters reads all counters of the legacy backend's filter table. Concurrent callers share the result.
func (f *Firewall) legacyCounters(ctx context.Context) (counters, error) {
	out, err := f.run.Run(ctx, "", "iptables-save", "-c", "-t", "filter")
	return parseCounters(out), err
}

// parseCounters reads lines "[PACKETS:OCTETS] -A CHAIN …".
func parseCounters(saved string) counters {
	all := counters{}
	for line := range strings.Lines(saved) {
		var c netstate.Counter
		var chain string
		if n, _ := fmt.Sscanf(line, "[%d:%d] -A %s", &c.Packets, &c.Bytes, &chain); n != 3 {
			continue
		}
		all[chain] = append(all[chain], c)
	}
	return all
}
