package appnet

import (
	"cmp"
	"maps"
	"slices"
)

// maxDeleted is how many deleted apps keep their last version, the latest ones. Nothing on the node answers for an app
// after its end, so the version serves systems that remember longer than the node, and a journal must not grow without
// limit.
const maxDeleted = 1000

// ToForget returns the keys of the records to forget: those of deleted apps beyond the newest maxDeleted.
func ToForget(records map[string]JournalRecord) []string {
	gone := slices.DeleteFunc(slices.Sorted(maps.Keys(records)), func(k string) bool { return !records[k].Deleted })
	slices.SortStableFunc(gone, func(a, b string) int { return cmp.Compare(records[a].Order, records[b].Order) })
	return gone[:max(0, len(gone)-maxDeleted)]
}
