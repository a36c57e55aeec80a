package kv

import (
	"fmt"
	"time"
)

// The bounds of a lease's time to live: etcd grants nothing shorter than one and
// a half election timeouts, which are 1.5 s, and counts whole seconds.
const (
	MinTTL = 2 * time.Second
	MaxTTL = 365 * 24 * time.Hour
)

// LeaseID names a lease. 0 is none.
type LeaseID int64

// CheckTTL says what is wrong with the time to live of a lease.
func CheckTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL || ttl%time.Second != 0 {
		return fmt.Errorf("time to live %s: %w: must be whole seconds from %s to %s", ttl, ErrInvalid, MinTTL, MaxTTL)
	}
	return nil
}

// Leadership is an election that was won: the key of the election as the winner
// wrote it.
type Leadership struct {
	Key      Key
	Revision Revision
}

// Fence holds while nobody else has won since. Every write of a leader compares
// it, so that one who was replaced without knowing it writes nothing.
func (l Leadership) Fence() Compare { return At(l.Key, l.Revision) }

// Campaign is the transaction that wins an election if nobody leads: the key of
// the election under the candidate's lease, with what the candidate says of
// itself. Where somebody leads it answers with who.
func Campaign(election Key, candidate []byte, lease LeaseID) Txn {
	return Txn{
		Compares: []Compare{Absent(election)},
		Then:     []Op{PutLeased(election, candidate, lease)},
		Else:     []Op{Get(election)},
	}
}

// Won reads the outcome of Campaign: the leadership, or the entry of who leads.
func Won(election Key, o Outcome) (Leadership, Entry, bool) {
	if o.Succeeded {
		return Leadership{Key: election, Revision: o.Revision}, Entry{}, true
	}
	return Leadership{}, o.Results[0].Entry, false
}
