package netinst

import (
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// MayDeny reports whether flows tracked before an op on a network's chains may be denied after it, so that they must be
// validated. A new adapter counts: its address may be older than it is. Chains that only distinguish adapters deny
// nothing while none of their rules is removed, nor does a network without adapters.
func MayDeny(op netstate.Op) bool {
	return op.Kind == netstate.KindChain && slices.ContainsFunc(op.Items, func(it netstate.Item) bool {
		want, _ := it.Want.(netstate.Chain)
		have, _ := it.Have.(netstate.Chain)
		name := it.ID().Name
		switch {
		case want.Family.IsTable() || have.Family.IsTable():
			return false
		case ofAdapter(name):
			return true
		case it.Have == nil:
			return false
		}
		return slices.ContainsFunc(have.Rules, func(r string) bool { return !slices.Contains(want.Rules, r) })
	})
}

// ofAdapter reports whether a chain belongs to one adapter: its part begins with a number.
func ofAdapter(id string) bool {
	part := id[strings.LastIndexByte(id, '-')+1:]
	return strings.IndexAny(part, "0123456789") == 0
}
