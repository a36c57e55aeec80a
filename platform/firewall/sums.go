package firewall

import (
	"context"
	"strings"

	"edgespan/platform/nft"
)

// The chains of networks are compared by digests of their rules, which come from the kernel without a process
// (nft.Conn.Rules). Only what differs is listed by iptables: its text shows how. The chains of host's are listed as
// text, since their rules are exchanged one by one; so are those of the legacy backend.

// listSums returns the digests of a table's rules.
func (f *Firewall) listSums(_ context.Context, name string) (view, error) {
	rules, err := f.nft.Rules(name)
	if err != nil {
		return view{}, err
	}
	return summed(rules), nil
}

func summed(t table) view {
	v := t.view()
	v.summed = true
	return v
}

// viewOf lists a table for an owner.
func (f *Firewall) viewOf(ctx context.Context, number int, name string) (view, error) {
	if _, counted := f.generation(ctx); counted && number > 0 {
		return f.sums[name].Get(ctx)
	}
	return f.dumps[name].Get(ctx)
}

// viewOfChains lists some chains of a table for an owner; missing ones are left out.
func (f *Firewall) viewOfChains(ctx context.Context, number int, name string, chains []string) (view, error) {
	if _, counted := f.generation(ctx); !counted || number == 0 {
		return f.readView(ctx, name, chains)
	}
	rules, err := f.nft.Rules(name, chains...)
	return summed(rules), err
}

// compare returns chains of one table as a view shows them, without missing ones. If the view has only digests, a chain
// that differs from what was left, or that was left as text, as by a former release, is listed as text.
func (f *Firewall) compare(ctx context.Context, name string, t view, left []entry, h hooked) (seen []entry, err error) {
	var text view
	for _, e := range left {
		if !t.has(e) {
			continue
		}
		if same, ok := t.confirmed(e, h); ok {
			seen = append(seen, same)
			continue
		}
		if !t.summed {
			seen = append(seen, t.observed(e, h))
			continue
		}
		if text.table == nil {
			if text, err = f.dumps[name].Get(ctx); err != nil {
				return nil, err
			}
		}
		same, ok := text.confirmed(e, h)
		switch {
		case !text.has(e): // it has gone meanwhile
		case ok && !e.Unread:
			seen = append(seen, read(e.chain(), t.spelling(e.chain(), h)))
		case ok:
			seen = append(seen, same)
		default:
			seen = append(seen, text.observed(e, h))
		}
	}
	return seen, nil
}

// isSummed reports whether the kernel's form of a chain is made of digests.
func (e entry) isSummed() bool {
	first, _, _ := strings.Cut(e.Kernel, "\n")
	if _, jump, ok := strings.Cut(first, "> "); ok && !strings.HasPrefix(first, "-") {
		first = jump
	}
	return strings.HasPrefix(first, nft.SumMark)
}
