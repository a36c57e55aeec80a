package kv

import (
	"errors"
	"fmt"
	"time"
)

// ElectionCandidate is one participant of an election, without a store and without a clock. Its driver passes in the
// time and the store's answers and carries out each Turn. While turns are less than an eighth of the time to live
// late, no two candidates believe at the same time that they lead; the fence of the leadership protects writes even
// if turns are later.
//
// A candidate revokes every lease that it no longer needs.
type ElectionCandidate struct {
	key         Key
	ttl, every  time.Duration
	lease       LeaseID    // 0: none
	sure        time.Time  // the earliest time at which the store may end the lease
	lead        Leadership // zero: this candidate does not lead
	call        Call       // in flight; zero: none
	calls       uint64
	next        time.Time // time of the next attempt
	ended       LeaseID   // the lease to revoke next; 0: none
	campaigning bool      // the lease is alive and the next call is the campaign
	leaving     bool
}

// errUnsure ends a leadership whose lease may have expired.
var errUnsure = errors.New("leadership is lost")

// errSilent reports a call that was not answered before its deadline.
var errSilent = errors.New("the store gives no answer")

// CallKind is the kind of a candidate's call to the store.
type CallKind uint8

// The kinds of calls.
const (
	CallGrant     CallKind = iota + 1 // grant a lease for the election's time to live
	CallKeepAlive                     // keep Lease alive
	CallCampaign                      // commit Campaign under Lease
	CallRevoke                        // revoke Lease
)

func (k CallKind) String() string {
	return map[CallKind]string{CallGrant: "grant a lease", CallKeepAlive: "keep the lease", CallCampaign: "campaign",
		CallRevoke: "revoke the lease"}[k]
}

// Call is one request to the store. Answers after Until are ignored.
type Call struct {
	Number uint64
	Kind   CallKind
	Lease  LeaseID
	Asked  time.Time
	Until  time.Time
}

// Answer is the store's answer to a Call.
type Answer struct {
	Call    uint64    // Call.Number
	Lease   LeaseID   // the lease that CallGrant returned
	Outcome TxnResult // the outcome of CallCampaign
	Err     error
}

// ElectionUpdate lists what the driver must do, in this order.
type ElectionUpdate struct {
	Failed error       // for the log: the call that failed; the candidate tries again
	Lost   error       // not nil: the leadership is lost, stop leading at once
	Won    *Leadership // not nil: start leading
	Call   *Call       // not nil: send this call to the store
	Wake   time.Time   // the latest time for the next Advance
	Over   bool        // after Resign: nothing is left to do
}

// NewCandidate returns a candidate that tries four times per time to live of its leases.
func NewCandidate(election Key, ttl time.Duration) *ElectionCandidate {
	return &ElectionCandidate{key: election, ttl: ttl, every: ttl / 4}
}

// Advance returns the turn at the time now.
func (c *ElectionCandidate) Advance(now time.Time) ElectionUpdate {
	return c.addTimers(now, ElectionUpdate{})
}

// Resign ends the candidacy, and the leadership without a Lost. Call Advance and Answered until a turn is Over.
func (c *ElectionCandidate) Resign(now time.Time) ElectionUpdate {
	if !c.leaving {
		c.leaving = true
		c.releaseLease(now)
	}
	return c.addTimers(now, ElectionUpdate{})
}

