package netstate

// withdrawn is the place, before all makes, of the i-th kind that goes with the addresses.
func withdrawn(i int) int { return i - len(leaving) }

// leaving are the kinds by which a network that is withdrawn is met by others, in the order
// in which they go.
var leaving = []Kind{KindRule, KindRoute, KindAddress, KindSysctl}

// withdraws says whether a network stays on the host and leaves its subnet: the subnet may be
// somebody's already, so no restore, no file and no process is waited for.
func withdraws(have, want State) bool {
	isAddress := func(o Object) bool { _, is := o.(Address); return is }
	return len(want) > 0 && anyObject(have, isAddress) && !anyObject(want, isAddress)
}

func anyObject(s State, is func(Object) bool) bool {
	for _, o := range s {
		if is(o) {
			return true
		}
	}
	return false
}

// closing is the place, among the makes, of a setting that is given up while others stay: before
// the chains, which may hold back what it lets pass until it is gone. ForwardAll closes every
// link, those too that are opened one by one in its stead: it goes just before they open.
func closing(id ID) int {
	if id.Name == ForwardAll {
		return phase(Sysctl{}) - 1
	}
	return phase(Chain{}) - 1
}
