package stateloop

import (
	_ "embed" // docs and pages read the table as a file
	"encoding/json"
)

//go:embed state-table.json
var tableFile []byte

// TableVersion is the version of the table; every change of a cell increments it.
const TableVersion = 1

// Row is one cell of the table: the result for a target, or none, and a report, or none, that answers the desired
// generation or another one.
type Row struct {
	Desired    string `json:"wanted"`     // present, absent, none
	Reported   string `json:"reported"`   // a word of the contract, or none
	Generation string `json:"generation"` // same, other
	State      State  `json:"state"`
	Review     Review `json:"review"`
	Stale      bool   `json:"stale"` // the reason states that the report is stale
	Note       string `json:"note"`  // the row of the seed, or that edgespan defined it
}

// StateTable is the content of state-table.json, the single definition of Derive's answers.
type StateTable struct {
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

// cell is the result part of a row.
type cell struct {
	state  State
	review Review
	stale  bool
}

// table is the file's content in its order, and cells the same by key, as Derive uses it.
var table, cells = readTable(tableFile)

// readTable reads the embedded file and panics on a bad one, which fails every test.
func readTable(text []byte) (StateTable, map[cellKey]cell) {
	var t StateTable
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

// spoken lists the words that a report may have, the worst last. It is the only order of failures: a failed check is
// worst since it gives the least information.
var spoken = []State{
	Present, Absent, WaitingForDependencies, CreatingFailed, RemovingFailed, CheckPresentFailed, CheckAbsentFailed,
}
