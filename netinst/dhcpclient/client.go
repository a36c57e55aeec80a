package dhcpclient

import (
	"fmt"
	"net/netip"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/pubsub/backoff"
)

// State is a state of RFC 2131, figure 5.
type State string

// The states. Off is that of a client whose interface has no carrier.
const (
	Off        State = "off"
	Init       State = "init" // waits before it looks for a server again
	Selecting  State = "selecting"
	Requesting State = "requesting"
	Checking   State = "checking" // whether another host has the address
	Rebooting  State = "rebooting"
	Bound      State = "bound"
	Renewing   State = "renewing"
	Rebinding  State = "rebinding"
)

// maxTries is how often a request is sent before the client goes on without an answer.
const maxTries = 4

// retryRenewal is the shortest time between two requests to renew a lease (RFC 2131 §4.4.5).
const retryRenewal = time.Minute

// checkTimeout is how long the client waits for the end of a Check. An address that can't be checked is used.
const checkTimeout = 2 * time.Second

var (
	declined = backoff.Backoff{First: 10 * time.Second, Max: 5 * time.Minute} // after an address in use (RFC 2131 §3.1)
	resends  = backoff.Backoff{First: time.Second, Max: 64 * time.Second}     // of one message
	refused  = backoff.Backoff{First: time.Second, Max: 64 * time.Second}     // after a NAK or a useless offer
)

// Client is the DHCP client of one port.
type Client struct {
	IfName string

	state   State
	lease   *Lease
	offer   *Lease // requested, and then acknowledged and checked
	xid     uint32
	token   uint64
	tries   int           // of the current message
	heard   int           // the try for which a useless offer was noted
	rest    time.Duration // after the last refusal
	decline time.Duration // after the last address in use
	noted   string        // the last Note
	fault   string
	closed  bool
}

// New returns the client of an interface, with the lease that its predecessor had, if any. It does nothing before a
// LinkChanged.
func New(ifName string, lease *Lease) *Client {
	return &Client{IfName: ifName, state: Off, lease: lease}
}

// State returns the client's state.
func (c *Client) State() State { return c.state }

// Fault returns why the client has no lease, "" if it has one or has not looked for one for long enough.
func (c *Client) Fault() string { return c.fault }

// Step takes one event and returns the effects.
func (c *Client) Step(e Event) []Effect {
	if c.closed {
		return nil
	}
	var out []Effect
	if c.lease != nil && !c.lease.IsValid(c.IfName, e.At) {
		out = c.drop(fmt.Sprintf("the lease of %s is over", c.lease.Address))
		if _, released := e.What.(Released); !released && c.state != Off {
			out = append(out, c.discover(e)...)
		}
	}
	switch what := e.What.(type) {
	case LinkChanged:
		return append(out, c.linkChanged(e, what.Up)...)
	case Received:
		if c.state != Off && what.Reply.XID == c.xid {
			return append(out, c.received(e, what.Reply)...)
		}
	case Checked:
		if c.state == Checking && what.Address == c.offer.Address.Addr() {
			return append(out, c.checked(e, what.InUse)...)
		}
	case Due:
		if what.Token == c.token {
			return append(out, c.due(e)...)
		}
	case Released:
		return append(out, c.release(e)...)
	}
	return out
}

// linkChanged starts with a new carrier: it may be that of another network.
func (c *Client) linkChanged(e Event, up bool) []Effect {
	switch {
	case !up && (c.state != Off || c.token == 0): // or it has just started
		c.state, c.tries, c.fault = Off, 0, ""
		return c.untilEnd(e)
	case up && c.state == Off && c.lease != nil:
		c.enter(Rebooting, e)
		return c.request(e)
	case up && c.state == Off:
		return c.discover(e)
	}
	return nil
}

// untilEnd waits for the end of the lease, if there is one.
func (c *Client) untilEnd(e Event) []Effect {
	if c.lease == nil {
		c.token++
		return nil
	}
	return c.wait(c.lease.End.Sub(e.At))
}

// enter begins a state with a new transaction.
func (c *Client) enter(s State, e Event) { c.state, c.tries, c.heard, c.xid = s, 0, 0, e.Random }

