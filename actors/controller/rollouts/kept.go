package rollouts

import (
	"edgespan/actors/controller/storage"
	"maps"
	"slices"
)

// surplus are the rollouts that are kept no longer, now that there is another one: the oldest of people's, and the
// oldest of those that follow from what nodes do. However many these become, what an operator did can be found by its
// number.
func (a *rolloutActor) surplus() (dropped []uint64) {
	all := maps.Clone(a.kept)
	all[a.now.Revision] = a.now
	var people, ours []uint64
	for _, number := range slices.Sorted(maps.Keys(all)) {
		if storage.ByItself(all[number].Author) {
			ours = append(ours, number)
		} else {
			people = append(people, number)
		}
	}
	for _, list := range [][]uint64{people, ours} {
		dropped = append(dropped, list[:max(len(list)-maxStaged, 0)]...)
	}
	return dropped
}
