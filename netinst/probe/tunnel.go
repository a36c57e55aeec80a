package probe

import (
	"fmt"
	"time"
)

// A provider may let everything pass but the packets of a tunnel, such as all UDP to its port: then each probe of the
// uplink is answered, and the tunnel is dead. So what a network of type vpn hears of its tunnel is a probe, too. A
// tunnel that is not answered for TunnelSilence leaves its port for another one that works, and keeps away from it,
// longer each time: returning is a trial that may interrupt a tunnel that works elsewhere. Nobody knows whether the
// path is to blame or the other end. If a port to which the tunnel has moved is as silent, it was the other end, once
// that answers again: then all ports are as before. While it is silent, all ports are tried again from time to time.
// But if it is answered by a port to which it has moved, the one before is to blame until it is answered by that
// one: the other end may be away later, for its own reasons.

// TunnelSilence is how long a tunnel must have been asked without an answer, by the port in use, to leave it.
const TunnelSilence = time.Minute

// How long a tunnel keeps away from a port by which it was not answered: it doubles each time, up to maxAway. A day
// without such a failure ends the counting.
const (
	firstAway = 10 * time.Minute
	maxAway   = 6 * time.Hour
	calmAway  = 24 * time.Hour
	// maxRest bounds it while the tunnel is not answered by the port in use either: then a trial interrupts nothing.
	maxRest = 30 * time.Minute
)

// Heard is what is heard of a tunnel.
type Heard struct {
	Silent     time.Time // since when it has got no answer; zero: it gets answers, or asks nothing
	Answered   bool      // there was an answer since the last time
	IPv4, IPv6 bool      // the families by which it calls other ends; none if that is not known
}

// calls reports whether it calls other ends by a family, as far as that is known.
func (h Heard) calls(ipv6 bool) bool {
	return h.IPv4 == h.IPv6 || ipv6 == h.IPv6
}

// tunnel is what is known of the network's tunnel.
type tunnel struct {
	Heard // with all families since it is silent
	// lost means that it has not been answered by the port in use for TunnelSilence.
	lost bool
}

// tunnelSeen takes into account what is heard of the tunnel.
func (c *Chooser) tunnelSeen(e TunnelSeen) {
	was, now := c.tunnel, e.Heard
	if !now.Silent.IsZero() && !was.Silent.IsZero() {
		now.IPv4, now.IPv6 = now.IPv4 || was.IPv4, now.IPv6 || was.IPv6
	}
	c.tunnel = tunnel{Heard: now, lost: was.lost && !now.Silent.IsZero()}
	if now.Silent.IsZero() && was.lost { // by the same port: the other end was away
		for _, p := range c.ports {
			if !p.away.Proven {
				p.away.Until = time.Time{}
			}
		}
	}
	if now.Answered {
		c.answered(e.At)
	}
}

// answered clears the ports in use by which the tunnel is answered, and blames those from which it keeps away.
func (c *Chooser) answered(now time.Time) {
	for selector, x := range c.chosen {
		used := c.portOf(selector, x.Label)
		if used == nil || !c.tunnel.calls(used.IPv6) {
			continue
		}
		for _, p := range c.ports {
			if p != used && p.IPv6 == used.IPv6 && now.Before(p.away.Until) {
				p.away.Proven = true
			}
		}
		used.away.Proven, used.away.Until = false, time.Time{}
	}
}

// forgetTunnel forgets that of a network that had one.
func (c *Chooser) forgetTunnel() {
	c.tunnel, c.record.Aways = tunnel{}, nil
	for _, p := range c.ports {
		p.away = Hold{}
	}
}

// lostAt returns when a tunnel that remains silent counts as lost by a port in use since a time; zero: it is answered.
func (c *Chooser) lostAt(since time.Time) time.Time {
	if c.tunnel.Silent.IsZero() {
		return time.Time{}
	}
	if c.tunnel.Silent.After(since) {
		since = c.tunnel.Silent
	}
	return since.Add(TunnelSilence)
}

// leaveSilent keeps the tunnel away from the ports in use by which it is not answered, if others work.
func (c *Chooser) leaveSilent(now time.Time) {
	for _, p := range c.ports {
		if p.away.Until.After(now.Add(maxAway)) { // journalled by a clock that was ahead
			p.away.Until = now.Add(firstAway)
		}
	}
	for selector, x := range c.chosen {
		if x.Since.After(now) { // chosen by such a clock
			x.Since = now
			c.chosen[selector] = x
		}
	}
	for selector, x := range c.chosen {
		at := c.lostAt(x.Since)
		if at.IsZero() || now.Before(at) || !c.tunnel.calls(IsOfIPv6(selector)) {
			continue
		}
		c.tunnel.lost = true
		p := c.portOf(selector, x.Label)
		switch {
		case p == nil:
		case !now.Before(p.away.Until) && c.another(selector, x.Label, now):
			p.away.keepAway(now)
		default:
			c.shortenRests()
		}
	}
}

// keepAway begins another time in which a tunnel keeps away from a port.
func (h *Hold) keepAway(now time.Time) {
	if h.Last.Add(calmAway).Before(now) {
		h.Fails = 0
	}
	h.Fails, h.Last, h.Proven = h.Fails+1, now, false
	h.Until = now.Add(min(firstAway<<min(h.Fails-1, 10), maxAway))
}

// shortenRests lets the tunnel try a port again that it keeps away from, while no other is better, the one in use
// included; one that is to blame only after it has been silent for long.
func (c *Chooser) shortenRests() {
	for _, p := range c.ports {
		rest := p.away.Last.Add(maxRest)
		if p.away.Proven {
			rest = c.tunnel.Silent.Add(maxRest)
		}
		if p.away.Until.After(rest) {
			p.away.Until = rest
		}
	}
}

// portOf returns a port of a selector by its label, nil for none.
func (c *Chooser) portOf(selector, label string) *port {
	if IsOfIPv6(selector) {
		label = OfIPv6(label)
	}
	return c.ports[label]
}

// another reports whether a selector has a port with another label that works, and that no operator keeps free.
func (c *Chooser) another(selector, label string, now time.Time) bool {
	for _, s := range c.scores(selector, now) {
		if s.Label != label && s.Class > DrainedPort {
			return true
		}
	}
	return false
}

// unanswered says why the tunnel keeps away from a port, "" if it does not.
func (p *port) unanswered(now time.Time) string {
	if !now.Before(p.away.Until) {
		return ""
	}
	return fmt.Sprintf("the other end of the tunnel did not answer by it for %v; tried again after %s", TunnelSilence,
		p.away.Until.UTC().Format(time.RFC3339))
}
