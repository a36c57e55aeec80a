package simulate

import (
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/commitconfirm"
)

// injectsBadHealth reports whether the node's health is bad under a config.
func (n *node) injectsBadHealth(p commitconfirm.Publish) bool {
	if n.fault != Unhealthy || !pushed(p) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.struck[p.Generation]
}

// meets counts the node's configs, and reports whether its fault begins now. The agent does not have the config yet.
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
		default: // they begin later
		}
	}
	return first
}

// hangs reports whether the node sends nothing.
func (n *node) hangs() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hung != config.Generation{} && n.hung == n.latest
}

// confirmArrives reports whether a confirmation reaches the node.
func (n *node) confirmArrives(g config.Generation) bool {
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

// awayUntil returns a channel that is closed when the node has links again; nil while it has links.
func (n *node) awayUntil() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.away
}

// linked gives the node its links or takes them away.
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

// hangUp ends the current stream.
func (l *life) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hangup != nil {
		l.hangup()
	}
}

// injectFault starts the node's fault. The push is in the agent's mailbox: what the agent sends and writes for it
// almost always comes after this.
func (l *life) injectFault() {
	switch l.node.fault {
	case Silent:
		l.muted.Store(time.Now().Add(SilentFor).UnixNano())
	case Crash:
		l.armed.Store(true)
	case Disconnect:
		l.hangUp()
	case LinkLoss:
		l.node.fleet.loseLinks(l.node.index)
	default: // the validator or the host injects them, or meets has
	}
}
