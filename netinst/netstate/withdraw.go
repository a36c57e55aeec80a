package netstate

// withdrawn is the place, before all makes, of the i-th kind that goes with the addresses.
func withdrawn(i int) int { return i - len(leaving) }

// leaving are the kinds by which a network that is withdrawn is met by others, in the order
// in which they go.
var leaving = []Kind{KindRule, KindRoute, KindAddress}

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
