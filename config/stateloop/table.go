package stateloop

import (
	_ "embed" // the table is a file, for docs and pages too
	"encoding/json"
)

//go:embed state-table.json
var tableFile []byte

// TableVersion is the version of the table; it is counted up when a cell changes.
const TableVersion = 1

// Row is one cell of the table: what follows from a target, or none, and a report, or none,
// that answers the wanted generation or another one.
type Row struct {
	Desired    string `json:"wanted"`     // present, absent, none
	Reported   string `json:"reported"`   // a word of the contract, or none
	Generation string `json:"generation"` // same, other
	State      State  `json:"state"`
	Review     Review `json:"review"`
	Stale      bool   `json:"stale"` // the reason says that the report is from before
	Note       string `json:"note"`  // the row of the seed, or that it was decided
}

// Table is state-table.json: the one truth about what Derive answers.
type Table struct {
	Version int             `json:"version"`
	Classes map[State]Class `json:"classes"`
	Rows    []Row           `json:"rows"`
}

const (
	none  = "none"
	same  = "same"
	other = "other"
)

type cellKey struct {
	target   Target // "" for none
	reported State  // "" for none
	other    bool   // the report answers another generation
}

// cell is what a row says.
type cell struct {
	state  State
	review Review
	stale  bool
}

// table is what Derive goes by, as the file has it and by cell.
var table, cells = readTable(tableFile)

// readTable reads the embedded file; a bad one never leaves the build, since every test reads it.
func readTable(text []byte) (Table, map[cellKey]cell) {
	var t Table
	if err := json.Unmarshal(text, &t); err != nil {
		panic("state: state-table.json: " + err.Error())
	}
	out := make(map[cellKey]cell, len(t.Rows))
	for _, r := range t.Rows {
		k := cellKey{Target(orNothing(r.Desired)), State(orNothing(r.Reported)), r.Generation == other}
		out[k] = cell{r.State, r.Review, r.Stale}
	}
	return t, out
}

func orNothing(word string) string {
	if word == none {
		return ""
	}
	return word
}

// spoken are the words that a report may have, the worse the later. Which of two failures
// is worse is decided here and nowhere else: one whose check failed says less.
var spoken = []State{
	Present, Absent, WaitingForDependencies, CreatingFailed, RemovingFailed, CheckPresentFailed, CheckAbsentFailed,
}
