package netinst

import "time"

// overlapRest is how long a clash has to be over before the network comes back: an address
// that comes and goes, as some DHCP clients renew it, must not have the network do so each time.
const overlapRest = time.Second

// overlapState is what a manager knows of the host's prefixes in its subnet.
type overlapState struct {
	known   bool          // it was told
	now     SubnetOverlap // as told last
	clash   SubnetOverlap // the one that is over and counts still, zero for none
	restTok uint64
}

// counts is the overlap that the desired state follows from.
func (o *overlapState) counts() SubnetOverlap {
	if o.now.Clash == "" && o.clash.Clash != "" && o.clash.Subnet == o.now.Subnet {
		return o.clash
	}
	return o.now
}

// answers says whether what was told is of the config's subnet: a network never takes a
// subnet that was not compared with what the host has.
func (o *overlapState) answers(c NetworkInstanceConfig) bool {
	return !o.known || o.now.Subnet == c.IPv4.Subnet
}

// end lets a clash that is over count no longer.
func (o *overlapState) end() { o.clash, o.restTok = SubnetOverlap{}, 0 }

// overlapChanged notes what was told. A clash counts at once, its end after overlapRest.
func (m *Manager) overlapChanged(now SubnetOverlap) []Effect {
	o, was := &m.overlap, m.overlap.counts()
	o.known, o.now = true, now
	switch {
	case now.Clash != "" || was.Clash == "" || was.Subnet != now.Subnet:
		o.end()
		return m.change()
	case o.restTok == 0:
		m.token++
		o.clash, o.restTok = was, m.token
		return []Effect{Timer{o.restTok, overlapRest, false}}
	}
	return nil
}
