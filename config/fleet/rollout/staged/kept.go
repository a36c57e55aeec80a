package staged

import (
	"maps"
	"slices"
)

// Surplus are the rollouts that are kept no longer, now that there is another one: the oldest of people's, and the
// oldest of those that follow from what nodes do (byItself). However many these become, what an operator did can be
// found by its number.
func Surplus(kept map[uint64]*Record, now *Record, byItself func(author string) bool) (dropped []uint64) {
	all := maps.Clone(kept)
	all[now.Revision] = now
	var people, own []uint64
	for _, number := range slices.Sorted(maps.Keys(all)) {
		if byItself(all[number].Author) {
			own = append(own, number)
		} else {
			people = append(people, number)
		}
	}
	for _, list := range [][]uint64{people, own} {
		dropped = append(dropped, list[:max(len(list)-maxStaged, 0)]...)
	}
	return dropped
}
