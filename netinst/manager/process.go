package manager

import (
	"fmt"
	"time"

	"edgespan/netinst"
)

// processStable is how long a process must run for its next end to count as the first.
const processStable = time.Minute

// processEnds records processes that ended by themselves. Each start succeeds, so the back-off of failed applies does
// not slow a process that keeps ending.
type processEnds struct {
	count   int // in a row
	last    time.Time
	rest    time.Duration // before the next start
	restTok uint64        // of the current rest, 0 for none
	why     string
}

// processEnded observes the host at once after the first end, and after a rest that doubles with each further one. A
// change of the desired state does not wait for the rest.
func (m *Manager) processEnded(at time.Time) []Effect {
	p := &m.ends
	if at.Sub(p.last) > p.rest+processStable {
		p.count, p.rest = 0, 0
	}
	p.count++
	p.last = at
	if p.count == 1 || m.intent != desired {
		return m.change()
	}
	p.rest = retries.Next(p.rest)
	which := "process dnsmasq has ended by itself"
	if m.config.HasTunnel() {
		which = "process dnsmasq or that of the tunnel has ended by itself or hung"
	}
	p.why = fmt.Sprintf("%s %d times in a row; next start in %v", which, p.count, p.rest)
	m.token++
	p.restTok = m.token
	return append(m.show(netinst.CheckPresentFailed, p.why), Timer{p.restTok, p.rest, false})
}
