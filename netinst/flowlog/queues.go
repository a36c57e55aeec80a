package flowlog

import "github.com/google/uuid"

const (
	// minShare is how many records each network may keep waiting, however many networks there are.
	minShare = 64
	// expected is the most records for which a queue has room from the start, if there were as many the last time.
	expected = 64
)

// Queues hold the records that wait to be written or sent, by network; T is a record or what was made of it. They share
// one limit equally, so that a network with very many flows loses records of its own, and none of others. The caller's
// lock guards them.
type Queues[T any] struct {
	limit   int
	waiting map[uuid.UUID][]T
	turn    []uuid.UUID // those with records, the next one first
	lost    uint64
	last    int // records of the last call of Take
}

// NewQueues returns queues for this many records together.
func NewQueues[T any](limit int) *Queues[T] {
	return &Queues[T]{limit: limit, waiting: map[uuid.UUID][]T{}}
}

// Put adds a record of one of so many networks. If the network has its share waiting, it counts the record as lost and
// returns false.
func (q *Queues[T]) Put(network uuid.UUID, r T, networks int) bool {
	if q.Full(network, networks) {
		q.lost++
		return false
	}
	have := q.waiting[network]
	if len(have) == 0 {
		q.turn = append(q.turn, network)
		have = make([]T, 0, min(q.last, expected))
	}
	q.waiting[network] = append(have, r)
	return true
}

// Full reports whether one of so many networks has its share waiting.
func (q *Queues[T]) Full(network uuid.UUID, networks int) bool {
	return len(q.waiting[network]) >= max(minShare, q.limit/max(1, networks))
}

// Lose counts records that were lost elsewhere.
func (q *Queues[T]) Lose(n uint64) { q.lost += n }

// Take returns the records of the network whose turn it is, nil for none, and how many were lost since the last call.
func (q *Queues[T]) Take() (list []T, lost uint64) {
	lost, q.lost = q.lost, 0
	if len(q.turn) == 0 {
		return nil, lost
	}
	id := q.turn[0]
	q.turn = q.turn[1:]
	list = q.waiting[id]
	delete(q.waiting, id)
	q.last = len(list)
	return list, lost
}
