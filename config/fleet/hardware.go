package fleet

import (
	"strings"
	"time"

	"edgespan/config/layers"
)

// Hardware is what is known of the layers that belong to versions and boards.
type Hardware struct {
	layers.Library
	// Learnt is by board id: the base and hardware versions that nodes of unknown hardware
	// told of theirs. They are for nodes of that board only: in the original they get into
	// the base versions of all.
	Learnt map[string]layers.Library
}

// Kind is which layers below its own a node has. Nodes of one Name share them.
type Kind struct {
	Name string
	layers.Choice
	Learnt  bool // base and hardware are those that were learnt of its board
	Unknown bool // the hardware is: configs that it needs may be missing
}

// KindOf finds the layers of versions. Hardware is unknown where the board has no type,
// the type no layers, or none of them is for the software version (seed: "unrecognized
// hardware board ID and version"; the original takes no match for a match). Once a node of
// the board has answered it is known for all of them, also when the answer held no
// hardware config: it has none. A node that names no board has no hardware layer, and
// nothing of it is unknown.
func (h Hardware) KindOf(v layers.Versions) Kind {
	k := Kind{Choice: h.Choose(v)}
	if v.Board != "" && k.Hardware == "" {
		learnt, known := h.Learnt[v.Board]
		if k.Learnt, k.Unknown = known, !known; known {
			c := learnt.Choose(v)
			c.Firmware, c.UnknownBoard = k.Firmware, false
			k.Choice = c
		}
	}
	parts := []string{k.Base, k.Firmware, k.Type, k.Hardware}
	if k.Learnt {
		parts = append(parts, v.Board)
	}
	if k.Unknown {
		parts = append(parts, "", "") // of no other kind, so that it can't be taken for one of the known
	}
	k.Name = strings.Join(parts, "\x00")
	return k
}

// Limits of asking nodes for their base config.
const (
	queryNode  = 2 * time.Minute  // between two queries to one node
	queryBoard = 15 * time.Second // and to nodes of one board
)

// Queries keeps these limits for the nodes of one replica, and which answers were asked
// for. It is for one goroutine at a time.
type Queries struct {
	nodes  map[string]asked
	boards map[string]time.Time
	swept  time.Time
}

type asked struct {
	board string
	at    time.Time
	open  bool // it has not answered
}

// NewQueries has asked nobody.
func NewQueries() *Queries {
	return &Queries{nodes: map[string]asked{}, boards: map[string]time.Time{}}
}

// Ask says whether a node may be asked now for the configs of its board, and notes that it
// was. In both cases next is when it may be tried again.
func (q *Queries) Ask(now time.Time, node, board string) (granted bool, next time.Time) {
	q.sweep(now)
	if a, was := q.nodes[node]; was {
		if next = a.at.Add(queryNode); now.Before(next) && !a.at.After(now) {
			return false, next
		}
	}
	if at, was := q.boards[board]; was {
		if next = at.Add(queryBoard); now.Before(next) && !at.After(now) {
			return false, next
		}
	}
	q.nodes[node], q.boards[board] = asked{board: board, at: now, open: true}, now
	return true, now.Add(queryNode)
}

// Answered says whether an answer about a board was asked for of that node: what comes
// unasked, or twice, or for another board, is dropped.
func (q *Queries) Answered(node, board string) bool {
	a := q.nodes[node]
	if !a.open || a.board != board {
		return false
	}
	a.open = false
	q.nodes[node] = a
	return true
}

// sweep drops what limits nothing any more, every so often. An answer that took longer
// than that is not waited for.
func (q *Queries) sweep(now time.Time) {
	if d := now.Sub(q.swept); d >= 0 && d < queryNode {
		return
	}
	q.swept = now
	for node, a := range q.nodes {
		if d := now.Sub(a.at); d < 0 || d >= queryNode {
			delete(q.nodes, node)
		}
	}
	for board, at := range q.boards {
		if d := now.Sub(at); d < 0 || d >= queryBoard {
			delete(q.boards, board)
		}
	}
}
