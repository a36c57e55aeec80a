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

// Queries keeps these limits for the nodes of one replica, and which answers were asked
// for. It is for one goroutine at a time.
type Queries struct {
	node   time.Duration // between two queries to one node
	board  time.Duration // and to nodes of one board
	nodes  map[string]asked
	boards map[string]time.Time
	swept  time.Time
}

type asked struct {
	board string
	at    time.Time
	open  bool // it has not answered
}

// NewQueries has asked nobody. One node is asked once in the interval of the settings, and
// one of a board once in theirs.
func NewQueries(s Settings) *Queries {
	q := &Queries{nodes: map[string]asked{}, boards: map[string]time.Time{}}
	q.Limit(s)
	return q
}

// Limit takes other settings, for all that was asked until now, too.
func (q *Queries) Limit(s Settings) { q.node, q.board = s.Interval, s.Board }

// Ask says whether a node may be asked now for the configs of its board, and notes that it
// was. In both cases next is when it may be tried again.
func (q *Queries) Ask(now time.Time, node, board string) (granted bool, next time.Time) {
	q.sweep(now)
	if a, was := q.nodes[node]; was {
		if next = a.at.Add(q.node); now.Before(next) && !a.at.After(now) {
			return false, next
		}
	}
	if at, was := q.boards[board]; was {
		if next = at.Add(q.board); now.Before(next) && !at.After(now) {
			return false, next
		}
	}
	q.nodes[node], q.boards[board] = asked{board: board, at: now, open: true}, now
	return true, now.Add(q.node)
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
	if d := now.Sub(q.swept); d >= 0 && d < q.node {
		return
	}
	q.swept = now
	for node, a := range q.nodes {
		if d := now.Sub(a.at); d < 0 || d >= q.node {
			delete(q.nodes, node)
		}
	}
	for board, at := range q.boards {
		if d := now.Sub(at); d < 0 || d >= q.board {
			delete(q.boards, board)
		}
	}
}
