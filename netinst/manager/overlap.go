package manager

import (
	"time"

	"edgespan/netinst"
	"edgespan/netinst/overlap"
	"edgespan/pubsub/backoff"
)

// overlapRest is how long a clash has to be over before the network comes back: an address
// that comes and goes, as some DHCP clients renew it, must not have the network do so each time.
// Where it comes again and again, as a DHCP server on the uplink may have it do, the rest doubles;
// after overlapCalm without a clash it is the first again.
var overlapRest = backoff.Backoff{First: time.Second, Max: time.Minute}

const overlapCalm = 10 * time.Minute

// overlapState is what a manager knows of the host's prefixes in its subnet.
type overlapState struct {
	known   bool            // it was told
	now     overlap.Overlap // as told last
	clash   overlap.Overlap // the one that is over and counts still, zero for none
	restTok uint64
	rest    time.Duration // of the last end of a clash, 0 after overlapCalm
	calmTok uint64        // of the timer after which rest is 0 again
}

// counts is the overlap that the desired state follows from.
func (o *overlapState) counts() overlap.Overlap {
	if o.now.Clash == "" && o.clash.Clash != "" && o.clash.Subnet == o.now.Subnet {
		return o.clash
	}
	return o.now
}

// answers says whether what was told is of the config's subnet: a network never takes a
// subnet that was not compared with what the host has.
func (o *overlapState) answers(c netinst.NetworkInstanceConfig) bool {
	return !o.known || o.now.Subnet == c.IPv4.Subnet
}

// end lets a clash that is over count no longer.
func (o *overlapState) end() { o.clash, o.restTok = overlap.Overlap{}, 0 }

// overlapChanged notes what was told. A clash counts at once, its end after overlapRest.
func (m *Manager) overlapChanged(now overlap.Overlap) []Effect {
	o, was := &m.overlap, m.overlap.counts()
	o.known, o.now = true, now
	switch {
	case now.Clash != "" || was.Clash == "" || was.Subnet != now.Subnet:
		o.end()
		return m.change()
	case o.restTok == 0:
		m.token++
		o.clash, o.restTok = was, m.token
		o.rest = overlapRest.Next(o.rest)
		return []Effect{Timer{o.restTok, o.rest, false}}
	}
	return nil
}

// overlapOver has the network come back, and waits for calm.
func (m *Manager) overlapOver() []Effect {
	m.overlap.end()
	m.token++
	m.overlap.calmTok = m.token
	return append(m.change(), Timer{m.overlap.calmTok, overlapCalm, false})
}
