package firewall

import (
	"context"
	"slices"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"
	"edgespan/platform/nft"
)

// remover removes the chains of networks. Each removing transaction waits in the kernel, so removals that arrive during
// one are batched into the next.
type remover struct{ turn *dump.Batch[*removal] }

type removal struct {
	nft.Removal
	ctx context.Context // ends once no caller waits for it
	err error
}

func newRemover(commit func(nft.Removal) error) *remover {
	return &remover{dump.NewBatch(func(list []*removal) {
		// An abandoned removal has failed; its chains may be desired again by now.
		list = slices.DeleteFunc(list, func(x *removal) bool { return x.ctx.Err() != nil })
		all := nft.Removal{}
		for _, x := range list {
			all.Add(x.Removal)
		}
		if commit(all) != nil { // each alone: one must not make another fail
			for _, x := range list {
				if x.err = x.ctx.Err(); x.err == nil {
					x.err = commit(x.Removal)
				}
			}
		}
	})}
}

func (r *remover) remove(ctx context.Context, what nft.Removal) error {
	x := &removal{Removal: what, ctx: ctx}
	if err := r.turn.Do(ctx, x); err != nil {
		return err
	}
	return x.err
}

// removalOf returns the removal of a network's chains and of every observed or written jump into them.
func (f *Firewall) removalOf(number int, gone []netstate.Chain) nft.Removal {
	r := nft.Removal{Chains: map[string][]string{}, Parents: map[string][]string{}, Updates: f.updates(number, nil, gone)}
	stored := f.store(number).all()
	for _, c := range gone {
		if c.IsTable() {
			r.Tables = append(r.Tables, tableOfChain(c))
		}
		if c.Family.Native() {
			continue
		}
		r.Chains[c.Table] = append(r.Chains[c.Table], c.Name)
		for _, h := range c.Hooks {
			r.Parents[c.Table] = append(r.Parents[c.Table], h.Parent)
		}
		for _, j := range stored[c.ID()].jumps() {
			r.Parents[c.Table] = append(r.Parents[c.Table], j.parent)
		}
	}
	return r
}
