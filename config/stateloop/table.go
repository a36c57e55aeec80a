package stateloop

import (
	_ "embed" // the table is a file of its own, so that docs can link to it
	"encoding/json"
)

//go:embed state-table.json
var tableFile []byte

// TableVersion is the version of the table; every change of a result increments it.
const TableVersion = 1

// Row is one row of the table: the result for a target, or none, and a report, or none, that answers the desired
// generation or another one.
type Row struct {
	Desired    string `json:"wanted"`     // present, absent, none; the file keeps the former name
	Reported   string `json:"reported"`   // one of reportableStates, or none
	Generation string `json:"generation"` // same, other
	State      State  `json:"state"`
	Review     Review `json:"review"`
	Stale      bool   `json:"stale"` // the reason states that the report is stale
	Note       string `json:"note"`  // the row of the seed's tables that defines it, or why edgespan decided so
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

// cellKey is the condition part of a row.
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

// table has the rows in the order of the file; cells has the same results by their condition, for Derive.
var table, cells = readTable(tableFile)

// readTable reads the embedded file and panics on a bad one, which fails every test.
func readTable(text []byte) (StateTable, map[cellKey]cell) {
	var t StateTable
	if err := json.Unmarshal(text, &t); err != nil {
		panic("state: state-table.json: " + err.Error())
	}
	out := make(map[cellKey]cell, len(t.Rows))
	for _, r := range t.Rows {
		k := cellKey{Target(emptyIfNone(r.Desired)), State(emptyIfNone(r.Reported)), r.Generation == other}
		out[k] = cell{r.State, r.Review, r.Stale}
	}
	return t, out
}

func emptyIfNone(text string) string {
	if text == none {
		return ""
	}
	return text
}

// reportableStates lists the states that a report may have by the seed, the worst last. Nothing else orders failures: a
// failed check is worst since it gives the least information.
var reportableStates = []State{
	Present, Absent, WaitingForDependencies, CreatingFailed, RemovingFailed, CheckPresentFailed, CheckAbsentFailed,
}
