package firewall

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// Observe lists the chains of an owner. Unless full is set, or a write failed since the last full observation, it
// answers from the last known state and reads only the chains written since. With full, it reads all chains. A chain
// whose kernel spelling is unchanged since edgespan wrote it is reported as desired, any other as observed.
func (f *Firewall) Observe(ctx context.Context, number int, full bool) (netstate.State, error) {
	st := f.store(number)
	left, version := st.at()
	l := observation{version: version}
	if full || !st.isSure() {
		gen, counted := f.generation(ctx)
		l.full, l.gen = !counted || !st.unchangedAt(gen), gen
	}
	if !l.full {
		if s, all := st.shown(); all {
			return s, nil
		}
	}
	var err error
	if l.full {
		l.seen, err = f.observe(ctx, number, left)
	} else {
		l.seen, err = f.readBack(ctx, number, left)
	}
	if err != nil {
		return nil, err
	}
	if err := st.saw(l); err != nil {
		return nil, err
	}
	if l.full && number > 0 && len(l.seen) == 0 {
		f.writes.expect(number)
	}
	s := netstate.State{}
	for _, e := range l.seen {
		s.Add(e.chain())
	}
	return s, nil
}

// readBack completes left with the kernel's spelling of the chains written since the last observation.
func (f *Firewall) readBack(ctx context.Context, number int, left map[netstate.ID]entry) ([]entry, error) {
	var seen []entry
	unread := map[string][]entry{} // by table, nativeTables for those of nftables
	for _, e := range left {
		table := e.Table
		if e.Family.Native() {
			table = nativeTables
		}
		if e.Unread {
			unread[table] = append(unread[table], e)
		} else {
			seen = append(seen, e)
		}
	}
	for _, name := range tableOrder {
		var names []string
		for _, e := range unread[name] {
			names = append(names, e.Name)
			for _, h := range e.Hooks {
				names = append(names, h.Parent)
			}
		}
		if len(names) == 0 {
			continue
		}
		t, err := f.viewOfChains(ctx, number, name, unique(names))
		if err != nil {
			return nil, fmt.Errorf("read back chains: %w", err)
		}
		found, err := f.compare(ctx, name, t, unread[name], hooksOf(inTable(left, name), nil))
		if err != nil {
			return nil, fmt.Errorf("read back chains: %w", err)
		}
		seen = append(seen, found...)
	}
	native, err := f.readNative(ctx, unread[nativeTables])
	return append(seen, native...), err
}

// nativeTables is no name of a table of iptables.
const nativeTables = ""

// inTable returns the entries of one iptables table by chain.
func inTable(all map[netstate.ID]entry, name string) map[string]entry {
	byName := map[string]entry{}
	for _, e := range all {
		if e.Family == netstate.IPv4 && e.Table == name {
			byName[e.Name] = e
		}
	}
	return byName
}

func (f *Firewall) observe(ctx context.Context, number int, stored map[netstate.ID]entry) ([]entry, error) {
	var seen []entry
	for _, name := range tableOrder {
		t, err := f.viewOf(ctx, number, name)
		if err != nil {
			return nil, fmt.Errorf("list chains of %s: %w", name, withCommand(err))
		}
		byName := inTable(stored, name)
		var known []entry
		for _, chain := range t.owned[number] {
			left, written := byName[chain]
			if !written {
				left = entry{Family: netstate.IPv4, Table: name, Name: chain}
			}
			known = append(known, left)
		}
		found, err := f.compare(ctx, name, t, known, hooksOf(byName, nil))
		if err != nil {
			return nil, fmt.Errorf("list chains of %s: %w", name, withCommand(err))
		}
		seen = append(seen, found...)
	}
	native, err := f.observeNative(ctx, number, stored)
	return append(seen, native...), err
}

// Former are the owners that have objects as former releases made them.
type Former struct {
	Unmarked  map[int]bool // its chains accept by themselves, without a jump to host's marking chain
	OldFrames map[int]bool // it has a table of family bridge
}

// Numbers lists the owners that have a chain or table (0 for host).
func (f *Firewall) Numbers(ctx context.Context) (list []int, former Former, err error) {
	unmarked := map[int]bool{}
	marks := map[int]bool{}
	for _, name := range tableOrder {
		t, err := f.dumps[name].Get(ctx)
		if err != nil {
			return nil, former, fmt.Errorf("list chains of %s: %w", name, withCommand(err))
		}
		for chain, rules := range t.table {
			n, own := owner(chain)
			if !own {
				continue
			}
			list = append(list, n)
			for _, r := range rules {
				to := target(r)
				marks[n] = marks[n] || to == passName
				unmarked[n] = unmarked[n] || n > 0 && name == "filter" && to == "ACCEPT"
			}
		}
	}
	native, err := f.native.Get(ctx)
	if err != nil {
		return nil, former, fmt.Errorf("list tables of nftables: %w", withCommand(err))
	}
	maps.DeleteFunc(unmarked, func(n int, accepts bool) bool { return !accepts || marks[n] })
	return append(list, native.owners()...), Former{unmarked, native.oldFrames()}, nil
}

// withCommand adds the failed command to the error, because a listing belongs to no op that would name it.
func withCommand(err error) error {
	var e *proc.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %w", e.Command(), err)
	}
	return err
}
