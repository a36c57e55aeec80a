package firewall

import (
	"context"
	"fmt"
	"slices"

	"edgespan/netinst/netstate"
)

// write changes the tables from their current state to the desired one, chains of nftables first. It takes the current
// state from the store if the store is sure; otherwise, or if the store proves wrong, it reads the kernel. It knows the
// resulting state if networks were batched.
func (f *Firewall) write(ctx context.Context, number int, want, gone []netstate.Chain) (*after, error) {
	st := f.store(number)
	if number > 0 && st.isSure() { // other networks hook into host's chains at any time
		var seen *after
		var err error
		if len(gone) == 0 && !st.isSoleWriter() {
			seen, err = f.together(ctx, number, want)
		} else if err = f.applyNative(ctx, number, want, sharedFamilies...); err == nil {
			err = f.restore(ctx, restoreText(f.edits(number, want, gone)))
		}
		if err == nil {
			st.setSoleWriter(false)
			return seen, nil
		}
		st.markUncertain() // also after a killed restore: each of its tables commits separately
		st.setSoleWriter(true)
		if ctx.Err() != nil {
			return nil, err
		}
	}
	if err := f.applyNative(ctx, number, want, sharedFamilies...); err != nil {
		return nil, err
	}
	return nil, f.writeAlone(ctx, number, f.edits(number, want, gone))
}

// writeAlone reads the current state before it writes.
func (f *Firewall) writeAlone(ctx context.Context, number int, edits []*edit) error {
	st := f.store(number)
	for _, e := range edits {
		seen, err := f.readView(ctx, e.name, e.names())
		if err != nil {
			return err
		}
		e.seen = seen.table
	}
	err := f.restore(ctx, restoreText(edits))
	if err != nil {
		st.markUncertain()
		st.setSoleWriter(true)
		if chain := f.missingHost(ctx, number, edits); chain != "" {
			return fmt.Errorf("%s, which belongs to the host, does not exist yet: %w: %w", chain, netstate.ErrWaiting, err)
		}
		return err
	}
	st.setSoleWriter(false)
	return nil
}

// missingHost returns a missing chain of host's that a network's chains lead into or hang in, "" for none: others may
// have flushed the tables, or a former release created no such chain.
func (f *Firewall) missingHost(ctx context.Context, number int, edits []*edit) string {
	if number == 0 || ctx.Err() != nil {
		return ""
	}
	for _, e := range edits {
		names := e.hostChains()
		seen, err := f.readView(ctx, e.name, names)
		if err != nil {
			return ""
		}
		for _, name := range names {
			if _, stands := seen.table[name]; !stands {
				return name
			}
		}
	}
	return ""
}

// restoreText returns one iptables-restore input for all tables. Filter rules are added before translation rules and
// removed after them.
func restoreText(edits []*edit) string {
	if len(edits) > 0 && len(edits[0].want) == 0 {
		slices.Reverse(edits)
	}
	text := ""
	for _, e := range edits {
		text += e.restore()
	}
	return text
}