func (c *Client) wait(after time.Duration) []Effect {
	c.token++
	return []Effect{Wait{c.token, max(after, time.Millisecond)}}
}

// resend waits before the current message is sent again: twice as long each time, spread by a tenth.
func (c *Client) resend(e Event) []Effect {
	c.tries++
	spread := 0.9 + 0.2*float64(e.Random>>8)/float64(1<<24)
	return c.wait(time.Duration(float64(resends.After(c.tries)) * spread))
}

// discover looks for a server.
func (c *Client) discover(e Event) []Effect {
	c.enter(Selecting, e)
	return c.sendDiscover(e)
}

func (c *Client) sendDiscover(e Event) []Effect {
	if c.tries == maxTries && c.fault == "" {
		c.fault = "no DHCP server answers"
	}
	q := netstate.DHCPQuery{Type: netstate.DHCPDiscover, XID: c.xid}
	return append([]Effect{Send{q}}, c.resend(e)...)
}

// request sends the request of the state (RFC 2131, table 5).
func (c *Client) request(e Event) []Effect {
	q := netstate.DHCPQuery{Type: netstate.DHCPRequest, XID: c.xid}
	switch c.state {
	case Requesting:
		q.Requested, q.Server = c.offer.Address.Addr(), c.offer.Server
	case Rebooting:
		q.Requested = c.lease.Address.Addr()
	case Renewing:
		q.Client, q.To, q.Via = c.lease.Address.Addr(), c.lease.Server, c.lease.Via
	case Rebinding:
		q.Client = c.lease.Address.Addr()
	}
	return append([]Effect{Send{q}}, c.resend(e)...)
}

// due sends the current message again, or goes on to the next state.
func (c *Client) due(e Event) []Effect {
	switch c.state {
	case Init:
		return c.discover(e)
	case Selecting:
		return c.sendDiscover(e)
	case Requesting:
		if c.tries < maxTries {
			return c.request(e)
		}
		return c.discover(e)
	case Rebooting:
		if c.tries < maxTries {
			return c.request(e)
		}
		return c.keep(e) // no server answers: the lease is as good as before (RFC 2131 §3.2)
	case Checking:
		return c.bind(e)
	case Bound, Renewing, Rebinding:
		return c.keep(e)
	}
	return c.untilEnd(e)
}

// keep does what the lease needs at this time: nothing, a renewal from its server, or one from any.
func (c *Client) keep(e Event) []Effect {
	next, end := Bound, c.lease.Renew
	switch {
	case !e.At.Before(c.lease.Rebind):
		next, end = Rebinding, c.lease.End
	case !e.At.Before(c.lease.Renew):
		next, end = Renewing, c.lease.Rebind
	}
	if next == Bound {
		c.state, c.tries = Bound, 0
		return c.wait(end.Sub(e.At))
	}
	if c.state != next {
		c.enter(next, e)
	}
	left := end.Sub(e.At)
	effs := c.request(e)[:1]
	return append(effs, c.wait(min(max(left/2, retryRenewal), left))...)
}

// received handles a reply of the current transaction.
func (c *Client) received(e Event, r netstate.DHCPReply) []Effect {
	switch {
	case r.Type == netstate.DHCPOffer && c.state == Selecting:
		l, err := newLease(c.IfName, r, e.At)
		if err != nil { // others may be better
			if c.heard == c.tries { // a neighbour can send any number of useless ones
				return nil
			}
			c.heard = c.tries
			return c.fail(fmt.Sprintf("offer of %s is not used: %v", r.Server, err))
		}
		xid := c.xid
		c.enter(Requesting, e)
		c.offer, c.xid = l, xid // RFC 2131 §4.4.1: the same one
		return c.request(e)
	case r.Type == netstate.DHCPAck && c.asks():
		return c.acked(e, r)
	case r.Type == netstate.DHCPNak && c.asks() && c.mayRefuse(r.Server):
		out := c.fail(fmt.Sprintf("server %s refuses %s", r.Server, c.asked()))
		return append(append(out, c.drop("")...), c.pause(e)...)
	}
	return nil
}

// asks reports whether the client waits for the answer to a request.
func (c *Client) asks() bool {
	return c.state == Requesting || c.state == Rebooting || c.state == Renewing || c.state == Rebinding
}

