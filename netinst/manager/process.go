package manager

import (
	"fmt"
	"time"

	"edgespan/netinst"
)

// processStable is how long a process has to run for its next end to be a first one.
const processStable = time.Minute

// ends is what a manager remembers of processes that ended by themselves. Each start
// succeeds, so the back-off of a failed apply does not hold one that dies again.
type ends struct {
	count   int // in a row
	last    time.Time
	rest    time.Duration // before the next start
	restTok uint64        // of the rest under way, 0 without one
	why     string
}

// processEnded looks at the host at once the first time, and after a rest that
// doubles when it happens again and again. A new wish does not wait for the rest.
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
	p.why = fmt.Sprintf("process dnsmasq has ended by itself %d times in a row; next start in %v", p.count, p.rest)
	m.token++
	p.restTok = m.token
	return append(m.show(netinst.CheckPresentFailed, p.why), Timer{p.restTok, p.rest, false})
}
