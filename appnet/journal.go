package appnet

import (
	"cmp"
	"maps"
	"slices"
)

// maxDeleted is how many deleted apps keep their last version: those that went last.
// Nothing on the node answers an app after its end, so the version is for those who
// remember longer than the node, and a journal must not grow for ever.
const maxDeleted = 1000

// Forgotten are the keys of the records that are to be forgotten: of deleted apps,
// the oldest beyond the newest maxDeleted.
func Forgotten(records map[string]JournalRecord) []string {
	gone := slices.DeleteFunc(slices.Sorted(maps.Keys(records)), func(k string) bool { return !records[k].Deleted })
	slices.SortStableFunc(gone, func(a, b string) int { return cmp.Compare(records[a].Order, records[b].Order) })
	return gone[:max(0, len(gone)-maxDeleted)]
}
