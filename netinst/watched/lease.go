package watched

import (
	"fmt"
	"net/netip"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// LeaseState is what DHCP has last said of an adapter's address.
type LeaseState string

// The states; "" is none yet.
const (
	Assigned   LeaseState = "assigned"
	Renewed    LeaseState = "renewed"    // the same address again
	Mismatched LeaseState = "mismatched" // the app has another address than edgespan gave the adapter
	Released   LeaseState = "released"   // the app gave the address back
	Declined   LeaseState = "declined"   // the app found the address in use
	Nacked     LeaseState = "refused"    // the server refused what the app asked for
	Expired    LeaseState = "expired"    // the app did not renew it
)

// Lease is the lease of an adapter.
type Lease struct {
	State    LeaseState
	Address  netip.Addr // invalid if it was refused
	Server   netip.Addr
	At       time.Time // when State was observed last
	Until    time.Time // the end, zero for none
	Renewals uint64
	Refusals uint64
	Recorded bool // read from the server's record: it was assigned before At
}

// forever is a lease without an end (RFC 2131 §3.3).
const forever = (1<<32 - 1) * time.Second

// Current is the state at a time: an assigned lease may have ended.
func (l Lease) Current(now time.Time) LeaseState {
	if l.held() && !l.Until.IsZero() && !now.Before(l.Until) {
		return Expired
	}
	return l.State
}

func (l Lease) held() bool { return l.State == Assigned || l.State == Renewed || l.State == Mismatched }

// compare sets whether the address is the one that edgespan gave the adapter, if it gave one.
func (l *Lease) compare(with netip.Addr) {
	switch {
	case !l.held() || !with.IsValid():
	case l.Address != with:
		l.State = Mismatched
	case l.State == Mismatched:
		l.State = Assigned
	}
}

// Word is the state for a status. Renewals do not change it.
func (l Lease) Word() string {
	switch l.State {
	case Renewed:
		return string(Assigned)
	case Mismatched:
		return string(Mismatched) + " " + l.Address.String()
	}
	return string(l.State)
}

// dhcp records a message of a server to the adapter's app, or of the app.
func (a *adapter) dhcp(m netstate.DHCPMessage) {
	l := &a.lease
	before := *l
	switch m.Type {
	case netstate.DHCPAck:
		if !m.FromServer || !m.Address.IsValid() { // an answer to DHCPINFORM assigns no address (RFC 2131 §4.3.5)
			return
		}
		l.Address, l.Server, l.Until, l.Recorded = m.Address, m.Server, time.Time{}, false
		if m.Lease > 0 && m.Lease < forever {
			l.Until = m.At.Add(m.Lease)
		}
		again := before.held() && before.Address == m.Address && before.Current(m.At) != Expired
		if again {
			l.State, l.Renewals = Renewed, l.Renewals+1
		} else {
			l.State, l.Renewals = Assigned, 0
		}
		l.compare(a.IP)
	case netstate.DHCPNak:
		if !m.FromServer {
			return
		}
		l.State, l.Address, l.Until = Nacked, netip.Addr{}, time.Time{}
		l.Refusals++
	case netstate.DHCPRelease, netstate.DHCPDecline:
		if m.FromServer || !before.held() || m.Address != before.Address {
			return
		}
		l.State, l.Until = Released, time.Time{}
		if m.Type == netstate.DHCPDecline {
			l.State = Declined
		}
	default:
		return
	}
	l.At = m.At
}

// Hold takes over the leases that the network's DHCP server has recorded, of adapters of which none was observed, and
// reports whether there are any.
func (n *Network) Hold(leases []netstate.HeldLease, now time.Time) (changed bool) {
	for _, a := range n.adapters {
		for _, l := range leases {
			if l.MAC != a.MAC || a.lease.State != "" || !l.Until.IsZero() && !now.Before(l.Until) {
				continue
			}
			a.lease = Lease{State: Assigned, Address: l.Address, At: now, Until: l.Until, Recorded: true}
			a.lease.compare(a.IP)
			changed = true
		}
	}
	return changed
}

// How often the changes of one adapter's lease are reported: some at once, then one per reportEvery. An app may take
// and release a lease many times a second.
const (
	reportEvery = time.Minute
	reportBurst = 4
)

// report is what was reported of a lease.
type report struct {
	word string
	paid time.Time // until then, reports were made in advance
	held bool      // Changes has said when to call it again
}

// Change is what has changed in an adapter's lease, since the last report.
type Change struct {
	Key   netinst.AdapterKey
	Word  string // as of Lease.Word
	Lease Lease
	IP    netip.Addr // that edgespan gave the adapter
}

// Text describes the change.
func (c Change) Text() string {
	switch {
	case c.Lease.State == Mismatched:
		return fmt.Sprintf("%s: the app has %v instead of %v", Mismatched, c.Lease.Address, c.IP)
	case c.Lease.Address.IsValid():
		return c.Word + ": " + c.Lease.Address.String()
	}
	return c.Word
}

// Changes returns which leases have another Word than was reported before, as often as the limit allows. If it holds
// some back, again is the time to call it again.
func (n *Network) Changes(now time.Time) (list []Change, again time.Time) {
	for k, a := range n.adapters {
		word := a.lease.Word()
		a.report.held = false
		if word == a.report.word {
			continue
		}
		if due := a.report.paid.Add(-(reportBurst - 1) * reportEvery); now.Before(due) {
			if again.IsZero() || due.Before(again) {
				again = due
			}
			a.report.held = true
			continue
		}
		if a.report.paid.Before(now) {
			a.report.paid = now
		}
		a.report.word, a.report.paid = word, a.report.paid.Add(reportEvery)
		list = append(list, Change{k, word, a.lease, a.IP})
	}
	return list, again
}
