package manager

import (
	"time"

	"edgespan/netinst"
	"edgespan/netinst/overlap"
	"edgespan/pubsub/backoff"
)

// overlapRest is how long a clash must be over before the network returns: an address that comes and goes, as with some
// DHCP clients at renewal, must not remove and restore the network each time. If the clash returns again and again, as
// a DHCP server on the uplink can cause, the delay doubles; after overlapCalm without a clash it starts at the first
// value again.
var overlapRest = backoff.Backoff{First: time.Second, Max: time.Minute}

const overlapCalm = 10 * time.Minute

// overlapState is what a manager knows of the host's prefixes in its subnet.
type overlapState struct {
	known   bool            // an overlap was received
	now     overlap.Overlap // the last overlap received
	clash   overlap.Overlap // the clash that is over and still counts, zero for none
	restTok uint64
	rest    time.Duration // of the last end of a clash, 0 after overlapCalm
	calmTok uint64        // of the timer after which rest is 0 again
}

// effective returns the overlap that the desired state uses.
func (o *overlapState) effective() overlap.Overlap {
	if o.now.Clash == "" && o.clash.Clash != "" && o.clash.Subnet == o.now.Subnet {
		return o.clash
	}
	return o.now
}

// matches reports whether the last overlap is for the config's subnet: a network never uses a subnet that was not
// compared with the host's prefixes.
func (o *overlapState) matches(c netinst.NetworkInstanceConfig) bool {
	return !o.known || o.now.Subnet == c.IPv4.Subnet
}

// clear discards a clash that is over.
func (o *overlapState) clear() { o.clash, o.restTok = overlap.Overlap{}, 0 }

// overlapChanged stores an overlap. A clash takes effect at once, its end after overlapRest.
func (m *Manager) overlapChanged(now overlap.Overlap) []Effect {
	o, was := &m.overlap, m.overlap.effective()
	o.known, o.now = true, now
	switch {
	case now.Clash != "" || was.Clash == "" || was.Subnet != now.Subnet:
		o.clear()
		return m.change()
	case o.restTok == 0:
		m.token++
		o.clash, o.restTok = was, m.token
		o.rest = overlapRest.Next(o.rest)
		return []Effect{Timer{o.restTok, o.rest, false}}
	}
	return nil
}

// endOverlap restores the network, and starts the wait for overlapCalm.
func (m *Manager) endOverlap() []Effect {
	m.overlap.clear()
	m.token++
	m.overlap.calmTok = m.token
	return append(m.change(), Timer{m.overlap.calmTok, overlapCalm, false})
}
