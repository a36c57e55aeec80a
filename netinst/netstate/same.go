package netstate

import "slices"

// Same reports whether two objects with the same ID are equal; nil is an absent object. It formats only objects whose
// fields differ: most observations find what is desired.
func Same(a, b Object) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return sameFields(a, b) || a.Text() == b.Text()
}

// sameFields reports whether all that Text shows of two objects is equal. It does not try for all kinds.
func sameFields(a, b Object) bool {
	switch a := a.(type) {
	case Chain:
		b, ok := b.(Chain)
		return ok && a.Family.Native() == b.Family.Native() && slices.Equal(a.Rules, b.Rules) &&
			slices.Equal(a.Hooks, b.Hooks)
	case Link:
		b, ok := b.(Link)
		return ok && a.Type == b.Type && a.MAC == b.MAC && a.MTU == b.MTU && a.Alias == b.Alias && a.Replaced == b.Replaced &&
			a.Vxlan == nil && b.Vxlan == nil && a.Tag == b.Tag && len(a.Attrs)+len(b.Attrs) == 0
	}
	return false
}
