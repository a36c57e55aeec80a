package fleet

import (
	"strings"
	"time"

	"edgespan/config/layers"
)

// Hardware lists the known layers of versions and boards.
type Hardware struct {
	layers.Library
	// Learnt maps a board id to the base and hardware versions that nodes of unknown hardware reported. They apply to
	// nodes of that board only: the original adds them to the base versions of all nodes.
	Learnt map[string]layers.Library
}

// Kind identifies the layers of a node below its own. Nodes of the same Name share them.
type Kind struct {
	Name string
	layers.Choice
	Learnt  bool // base and hardware are those learnt for its board
	Unknown bool // the hardware is unknown: configs that it needs may be missing
}

// KindOf finds the layers of versions. Hardware is unknown if the board has no type, the type no layers, or none of
// them is for the software version (seed: "unrecognized hardware board ID and version"; the original treats no match as
// a match). Once one node of the board has answered, the hardware is known for all of them, even if the answer held no
// hardware config: there is none. A node that names no board has no hardware layer, and its hardware counts as known.
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
		parts = append(parts, "", "") // six parts, as no other kind has: names can't collide
	}
	k.Name = strings.Join(parts, "\x00")
	return k
}

// Queries limits the base config requests to the nodes of one replica, and records which are unanswered. It is not safe
// for concurrent use.
type Queries struct {
	node   time.Duration // between two queries to one node
	board  time.Duration // between two queries to nodes of one board
	nodes  map[string]asked
	boards map[string]time.Time
	swept  time.Time
}

type asked struct {
	board string
	at    time.Time
	open  bool // unanswered
}

// NewQueries returns Queries with the intervals of the settings: one query to a node in each Interval, one to a board
// in each Board.
func NewQueries(s Settings) *Queries {
	q := &Queries{nodes: map[string]asked{}, boards: map[string]time.Time{}}
	q.Limit(s)
	return q
}

// Limit sets new intervals, which apply to earlier queries too.
func (q *Queries) Limit(s Settings) { q.node, q.board = s.Interval, s.Board }

// Allow reports whether a node may be asked now for the configs of its board, and if so records the query. In both
// cases next is when it may be tried again.
func (q *Queries) Allow(now time.Time, node, board string) (granted bool, next time.Time) {
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

// TakeAnswer reports whether this node has an unanswered query about the board. An answer that was not requested, comes
// twice or is for another board is dropped.
func (q *Queries) TakeAnswer(node, board string) bool {
	a := q.nodes[node]
	if !a.open || a.board != board {
		return false
	}
	a.open = false
	q.nodes[node] = a
	return true
}

// sweep drops expired entries, once in an interval. An answer that comes later than that is dropped.
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
