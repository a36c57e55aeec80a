package netinst

import (
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// MayDeny says whether flows that were tracked before an op on a network's chains
// may be denied after it, so that they have to be judged. An adapter that comes
// counts: its address may be older than it is. Chains that only tell adapters apart
// deny nothing while no rule of theirs goes, nor does a network without adapters.
func MayDeny(op netstate.Op) bool {
	return op.Kind == netstate.KindChain && slices.ContainsFunc(op.Items, func(it netstate.Item) bool {
		want, _ := it.Want.(netstate.Chain)
		have, _ := it.Have.(netstate.Chain)
		name := it.ID().Name
		switch {
		case want.Family.Whole() || have.Family.Whole():
			return false
		case ofAdapter(name):
			return true
		case it.Have == nil:
			return false
		}
		return slices.ContainsFunc(have.Rules, func(r string) bool { return !slices.Contains(want.Rules, r) })
	})
}

// ofAdapter says whether a chain is one adapter's: its part begins with a number.
func ofAdapter(id string) bool {
	part := id[strings.LastIndexByte(id, '-')+1:]
	return strings.IndexAny(part, "0123456789") == 0
}
