package kv

import (
	"fmt"
	"time"
)

// Limits of a lease's time to live: etcd grants no less than one and a half election timeouts, which are 1.5 s, and
// counts in whole seconds.
const (
	MinTTL = 2 * time.Second
	MaxTTL = 365 * 24 * time.Hour
)

// LeaseID identifies a lease. 0 means none.
type LeaseID int64

// CheckTTL returns an error for an invalid time to live of a lease.
func CheckTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL || ttl%time.Second != 0 {
		return fmt.Errorf("time to live %s: %w: must be whole seconds from %s to %s", ttl, ErrInvalid, MinTTL, MaxTTL)
	}
	return nil
}

// Leadership is a won election: its key, and the revision at which the winner wrote it.
type Leadership struct {
	Key      Key
	Revision Revision
}

// Fence returns the compare that holds until another candidate wins. Every write of a leader includes it, so that a
// leader that was replaced without noticing writes nothing.
func (l Leadership) Fence() Compare { return AtRevision(l.Key, l.Revision) }

// Campaign returns the transaction that wins an election if there is no leader: it writes the election's key, with the
// candidate's description as its value, under the candidate's lease. If there is a leader, it reads the leader's entry.
func Campaign(election Key, candidate []byte, lease LeaseID) Txn {
	return Txn{
		Compares: []Compare{Absent(election)},
		Then:     []Op{PutLeased(election, candidate, lease)},
		Else:     []Op{Get(election)},
	}
}

// ReadCampaign evaluates the outcome of Campaign: it returns the leadership, or the entry of the present leader.
func ReadCampaign(election Key, o TxnResult) (Leadership, Entry, bool) {
	if o.Succeeded {
		return Leadership{Key: election, Revision: o.Revision}, Entry{}, true
	}
	return Leadership{}, o.Results[0].Entry, false
}
