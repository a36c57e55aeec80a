package firewall

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// Observe lists the chains of an owner. Unless full, it answers from what was
// left or seen last, without a command. Full, it looks: a chain that the kernel
// spells as it did when we left it is told as it was wanted, any other as it is.
func (f *Firewall) Observe(ctx context.Context, number int, full bool) (netstate.State, error) {
	st := f.store(number)
	if full {
		seen, err := f.observe(ctx, number, st.all())
		if err != nil {
			return nil, err
		}
		if err := st.change(func(m map[netstate.ID]entry) { clear(m); addAll(m, seen) }); err != nil {
			return nil, err
		}
	}
	s := netstate.State{}
	for _, e := range st.all() {
		s.Add(e.chain())
	}
	return s, nil
}

func addAll(m map[netstate.ID]entry, list []entry) {
	for _, e := range list {
		m[e.chain().ID()] = e
	}
}

func (f *Firewall) observe(ctx context.Context, number int, stored map[netstate.ID]entry) ([]entry, error) {
	var seen []entry
	for _, name := range tableOrder {
		t, err := f.dumps[name].Get(ctx)
		if err != nil {
			return nil, fmt.Errorf("list chains of %s: %w", name, withCommand(err))
		}
		byName := map[string]entry{}
		for _, e := range stored {
			if e.Family == netstate.IPv4 && e.Table == name {
				byName[e.Name] = e
			}
		}
		h := hookedIn(byName, nil)
		for _, chain := range sortedKeys(t) {
			if n, ours := owner(chain); !ours || n != number {
				continue
			}
			left, known := byName[chain]
			if kernel := t.spelling(left.chain(), h); known && kernel == left.Kernel {
				seen = append(seen, left)
				continue
			}
			c := t.observed(name, chain, h)
			seen = append(seen, remember(c, t.spelling(c, h)))
		}
	}
	if number == 0 {
		return seen, nil
	}
	tables, err := f.bridge.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list bridge tables: %w", withCommand(err))
	}
	name := fmt.Sprintf("es%d", number)
	if text, there := tables[name]; there {
		c := netstate.Chain{Family: netstate.BridgeFamily, Name: name, Rules: strings.Split(strings.TrimSpace(text), "\n")}
		e := remember(c, text)
		if left, known := stored[c.ID()]; known && left.Kernel == text {
			e = left
		}
		seen = append(seen, e)
	}
	return seen, nil
}

// Numbers lists the owners of which a chain or table exists, 0 for host's.
func (f *Firewall) Numbers(ctx context.Context) ([]int, error) {
	var list []int
	for _, name := range tableOrder {
		t, err := f.dumps[name].Get(ctx)
		if err != nil {
			return nil, fmt.Errorf("list chains of %s: %w", name, withCommand(err))
		}
		for chain := range t {
			if n, ours := owner(chain); ours {
				list = append(list, n)
			}
		}
	}
	tables, err := f.bridge.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list bridge tables: %w", withCommand(err))
	}
	for name := range tables {
		if n, ok := owner("ES" + strings.TrimPrefix(name, "es") + "-"); ok && strings.HasPrefix(name, "es") && n > 0 {
			list = append(list, n)
		}
	}
	return list, nil
}

// withCommand says which command failed, since a listing is part of no op that would.
func withCommand(err error) error {
	var e *proc.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %w", e.Command(), err)
	}
	return err
}
