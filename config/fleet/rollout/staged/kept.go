package staged

import (
	"maps"
	"slices"
)

// SurplusRollouts returns the rollouts to delete, given another one: the oldest of operators, and the oldest of those
// that nodes caused (byItself), each beyond its own limit. However many nodes cause, operators' rollouts can still be
// found by number.
func SurplusRollouts(kept map[uint64]*RolloutRecord, now *RolloutRecord,
	byItself func(author string) bool) (dropped []uint64) {
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
