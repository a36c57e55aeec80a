package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"edgespan/netinst/netstate"

	"go.uber.org/zap"
)

// arpTable is the one table of family arp that is ours.
const arpTable = "table arp edgespan"

// arp is what a Host knows of its ARPGuard.
type arp struct {
	mu     sync.Mutex
	missed *netstate.ARPGuard // wanted, on a kernel whose nf_tables has no family arp
}

// arpText is the table of a guard in nft's language, as nft(8) lists it but for line breaks.
func arpText(g netstate.ARPGuard) string {
	links := make([]string, len(g.Links))
	for i, l := range g.Links {
		links[i] = fmt.Sprintf("%q", l)
	}
	return arpTable + " {\n" +
		"set gateways {\ntype ipv4_addr\nelements = { " + strings.Join(g.Addresses, ", ") + " }\n}\n" +
		"set links {\ntype ifname\nelements = { " + strings.Join(links, ", ") + " }\n}\n" +
		"chain input {\ntype filter hook input priority filter; policy accept;\niifname != @links arp daddr ip @gateways drop\n}\n" +
		"chain output {\ntype filter hook output priority filter; policy accept;\noifname != @links arp saddr ip @gateways drop\n}\n}\n"
}

func (h *Host) putARP(ctx context.Context, g netstate.ARPGuard) error {
	_, err := h.run.Run(ctx, "add "+arpTable+"\ndelete "+arpTable+"\n"+arpText(g), "nft", "-f", "-")
	h.arp.mu.Lock()
	defer h.arp.mu.Unlock()
	h.arp.missed = nil
	if err != nil && strings.Contains(err.Error(), "not supported") {
		h.log.Warn("neighbours of ports may be answered for gateways: nf_tables has no family arp", zap.Error(err))
		h.arp.missed, err = &g, nil
	}
	return err
}

func (h *Host) removeARP(ctx context.Context) error {
	h.arp.mu.Lock()
	h.arp.missed = nil
	h.arp.mu.Unlock()
	_, err := h.run.Run(ctx, "add "+arpTable+"\ndelete "+arpTable+"\n", "nft", "-f", "-")
	return err
}

// observeARP adds the guard as it is; one that others have changed is of no addresses.
func (h *Host) observeARP(ctx context.Context, s netstate.State) error {
	h.arp.mu.Lock()
	missed := h.arp.missed
	h.arp.mu.Unlock()
	if missed != nil {
		s.Add(*missed)
		return nil
	}
	tables, err := h.run.Run(ctx, "", "nft", "list", "tables", "arp")
	if err != nil || !slices.Contains(strings.Split(tables, "\n"), arpTable) {
		return nil //nolint:nilerr // without the family there is no table
	}
	out, err := h.run.Run(ctx, "", "nft", "list", "table", "arp", "edgespan")
	if err != nil {
		return fmt.Errorf("observe the ARP guard: %w", err)
	}
	g := netstate.ARPGuard{Addresses: elements(out, "gateways"), Links: elements(out, "links")}
	if !slices.Equal(words(out), words(arpText(g))) {
		g = netstate.ARPGuard{}
	}
	s.Add(g)
	return nil
}

// elements are those of a set in the listing of a table, sorted.
func elements(listing, set string) []string {
	_, rest, _ := strings.Cut(listing, "set "+set+" {")
	rest, _, _ = strings.Cut(rest, "chain ")
	_, rest, _ = strings.Cut(rest, "elements = {")
	rest, _, _ = strings.Cut(rest, "}")
	var out []string
	for _, w := range words(rest) {
		out = append(out, strings.Trim(w, `"`))
	}
	slices.Sort(out)
	return out
}

// words are those of a text, sorted: nft breaks lines and orders elements as it likes.
func words(text string) []string {
	all := strings.Fields(strings.ReplaceAll(text, ",", " "))
	slices.Sort(all)
	return all
}
