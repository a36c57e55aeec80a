package firewall

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
)

// native are edgespan's nftables tables, with indexes of the shared ones.
type native struct {
	tables map[nft.Table]nft.Content
	owned  map[nft.Table]map[int][]string         // chains by owner number, sorted
	into   map[nft.Table]map[string][]nft.Element // elements by the chain to which they lead
}

func (f *Firewall) listNative(context.Context) (native, error) {
	tables, err := f.nft.Tables(isOwn)
	if err != nil {
		return native{}, err
	}
	n := native{tables, map[nft.Table]map[int][]string{}, map[nft.Table]map[string][]nft.Element{}}
	for t, content := range tables {
		if isShared(t) {
			n.index(t, content)
		}
	}
	return n, nil
}

func (n *native) index(t nft.Table, content nft.Content) {
	n.owned[t], n.into[t] = map[int][]string{}, map[string][]nft.Element{}
	for _, chain := range slices.Sorted(maps.Keys(content.Chains)) {
		if number, own := owner(chain); own && number > 0 {
			n.owned[t][number] = append(n.owned[t][number], chain)
		}
	}
	for _, e := range content.Elements {
		n.into[t][e.Chain()] = append(n.into[t][e.Chain()], e)
	}
}

// owners lists the owners of the tables and chains.
func (n native) owners() []int {
	var list []int
	for t := range n.tables {
		if number, own := tableOwner(t); own {
			list = append(list, number)
		}
		list = slices.AppendSeq(list, maps.Keys(n.owned[t]))
	}
	return list
}

// oldFrames returns the networks that have a table of family bridge.
func (n native) oldFrames() map[int]bool {
	old := map[int]bool{}
	for t := range n.tables {
		if number, own := tableOwner(t); own && number > 0 {
			old[number] = true
		}
	}
	return old
}

// text returns a table, or host's part of a shared one, as the kernel shows it; "" for none.
func (n native) text(t nft.Table) string {
	content, stands := n.tables[t]
	switch {
	case !stands:
		return ""
	case isShared(t):
		return content.Without(ofNetwork).Text()
	}
	return content.Text()
}

// found returns a table or chain as the kernel shows it: as written, if it is unchanged since, or if it was just
// written and every rule and hook is there; otherwise as observed. It returns false if there is none.
func (n native) found(left entry) (entry, bool) {
	c := left.chain()
	if !c.IsTable() {
		content := n.tables[tableOfChain(c)]
		return foundChain(left, content.Chains[c.Name], n.into[tableOfChain(c)][c.Name])
	}
	text := n.text(tableOfChain(c))
	switch {
	case text == "":
		return entry{}, false
	case left.Unread && !lacksElement(c.Rules, n.tables[tableOfChain(c)]):
		return read(c, text), true
	case left.Kernel != text || lacksElement(c.Rules, n.tables[tableOfChain(c)]):
		c.Rules = strings.Split(strings.TrimSpace(text), "\n")
		return read(c, text), true
	}
	return left, true
}

// lacksElement reports whether a map that is written with its elements lacks one: what the kernel shows is no spelling
// of such a table, even if it was just written (former releases deleted them with each second write).
func lacksElement(lines []string, content nft.Content) bool {
	name := ""
	for _, line := range lines {
		switch list, of := strings.CutPrefix(line, "elements = { "); {
		case strings.HasPrefix(line, "map "):
			name = strings.TrimSuffix(strings.TrimPrefix(line, "map "), " {")
		case line == "}":
			name = ""
		case of && name != "":
			for e := range strings.SplitSeq(strings.TrimSuffix(list, " }"), ", ") {
				key, value, _ := strings.Cut(e, " : ")
				if !slices.Contains(content.Elements, nft.Element{Map: name, Key: key, Value: value}) {
					return true
				}
			}
		}
	}
	return false
}

// foundChain is found for a chain of a shared table.
func foundChain(left entry, rules string, into []nft.Element) (entry, bool) {
	if rules == "" {
		return entry{}, false
	}
	c := left.chain()
	kernel := rules
	var hooks []netstate.Hook
	for _, e := range into {
		h := netstate.Hook{Parent: e.Map, Match: e.Key}
		if e.Value != "jump "+c.Name {
			h.Match += otherwise + e.Value
		}
		hooks = append(hooks, h)
		kernel += "\n" + e.Map + "> " + h.Match
	}
	switch {
	case left.Unread && strings.Contains(rules, fmt.Sprintf(", %d rules,", len(c.Rules))) && sameHooks(hooks, c.Hooks),
		!left.Unread && left.Kernel == kernel:
		return read(c, kernel), true
	}
	c.Rules, c.Hooks = []string{strings.TrimPrefix(rules, ", ")}, hooks
	return read(c, kernel), true
}

// sameHooks compares elements of maps, whose order means nothing.
func sameHooks(a, b []netstate.Hook) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(h netstate.Hook) bool { return !slices.Contains(b, h) })
}

// nativeView returns the tables, with the one that the kernel can't have.
func (f *Firewall) nativeView(ctx context.Context) (native, error) {
	n, err := f.native.Get(ctx)
	if err != nil {
		return n, fmt.Errorf("list tables of nftables: %w", withCommand(err))
	}
	if arp := (nft.Table{Family: netstate.ARPFamily, Name: guardName}); f.noARP.Load() {
		n.tables = maps.Clone(n.tables)
		n.tables[arp] = nft.Content{Sets: map[string]string{"none": "not supported"}}
	}
	return n, nil
}

// observeNative lists an owner's tables, and its chains in shared ones.
func (f *Firewall) observeNative(ctx context.Context, number int, stored map[netstate.ID]entry) ([]entry, error) {
	n, err := f.nativeView(ctx)
	if err != nil {
		return nil, err
	}
	var all []netstate.Chain
	for _, t := range tables(number) {
		all = append(all, netstate.Chain{Family: t.Family, Name: t.Name})
	}
	for _, t := range shared {
		for _, name := range n.owned[t][number] {
			all = append(all, netstate.Chain{Family: t.Family, Table: t.Name, Name: name})
		}
	}
	var seen []entry
	for _, c := range all {
		left, known := stored[c.ID()]
		if !known {
			left = read(c, "")
		}
		if e, there := n.found(left); there {
			seen = append(seen, e)
		}
	}
	return seen, nil
}

// readNative reads tables and chains that were just written: chains of shared tables by themselves, as such a table may
// have many.
func (f *Firewall) readNative(ctx context.Context, unread []entry) ([]entry, error) {
	var seen []entry
	chains := map[nft.Table][]entry{}
	for _, e := range unread {
		t := tableOfChain(e.chain())
		if !e.chain().IsTable() {
			chains[t] = append(chains[t], e)
			continue
		}
		n, err := f.nativeView(ctx)
		if err != nil {
			return nil, fmt.Errorf("read back chains: %w", err)
		}
		if e, there := n.found(e); there {
			seen = append(seen, e)
		}
	}
	for t, list := range chains {
		var names []string
		var keys []nft.Element
		for _, e := range list {
			names, keys = append(names, e.Name), append(keys, e.elements()...)
		}
		content, err := f.nft.Read(t, names, keys)
		if err != nil {
			return nil, fmt.Errorf("read back chains: %w", err)
		}
		for _, e := range list {
			if e, there := foundChain(e, content.Chains[e.Name], content.Into(e.Name)); there {
				seen = append(seen, e)
			}
		}
	}
	return seen, nil
}