// HandleAnswer processes an answer. It ignores the answer to a call that has timed out or was abandoned.
func (c *ElectionCandidate) HandleAnswer(now time.Time, a Answer) ElectionUpdate {
	call := c.call
	if a.Call != call.Number || !now.Before(call.Until) {
		return c.addTimers(now, ElectionUpdate{})
	}
	c.call = Call{}
	var t ElectionUpdate
	switch {
	case call.Kind == CallRevoke: // an unrevoked lease expires by itself
	case errors.Is(a.Err, ErrNoLease):
		t.Failed = fmt.Errorf("%s: %w", call.Kind, a.Err)
		if c.lead != (Leadership{}) {
			t.Lost = a.Err
		}
		c.releaseLease(call.Asked.Add(c.every))
		c.ended = 0 // the store no longer has the lease, so there is nothing to revoke
	case a.Err != nil:
		t.Failed = fmt.Errorf("%s: %w", call.Kind, a.Err)
	case call.Kind == CallGrant:
		c.lease, c.sure, c.campaigning = a.Lease, call.Asked.Add(c.ttl), true
	case call.Kind == CallKeepAlive:
		c.sure, c.campaigning = call.Asked.Add(c.ttl), c.lead == (Leadership{})
	case call.Kind == CallCampaign:
		t.Won = c.handleCampaign(now, a.Outcome)
	}
	return c.addTimers(now, t)
}

// handleCampaign evaluates the outcome of a campaign. A campaign also counts as won if an earlier call, whose answer
// was lost, won it. If the lease may have expired by now, the candidate keeps it alive first and campaigns again.
func (c *ElectionCandidate) handleCampaign(now time.Time, o TxnResult) *Leadership {
	lead, who, won := ReadCampaign(c.key, o)
	if !won && who.Lease == c.lease && who.Exists() {
		lead, won = Leadership{c.key, who.ModRevision}, true
	}
	if !won {
		return nil
	}
	if !now.Before(c.leadsUntil()) {
		c.next = now
		return nil
	}
	c.lead = lead
	return &lead
}

// leadsUntil returns the time until which a leader may believe that it leads.
func (c *ElectionCandidate) leadsUntil() time.Time { return c.sure.Add(-c.ttl / 8) }

// releaseLease gives up the lease and the leadership that depends on it.
func (c *ElectionCandidate) releaseLease(next time.Time) {
	c.ended, c.lease, c.lead, c.call, c.campaigning, c.next = c.lease, 0, Leadership{}, Call{}, false, next
}

// addTimers adds to t what follows from the time: a lost leadership, a call that timed out, the next call and the next
// wake.
func (c *ElectionCandidate) addTimers(now time.Time, t ElectionUpdate) ElectionUpdate {
	leads := c.lead != (Leadership{})
	if leads && !now.Before(c.leadsUntil()) {
		t.Lost = fmt.Errorf("%w: the lease was not kept in %v", errUnsure, c.ttl-c.ttl/8)
		t.Won = nil
		c.releaseLease(now.Add(c.every))
		leads = false
	}
	if c.call.Kind != 0 && !now.Before(c.call.Until) {
		if c.call.Kind != CallRevoke {
			t.Failed = fmt.Errorf("%s: %w", c.call.Kind, errSilent)
		}
		c.call = Call{}
	}
	if call := c.nextCall(now); c.call.Kind == 0 && call.Kind != 0 {
		c.calls++
		call.Number, call.Asked = c.calls, now
		c.call, t.Call = call, &call
	}
	switch {
	case c.call.Kind != 0:
		t.Wake = c.call.Until
	case c.leaving:
		t.Over = true
	default:
		t.Wake = c.next
	}
	if leads && t.Wake.After(c.leadsUntil()) {
		t.Wake = c.leadsUntil()
	}
	return t
}

// nextCall returns the call to send now; its zero value means none.
func (c *ElectionCandidate) nextCall(now time.Time) Call {
	switch {
	case c.call.Kind != 0:
	case c.ended != 0:
		lease := c.ended
		c.ended = 0
		return Call{Kind: CallRevoke, Lease: lease, Until: now.Add(c.ttl / 2)}
	case c.leaving:
	case c.campaigning:
		c.campaigning = false
		return Call{Kind: CallCampaign, Lease: c.lease, Until: now.Add(c.ttl / 2)}
	case now.Before(c.next):
	case c.lease == 0:
		c.next = now.Add(c.every)
		return Call{Kind: CallGrant, Until: now.Add(c.ttl / 2)}
	default:
		c.next = now.Add(c.every)
		return Call{Kind: CallKeepAlive, Lease: c.lease, Until: now.Add(c.ttl / 4)}
	}
	return Call{}
}
