package netstate

// withdrawalOrder is the place, before everything else, of the i-th kind that is removed with the addresses.
func withdrawalOrder(i int) int { return i - len(withdrawnKinds) }

// withdrawnKinds are the kinds through which others reach a withdrawn network, in the order of their removal.
var withdrawnKinds = []Kind{KindRule, KindRoute, KindAddress, KindSysctl}

// withdraws reports whether a network remains on the host and gives up its subnet: the subnet may belong to others
// already, so the removal must not wait for a restore, a file or a process.
func withdraws(have, want State) bool {
	isAddress := func(o Object) bool { _, ok := o.(Address); return ok }
	return len(want) > 0 && anyObject(have, isAddress) && !anyObject(want, isAddress)
}

func anyObject(s State, match func(Object) bool) bool {
	for _, o := range s {
		if match(o) {
			return true
		}
	}
	return false
}

// closingOrder is the place, in the first half, of a setting that is given up while others are kept: before the chains,
// which may filter what it lets pass until it is removed. ForwardAll closes every link, including those that are opened
// one by one instead: it is removed just before they are opened.
func closingOrder(id ID) int {
	if id.Name == ForwardAll {
		return planOrder(Sysctl{}) - 1
	}
	return planOrder(Chain{}) - 1
}
