package firewall

import (
	"context"
	"fmt"
	"slices"

	"edgespan/netinst/netstate"
)

// write brings the tables from what stands to what is desired, those of bridges first. What stands is taken from
// the store where that is sure; else, and where it proves wrong, it is looked up. What
// stood afterwards is known where networks wrote together.
func (f *Firewall) write(ctx context.Context, number int, want, gone []netstate.Chain) (*after, error) {
	st := f.store(number)
	if number > 0 && st.isSure() { // into host's chains others hook theirs at any time
		var seen *after
		var err error
		if len(gone) == 0 && !st.isAlone() {
			seen, err = f.together(ctx, number, want)
		} else if err = f.applyWhole(number, want, netstate.BridgeFamily); err == nil {
			err = f.restore(ctx, restoreText(f.edits(number, want, gone)))
		}
		if err == nil {
			st.setAlone(false)
			return seen, nil
		}
		st.doubt() // also one that was killed: each table of it commits by itself
		st.setAlone(true)
		if ctx.Err() != nil {
			return nil, err
		}
	}
	if err := f.applyWhole(number, want, netstate.BridgeFamily); err != nil {
		return nil, err
	}
	return nil, f.writeAlone(ctx, number, f.edits(number, want, gone))
}

// writeAlone looks up what stands before it writes.
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
		st.doubt()
		st.setAlone(true)
		if chain := f.missingHost(ctx, number, edits); chain != "" {
			return fmt.Errorf("%s, which is host's, does not stand yet: %w: %w", chain, netstate.ErrWaiting, err)
		}
		return err
	}
	st.setAlone(false)
	return nil
}

// missingHost is a chain of host's that a network's chains lead into or hang in and that does
// not stand, "" for none: others may have flushed all, or a former release made no such chain.
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

// restoreText is one input of iptables-restore for all tables. Verdicts come to
// stand before anything is translated, and go after it.
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
