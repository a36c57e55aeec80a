package facts

// MergeStrategy says how the values that several sources have of one key become one.
type MergeStrategy string

// The strategies, as Puppet does them (reference fuel-configdb §4.4).
const (
	MergeFirst  MergeStrategy = "first"
	MergeUnique MergeStrategy = "unique"
	MergeHash   MergeStrategy = "hash"
	MergeDeep   MergeStrategy = "deep"
)

// MergeOptions are a strategy and, for MergeDeep, what changes it.
type MergeOptions struct {
	Strategy         MergeStrategy
	KnockoutPrefix   string // "": none
	SortMergedArrays bool
	MergeHashArrays  bool
}