// asked returns the address of the current request.
func (c *Client) asked() netip.Addr {
	if c.state == Requesting {
		return c.offer.Address.Addr()
	}
	return c.lease.Address.Addr()
}

// mayRefuse reports whether a server may refuse the current request: the one that was asked, or any if all were asked.
func (c *Client) mayRefuse(server netip.Addr) bool {
	switch c.state {
	case Requesting:
		return server == c.offer.Server
	case Renewing:
		return server == c.lease.Server
	}
	return true
}

// acked takes the lease of an acknowledgement. It may differ from the offer, but not in its address.
func (c *Client) acked(e Event, r netstate.DHCPReply) []Effect {
	if r.Address != c.asked() {
		return nil
	}
	l, err := newLease(c.IfName, r, e.At)
	switch {
	case err != nil && c.state == Requesting:
		out := c.fail(fmt.Sprintf("lease of %s is not used: %v", r.Server, err))
		return append(out, c.pause(e)...)
	case err != nil:
		return c.note(fmt.Sprintf("lease of %s is not used: %v", r.Server, err)) // the old one is as good as before
	}
	c.offer = l
	if c.state != Requesting {
		return c.bind(e) // it has the address already
	}
	c.state, c.tries = Checking, 0
	return append([]Effect{Check{l.Address.Addr()}}, c.wait(checkTimeout)...)
}

// checked takes the acknowledged lease, or declines one whose address another host has (RFC 2131 §4.4.1).
func (c *Client) checked(e Event, inUse string) []Effect {
	if inUse == "" {
		return c.bind(e)
	}
	l := c.offer
	out := c.fail(fmt.Sprintf("address %s of server %s is in use by %s", l.Address.Addr(), l.Server, inUse))
	out = append(out, Send{netstate.DHCPQuery{Type: netstate.DHCPDecline, XID: e.Random, Requested: l.Address.Addr(),
		Server: l.Server}})
	c.enter(Init, e)
	c.offer = nil
	c.decline = declined.Next(c.decline)
	return append(out, c.wait(c.decline)...)
}

// bind takes the acknowledged lease.
func (c *Client) bind(e Event) []Effect {
	l := c.offer
	var out []Effect
	if c.lease == nil {
		out = c.note(fmt.Sprintf("server %s leases %s until %s", l.Server, l.Address, l.End.UTC().Format(time.RFC3339)))
	}
	c.lease, c.offer, c.rest, c.decline, c.noted, c.fault = l, nil, 0, 0, "", ""
	c.state, c.tries = Bound, 0
	return append(append(out, SetLease{l}), c.wait(l.Renew.Sub(e.At))...)
}

// drop removes the lease, if there is one.
func (c *Client) drop(why string) []Effect {
	if c.lease == nil {
		return nil
	}
	c.lease = nil
	var out []Effect
	if why != "" {
		out = c.note(why)
	}
	return append(out, SetLease{})
}

// pause waits before the client looks for a server again: ever longer while servers refuse it.
func (c *Client) pause(e Event) []Effect {
	c.enter(Init, e)
	c.offer = nil
	c.rest = refused.Next(c.rest)
	return c.wait(c.rest)
}

// fail returns a Note of why there is no lease.
func (c *Client) fail(text string) []Effect {
	c.fault = text
	return c.note(text)
}

// note returns a Note, once for each text: a server can refuse the client for ever.
func (c *Client) note(text string) []Effect {
	if text == c.noted {
		return nil
	}
	c.noted = text
	return []Effect{Note{text}}
}

// release gives the lease back and ends the client.
func (c *Client) release(e Event) []Effect {
	c.closed = true
	if c.lease == nil && c.state == Checking { // the server counts it as leased
		c.lease = c.offer
	}
	if c.lease == nil {
		return nil
	}
	l := c.lease
	c.lease = nil
	var out []Effect
	if c.state != Off {
		out = append(out, Send{netstate.DHCPQuery{Type: netstate.DHCPRelease, XID: e.Random, Client: l.Address.Addr(),
			Server: l.Server, To: l.Server, Via: l.Via}})
	}
	return append(out, SetLease{})
}
