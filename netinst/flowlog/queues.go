package flowlog

import "github.com/google/uuid"

// minShare is how many records each network may keep waiting, however many networks there are.
const minShare = 64

// Queues hold the records that wait to be written, by network. They share one limit equally, so that a network with
// very many flows loses records of its own, and none of others. The caller's lock guards them.
type Queues struct {
	limit   int
	waiting map[uuid.UUID][]Record
	turn    []uuid.UUID // those with records, the next one first
	lost    uint64
}

// NewQueues returns queues for this many records together.
func NewQueues(limit int) *Queues { return &Queues{limit: limit, waiting: map[uuid.UUID][]Record{}} }

// Put adds a record of one of so many networks, or counts it as lost if the network has its share waiting.
func (q *Queues) Put(r Record, networks int) {
	if q.Full(r.Network, networks) {
		q.lost++
		return
	}
	have := q.waiting[r.Network]
	if len(have) == 0 {
		q.turn = append(q.turn, r.Network)
	}
	q.waiting[r.Network] = append(have, r)
}

// Full reports whether one of so many networks has its share waiting.
func (q *Queues) Full(network uuid.UUID, networks int) bool {
	return len(q.waiting[network]) >= max(minShare, q.limit/max(1, networks))
}

// Lose counts records that were lost elsewhere.
func (q *Queues) Lose(n uint64) { q.lost += n }

// Take returns the records of the network whose turn it is, nil for none, and how many were lost since the last call.
func (q *Queues) Take() (list []Record, lost uint64) {
	lost, q.lost = q.lost, 0
	if len(q.turn) == 0 {
		return nil, lost
	}
	id := q.turn[0]
	q.turn = q.turn[1:]
	list = q.waiting[id]
	delete(q.waiting, id)
	return list, lost
}
