package ipsec

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what strangers can make the daemon do, and say.
const (
	callersMax  = 64              // callers that are known
	callerLines = 1024            // lines about callers in which a cause is looked for, of those that are read at once
	callerWords = 300             // octets of a sentence
	callerLasts = 5 * time.Minute // a cause of a caller that does not call again
	callerHolds = 30 * time.Second
)

// callers are the IKE_SAs that others have begun, and that are not established: anyone on the internet may be behind
// them. What keeps one from being established is of interest if it is the peer's, so it is said behind what is known of
// the tunnel itself, and never if the tunnel works. An IKE_SA that is established is the peer's, and no longer here.
type callers struct {
	peers []netip.Addr // addresses of the configured peer, nil while they are not known
	all   map[uint64]*caller
	left  int    // lines that are still looked at
	shown caller // what is said now; it stays for callerHolds unless a more exact cause comes
	since time.Time
}

// caller is an IKE_SA that another has begun.
type caller struct {
	number uint64 // of the IKE_SA; a later one has a higher number
	from   netip.Addr
	said   string // its cause, "" for none
	rank   int
	at     time.Time // of the cause
}

// hear takes a line about an IKE_SA that another has begun into account. group is that of the log, such as IKE.
func (c *callers) hear(w *words, number uint64, at time.Time, group, line string) {
	x := c.all[number]
	if group == "NET" || group == "ENC" { // each packet has several of these, and no cause
		if rest, ok := strings.CutPrefix(line, "received packet: from "); ok && x == nil {
			c.admit(number, rest, w.peer.Address != "")
		}
		return
	}
	if x == nil || c.left <= 0 {
		return
	}
	c.left--
	for _, one := range causes {
		f := one.line.FindStringSubmatch(line)
		if f == nil {
			continue
		}
		if one.rank < x.rank {
			return
		}
		said := one.means(w, f)
		if w.peer.Address == "" {
			said = fmt.Sprintf("%s (a call from %s)", clip(said), x.from)
		}
		c.forget(x.from)
		x.said, x.rank, x.at = clip(said), one.rank, at
		c.all[number] = x
		return
	}
}

// clip bounds a sentence: callers choose their names.
func clip(s string) string {
	const mark = "…"
	if len(s) <= callerWords {
		return s
	}
	return strings.ToValidUTF8(s[:callerWords-len(mark)], "") + mark
}

// admit notes where a caller calls from, if it may be the peer. Of too many it forgets one that says nothing, or else
// what says least.
func (c *callers) admit(number uint64, from string, known bool) {
	text, _, _ := strings.Cut(from, "[")
	a, err := netip.ParseAddr(text)
	if err != nil {
		return
	}
	a = a.Unmap()
	if known && c.peers != nil && !slices.Contains(c.peers, a) {
		return
	}
	if c.all == nil {
		c.all = map[uint64]*caller{}
	}
	if len(c.all) >= callersMax {
		var least *caller
		for _, x := range c.all {
			if least == nil || x.rank < least.rank || x.rank == least.rank && x.number < least.number {
				least = x
			}
		}
		delete(c.all, least.number)
	}
	c.all[number] = &caller{number: number, from: a}
}

// forget drops what the earlier calls from an address have shown.
func (c *callers) forget(from netip.Addr) {
	for n, x := range c.all {
		if x.from == from && x.said != "" {
			delete(c.all, n)
		}
	}
}

// joins takes a caller out that is the peer, as it has proven.
func (c *callers) joins(number uint64) {
	if x := c.all[number]; x != nil {
		delete(c.all, number)
		c.forget(x.from)
	}
}

// clear drops all that callers have shown.
func (c *callers) clear() { c.all, c.shown = nil, caller{} }

// says returns the most exact cause of the callers, the newest of those, "" for none. known means that the peer has a
// configured address: then only calls from there count. Strangers change the sentence at most once in callerHolds.
func (c *callers) says(now time.Time, known bool) string {
	var best *caller
	for _, x := range c.all {
		if x.said == "" || now.Sub(x.at).Abs() > callerLasts || known && !slices.Contains(c.peers, x.from) {
			continue
		}
		if best == nil || x.rank > best.rank || x.rank == best.rank && x.number > best.number {
			best = x
		}
	}
	switch {
	case best == nil:
		c.shown = caller{}
	case c.shown.said == "" || best.rank > c.shown.rank || now.Sub(c.since).Abs() >= callerHolds:
		c.shown, c.since = *best, now
	}
	return c.shown.said
}

// isOwn reports whether an IKE_SA is this node's or that of the peer, which has proven to be it.
func (w *words) isOwn(number uint64) bool { return w.own[number] }

func (w *words) setOwn(number uint64) {
	if w.own == nil {
		w.own = map[uint64]bool{}
	}
	w.own[number] = true
	w.callers.joins(number)
}

// keepOwn takes over which IKE_SAs charon has: an earlier daemon may have read how they began. Of those that have ended
// it keeps the last ones, which may not have been read about yet.
func (w *words) keepOwn(sas []sa) {
	const last = 64
	var top uint64
	for n := range w.own {
		top = max(top, n)
	}
	for n := range w.own {
		if n+last <= top {
			delete(w.own, n)
		}
	}
	for _, x := range sas {
		if n, err := strconv.ParseUint(x.id, 10, 64); err == nil && (x.initiator || x.state != "CONNECTING") {
			w.setOwn(n)
		}
	}
}

// sentence is what keeps the tunnel from working, "" for nothing: what its own tries have shown, then what callers
// have. Either may know more. up means that packets pass: then no call matters.
func (w *words) sentence(now time.Time, up bool) string {
	if up {
		w.callers.clear()
		return w.said
	}
	call := w.callers.says(now, w.peer.Address != "")
	switch {
	case w.said == "":
		return call
	case call == "":
		return w.said
	case w.peer.Address == "":
		return w.said + "; when a peer calls: " + call
	}
	return w.said + "; when it calls: " + call
}
