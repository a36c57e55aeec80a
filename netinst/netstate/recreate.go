package netstate

// recreations returns the names of the links that can't be changed in place.
func recreations(have, want State) map[string]bool {
	names := map[string]bool{}
	for id, w := range want {
		l, isLink := w.(Link)
		if old, found := have[id].(Link); isLink && found && l.Recreate(old, have[ID{KindPort, id.Name}] != nil) {
			names[id.Name] = true
		}
	}
	return names
}

// LeansOn reports whether an object is a route from an address of edgespan's link that changes: the platform removes
// the address and adds it again, and the kernel removes the route with it.
func LeansOn(o Object, have, want State) bool {
	r, isRoute := o.(Route)
	if !isRoute {
		return false
	}
	old, had := have[r.After].(Address)
	now, has := want[r.After].(Address)
	return had && has && !now.Foreign && !Same(old, now)
}

// isOn reports whether an object is the port, an address or a route of one of these links.
func isOn(o Object, links map[string]bool) bool {
	switch o := o.(type) {
	case Port:
		return links[o.Link]
	case Address:
		return links[o.Link]
	case Route:
		return links[o.Dev]
	}
	return false
}
