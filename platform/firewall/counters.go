package firewall

import (
	"context"
	"fmt"
	"strings"

	"edgespan/netinst/netstate"
)

// Dropped counts the packets that the rules of each of these filter chains have dropped since the chain was written; 0
// for a chain that does not exist.
func (f *Firewall) Dropped(ctx context.Context, chains []netstate.ID) (map[netstate.ID]uint64, error) {
	names := make([]string, len(chains))
	for i, id := range chains {
		names[i] = id.Name[strings.LastIndexByte(id.Name, '/')+1:]
	}
	var counts map[string]uint64
	var err error
	if _, netlink := f.generation(ctx); netlink {
		counts, err = f.nft.Dropped(tableOrder[0], names)
	} else {
		counts, err = f.counters.Get(ctx)
	}
	if err != nil {
		return nil, withCommand(err)
	}
	out := map[netstate.ID]uint64{}
	for i, id := range chains {
		out[id] = counts[names[i]]
	}
	return out, nil
}

// legacyCounters reads all counters of the legacy backend's filter table. Concurrent callers share the result.
func (f *Firewall) legacyCounters(ctx context.Context) (map[string]uint64, error) {
	out, err := f.run.Run(ctx, "", "iptables-save", "-c", "-t", "filter")
	return parseCounters(out), err
}

// parseCounters sums the packets of each chain's dropping rules: "[PACKETS:OCTETS] -A CHAIN … -j DROP".
func parseCounters(saved string) map[string]uint64 {
	counts := map[string]uint64{}
	for line := range strings.Lines(saved) {
		var packets, octets uint64
		var chain string
		if n, _ := fmt.Sscanf(line, "[%d:%d] -A %s", &packets, &octets, &chain); n == 3 &&
			strings.HasSuffix(strings.TrimSpace(line), "-j DROP") {
			counts[chain] += packets
		}
	}
	return counts
}
