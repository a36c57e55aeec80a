package simulate

import (
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/commitconfirm"
)

// bad says whether something is bad under a config that was good before.
func (n *node) bad(p commitconfirm.Publish) bool {
	if n.fault != Unhealthy || !pushed(p) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.struck[p.Generation]
}

// meets counts the configs of a node and says whether its fault is to come now, for the first
// time. The agent does not know the config yet.
func (n *node) meets(g config.Generation) (first bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.fleet.armed.Load() {
		return false
	}
	if g != n.latest || n.configs == 0 {
		n.configs++
		n.latest = g
	}
	if n.fault == "" || n.configs < n.fleet.o.FaultsAt {
		return false
	}
	n.struck[g] = true
	first = !n.strikes.Swap(true)
	if first {
		switch n.fault {
		case Hang:
			n.hung = g
		case Rollback:
			n.deaf = g
		default: // comes later
		}
	}
	return first
}

// hangs says whether the node says nothing.
func (n *node) hangs() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hung != config.Generation{} && n.hung == n.latest
}

// hears says whether a confirm comes through.
func (n *node) hears(g config.Generation) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return g != n.deaf
}

// rolledBack ends the deafness: the same config may come again.
func (n *node) rolledBack() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf = config.Generation{}
}

// isAway is until when the node has no links; nil while it has them.
func (n *node) isAway() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.away
}

// linked gives the node its links, or takes them.
func (n *node) linked(yes bool) {
	n.mu.Lock()
	l, was := n.life, n.away == nil
	switch {
	case was && !yes:
		n.away = make(chan struct{})
	case !was && yes:
		close(n.away)
		n.away = nil
	}
	n.mu.Unlock()
	if was && !yes && l != nil {
		l.hangUp()
	}
}

// hangUp ends the stream that stands.
func (l *life) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hangup != nil {
		l.hangup()
	}
}

// injectFault lets the fault of the node come. The push is in the agent's mailbox: what it says
// and writes comes after this or hardly before it.
func (l *life) injectFault() {
	switch l.node.fault {
	case Silent:
		l.muted.Store(time.Now().Add(SilentFor).UnixNano())
	case Crash:
		l.armed.Store(true)
	case Disconnect:
		l.hangUp()
	case LinkLoss:
		l.node.fleet.loses(l.node.index)
	default: // the judge's and the host's, or known before
	}
}
