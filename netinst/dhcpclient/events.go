package dhcpclient

import (
	"net/netip"
	"time"

	"edgespan/netinst/netstate"
)

// Event is an input of a Client's Step: what happened, when, and a random number.
type Event struct {
	At     time.Time
	Random uint32
	What   What
}

// What happened.
type What interface{ dhcpEvent() }

// The events.
type (
	// LinkChanged reports whether the interface has carrier.
	LinkChanged struct{ Up bool }
	// Received carries a server's reply.
	Received struct{ Reply netstate.DHCPReply }
	// Checked reports the end of a Check: InUse is the MAC address of the host that has the address, "" if none answered.
	Checked struct {
		Address netip.Addr
		InUse   string
	}
	// Due reports the end of a Wait.
	Due struct{ Token uint64 }
	// Released reports that the config no longer wants the lease.
	Released struct{}
)

func (LinkChanged) dhcpEvent() {}
func (Received) dhcpEvent()    {}
func (Checked) dhcpEvent()     {}
func (Due) dhcpEvent()         {}
func (Released) dhcpEvent()    {}

// Effect is an output of a Client's Step.
type Effect interface{ dhcpEffect() }

// The effects.
type (
	// Send sends a message.
	Send struct{ Query netstate.DHCPQuery }
	// Wait asks for a Due; it replaces a former one.
	Wait struct {
		Token uint64
		After time.Duration
	}
	// Check asks whether another host has an address; Checked answers it.
	Check struct{ Address netip.Addr }
	// SetLease replaces the lease; nil removes it.
	SetLease struct{ Lease *Lease }
	// Note is for the log: what a server did that matters to people.
	Note struct{ Text string }
)

func (Send) dhcpEffect()     {}
func (Wait) dhcpEffect()     {}
func (Check) dhcpEffect()    {}
func (SetLease) dhcpEffect() {}
func (Note) dhcpEffect()     {}
