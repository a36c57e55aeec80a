package probe

import (
	"fmt"
	"slices"
	"time"
)

// Class is how well a port can be used. A port of a higher class is chosen whatever the cost.
type Class uint8

// The classes, the worst first.
const (
	Unusable     Class = iota // missing or down
	Addressless               // up, without an address
	Routeless                 // up, with an address
	Dead                      // up, with a default route, and its gateway does not answer
	NoTarget                  // no remote target answers; its gateway does, or can't be asked
	TunnelSilent              // works, but the network's tunnel was not answered by it
	DrainedPort               // works, but an operator keeps it free
	Held                      // works again, and not for long enough
	Degraded                  // works, beyond a limit of loss or latency
	Working
)

// lowestWorking is the lowest class of a port that works.
const lowestWorking = DrainedPort

// Works reports whether a port of the class leads out.
func (c Class) Works() bool { return c >= lowestWorking }

func (c Class) String() string {
	return [...]string{"unusable", "no address", "no default route", "dead", "no target answers",
		"tunnel not answered", "drained", "held", "degraded", "works"}[c]
}

// classify returns the class of a port whatever its hold-down, and why it is no better one.
func (c *Chooser) classify(p *port) (Class, string) {
	family := ""
	if p.IPv6 {
		family = "IPv6 "
	}
	switch p.Reach {
	case Down:
		return Unusable, p.IfName + " is missing or down"
	case NoAddress:
		return Addressless, p.IfName + " has no " + family + "address"
	case NoRoute:
		return Routeless, p.IfName + " has no " + family + "default route"
	}
	gateway, remote := c.healthOf(p.gateway), c.healthOf(p.remote)
	near, far := combined(gateway, 1), combined(remote, c.config.quorum(p.IPv6))
	switch {
	case len(gateway) > 0 && near == Fails && (len(remote) == 0 || far != Works):
		return Dead, c.failure(p.gateway)
	case len(remote) > 0 && far == Fails:
		return NoTarget, c.failure(p.remote)
	}
	if p.hold.Failed && far != Works && (len(remote) > 0 || near != Works) {
		return NoTarget, "failed last, and has not answered since"
	}
	if why := c.beyondLimits(p); why != "" {
		return Degraded, why
	}
	return Working, ""
}

// healthOf returns what is known of probes, without those that can't be sent.
func (c *Chooser) healthOf(ids []ID) []*health {
	list := make([]*health, 0, len(ids))
	for _, id := range ids {
		if h := c.health[id]; !h.none {
			list = append(list, h)
		}
	}
	return list
}

// failure names the probe that fails.
func (c *Chooser) failure(ids []ID) string {
	for _, id := range ids {
		if h := c.health[id]; h.state == Fails {
			return fmt.Sprintf("%s %s: %s", id.Method, id.Target, h.last)
		}
	}
	return ""
}

// measured are the probes by whose loss and latency a port is judged: the remote ones, or its gateway's.
func (p *port) measured() []ID {
	if len(p.remote) > 0 {
		return p.remote
	}
	return p.gateway
}

// quality returns loss and latency of the best of a port's remote probes, or of its gateway's.
func (c *Chooser) quality(p *port) (loss int, latency time.Duration) {
	loss = -1
	for _, h := range c.healthOf(p.measured()) {
		if h.state == Works && (loss < 0 || h.loss() < loss) {
			loss, latency = h.loss(), rounded(h.latency)
		}
	}
	return max(loss, 0), latency
}

// leastLoss returns the loss of the best of a port's remote probes, or of its gateway's, whether they work or not.
func (c *Chooser) leastLoss(p *port) int {
	least := 100
	for _, h := range c.healthOf(p.measured()) {
		least = min(least, h.loss())
	}
	return least
}

// date sets since when each port has its class: a class that the port had when it was shown last keeps its time.
func (c *Chooser) date(scores []Score, selector string, now time.Time) {
	for i := range scores {
		s := &scores[i]
		s.Since = now
		for _, before := range c.shown[selector].Ports {
			if before.Label == s.Label && before.Class == s.Class {
				s.Since = before.Since
			}
		}
	}
}

// rounded returns a latency as people compare it: each outcome changes the last digits.
func rounded(d time.Duration) time.Duration {
	step := 100 * time.Microsecond
	for 20*step < d {
		step *= 2
	}
	return d.Round(step)
}

// beyondLimits returns which limit a port exceeds, "" for none. A port in use is given a fifth more, so that one at a
// limit moves no network to and fro.
func (c *Chooser) beyondLimits(p *port) string {
	loss, latency := c.quality(p)
	slack := 5
	for selector, x := range c.chosen {
		if x.Label == p.Label && IsOfIPv6(selector) == p.IPv6 {
			slack = 6
		}
	}
	if limit := c.config.MaxLoss; limit > 0 && 5*loss > slack*limit {
		return fmt.Sprintf("loses %d %%, more than %d %%", loss, limit)
	}
	if limit := c.config.MaxLatency; limit > 0 && 5*latency > time.Duration(slack)*limit {
		return fmt.Sprintf("answers after more than %v", limit)
	}
	return ""
}

// scores judges the ports of a selector, the best first.
func (c *Chooser) scores(selector string, now time.Time) []Score {
	current := c.chosen[selector].Label
	var list []Score
	for _, p := range c.ports {
		if !slices.Contains(p.Selectors, selector) {
			continue
		}
		s := Score{Label: p.Label, Cost: p.Cost, Resting: now.Before(p.hold.Until)}
		s.Class, s.Why = c.classify(p)
		s.Loss, s.Latency = c.quality(p)
		if s.Class == Dead || s.Class == NoTarget {
			s.Loss = c.leastLoss(p)
		}
		until, drained := c.drained[p.Label]
		why := p.unanswered(now)
		switch {
		case s.Class < lowestWorking:
		case why != "":
			s.Class, s.Why = TunnelSilent, why
		case drained && (until.IsZero() || now.Before(until)):
			s.Class, s.Why = DrainedPort, "until it is undrained"
			if !until.IsZero() {
				s.Why = "until " + until.UTC().Format(time.RFC3339)
			}
		case s.Class == Working && p.Label != current && now.Before(p.held()),
			p.Label != current && now.Before(p.hold.Until):
			s.Class, s.Held = Held, p.held()
			s.Why = "works again since a short time"
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Score) int { return better(a, b, current) })
	return list
}

// reason says why the first of the scores was chosen, and the port before was left.
func reason(scores []Score, before string) string {
	if len(scores) == 0 {
		return "no port"
	}
	best := scores[0]
	text := fmt.Sprintf("%s: %s", best.Label, best.Class)
	if best.Why != "" {
		text += " (" + best.Why + ")"
	}
	for _, s := range scores {
		switch {
		case s.Label != before || before == best.Label:
		case s.Class != best.Class:
			return fmt.Sprintf("%s; %s: %s (%s)", text, s.Label, s.Class, s.Why)
		default:
			return fmt.Sprintf("%s, cost %d; %s: cost %d", text, best.Cost, s.Label, s.Cost)
		}
	}
	return text
}
