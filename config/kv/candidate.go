package kv

import (
	"errors"
	"fmt"
	"time"
)

// Candidate is one who wants to lead: the half of an election that knows no store and no
// clock. Its driver tells it what time it is and what the store answered, and does what each
// Turn says. Turns may be late by a margin of an eighth of the time to live without two who
// both believe that they lead; the fence of the leadership holds even if they are later.
//
// It never has a lease for longer than it needs one: what it lets go of is revoked.
type Candidate struct {
	key         Key
	ttl, every  time.Duration
	lease       LeaseID    // 0: none
	sure        time.Time  // until when the lease holds, as far as we can know
	lead        Leadership // zero: another leads, or nobody
	call        Call       // that is under way; zero: none
	calls       uint64
	next        time.Time // of the next try
	ended       LeaseID   // to be revoked
	campaigning bool      // the lease holds: campaign next
	leaving     bool
}

// errUnsure ends a leadership whose lease may be over.
var errUnsure = errors.New("leadership is lost")

// errSilent is a call that was not answered in its time.
var errSilent = errors.New("the store gives no answer")

// CallKind says what a candidate asks of the store.
type CallKind uint8

// The kinds of calls.
const (
	CallGrant     CallKind = iota + 1 // a lease of the election's time to live
	CallKeepAlive                     // of Lease
	CallCampaign                      // Campaign under Lease
	CallRevoke                        // of Lease
)

func (k CallKind) String() string {
	return map[CallKind]string{CallGrant: "grant a lease", CallKeepAlive: "keep the lease", CallCampaign: "campaign",
		CallRevoke: "revoke the lease"}[k]
}

// Call is one question to the store. An answer after Until is none.
type Call struct {
	Number uint64
	Kind   CallKind
	Lease  LeaseID
	Asked  time.Time
	Until  time.Time
}

// Answer is the store's to a Call.
type Answer struct {
	Call    uint64  // its number
	Lease   LeaseID // that was granted
	Outcome Outcome // of a campaign
	Err     error
}

// Turn is what the driver has to do, in this order.
type Turn struct {
	Failed error       // for the log: what the store could not do; it is tried again
	Lost   error       // not nil: whoever works as the leader stops at once
	Won    *Leadership // not nil: lead
	Call   *Call       // not nil: ask the store
	Wake   time.Time   // the latest time of the next Advance
	Over   bool        // after Resign: there is nothing left to do
}

// NewCandidate makes a candidate that tries four times in the time to live of its leases.
func NewCandidate(election Key, ttl time.Duration) *Candidate {
	return &Candidate{key: election, ttl: ttl, every: ttl / 4}
}

// Advance says that time has passed.
func (c *Candidate) Advance(now time.Time) Turn { return c.turn(now, Turn{}) }

// Resign ends the candidacy, and the leadership without a Lost. Turns go on until one is Over.
func (c *Candidate) Resign(now time.Time) Turn {
	if !c.leaving {
		c.leaving = true
		c.letGo(now)
	}
	return c.turn(now, Turn{})
}

// Answered takes an answer. One to a call that is given up already is none.
func (c *Candidate) Answered(now time.Time, a Answer) Turn {
	call := c.call
	if a.Call != call.Number || !now.Before(call.Until) {
		return c.turn(now, Turn{})
	}
	c.call = Call{}
	var t Turn
	switch {
	case call.Kind == CallRevoke: // it ends by itself otherwise
	case errors.Is(a.Err, ErrNoLease):
		t.Failed = fmt.Errorf("%s: %w", call.Kind, a.Err)
		if c.lead != (Leadership{}) {
			t.Lost = a.Err
		}
		c.letGo(call.Asked.Add(c.every))
		c.ended = 0 // there is nothing to be revoked
	case a.Err != nil:
		t.Failed = fmt.Errorf("%s: %w", call.Kind, a.Err)
	case call.Kind == CallGrant:
		c.lease, c.sure, c.campaigning = a.Lease, call.Asked.Add(c.ttl), true
	case call.Kind == CallKeepAlive:
		c.sure, c.campaigning = call.Asked.Add(c.ttl), c.lead == (Leadership{})
	case call.Kind == CallCampaign:
		t.Won = c.won(now, a.Outcome)
	}
	return c.turn(now, t)
}

// won reads what became of a campaign. One that was won by an earlier call, whose answer was
// lost, counts, too; a win under a lease that may be over by now does not before it was kept.
func (c *Candidate) won(now time.Time, o Outcome) *Leadership {
	lead, who, won := Won(c.key, o)
	if !won && who.Lease == c.lease && who.Exists() {
		lead, won = Leadership{c.key, who.ModRevision}, true
	}
	if !won {
		return nil
	}
	if !now.Before(c.holds()) {
		c.next = now
		return nil
	}
	c.lead = lead
	return &lead
}

// holds is until when a leader may believe that it leads.
func (c *Candidate) holds() time.Time { return c.sure.Add(-c.ttl / 8) }

// letGo gives the lease up, and what hangs on it.
func (c *Candidate) letGo(next time.Time) {
	c.ended, c.lease, c.lead, c.call, c.campaigning, c.next = c.lease, 0, Leadership{}, Call{}, false, next
}

// turn adds what time tells.
func (c *Candidate) turn(now time.Time, t Turn) Turn {
	leads := c.lead != (Leadership{})
	if leads && !now.Before(c.holds()) {
		t.Lost = fmt.Errorf("%w: the lease was not kept in %v", errUnsure, c.ttl-c.ttl/8)
		t.Won = nil
		c.letGo(now.Add(c.every))
		leads = false
	}
	if c.call.Kind != 0 && !now.Before(c.call.Until) {
		if c.call.Kind != CallRevoke {
			t.Failed = fmt.Errorf("%s: %w", c.call.Kind, errSilent)
		}
		c.call = Call{}
	}
	if call := c.due(now); c.call.Kind == 0 && call.Kind != 0 {
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
	if leads && t.Wake.After(c.holds()) {
		t.Wake = c.holds()
	}
	return t
}

// due is the call that is to be made now.
func (c *Candidate) due(now time.Time) Call {
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
