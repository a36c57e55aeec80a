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

// sameFields reports whether all that Text shows of two objects is equal. It does not try for all kinds, nor for all
// that Text shows alike.
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
	case Port:
		b, ok := b.(Port)
		return ok && a.Master == b.Master && a.Foreign == b.Foreign && a.Down == b.Down && a.Isolated == b.Isolated &&
			a.Guarded == b.Guarded && a.Cut == b.Cut && a.Station == b.Station && slices.Equal(a.VLANs, b.VLANs)
	case File:
		b, ok := b.(File)
		return ok && a.Dir == b.Dir && a.Content == b.Content
	case Address:
		b, ok := b.(Address)
		return ok && a.Foreign == b.Foreign && a.Label == b.Label && a.Ends.Equal(b.Ends)
	case Route:
		b, ok := b.(Route)
		return ok && a.Type == b.Type && a.Via == b.Via && a.Dev == b.Dev && a.OnLink == b.OnLink && a.Src == b.Src
	case Rule:
		b, ok := b.(Rule)
		a.After, b.After = ID{}, ID{}
		return ok && a == b
	case Process:
		b, ok := b.(Process)
		return ok && a.Digest == b.Digest && a.Reload == b.Reload && a.Limits == b.Limits
	}
	return false
}
