package daemon

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"edgespan/actors/agent"
	"edgespan/config/fleet/nodeproto"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/nodelink"
)

// linkFacts are what changes with the link to the controller.
type linkFacts struct {
	clusterKey
	controllers
	wake atomic.Pointer[func()]
}

var _ agent.LinkFacts = (*linkFacts)(nil)

// newLinkFacts returns the facts of a node with these controllers, joined by commas.
func newLinkFacts(given string) *linkFacts {
	l := &linkFacts{}
	l.clusterKey.changed, l.controllers.changed = l.tell, l.tell
	all, _ := nodelink.Addresses(given) // the link refuses others
	for _, one := range all {
		if at, err := netip.ParseAddrPort(one); err == nil {
			l.given = append(l.given, at.Addr().Unmap())
		}
	}
	return l
}

// Watch makes f be called after each change.
func (l *linkFacts) Watch(f func()) { l.wake.Store(&f) }

func (l *linkFacts) tell() {
	if f := l.wake.Load(); f != nil {
		(*f)()
	}
}

// Up notes that the controller is connected, and Down that it is not.
func (l *linkFacts) up(is bool) {
	if now := time.Now(); is {
		l.link.Store(&now)
	} else {
		l.link.Store(nil)
	}
}

// hear lets what the node hears of its clusters decide about their key.
func (n *node) hear() {
	if n.facts == nil {
		return
	}
	f := func(since time.Time) bool {
		t := n.Topics()
		return silenced(t.Tunnels.List(""), t.NetworkConfig.List(""), since)
	}
	n.facts.silenced.Store(&f)
}

// upFor is how long a WireGuard peer counts as up after a handshake: one that is used has another each 2 minutes.
const upFor = 3 * time.Minute

// silenced reports whether a member of an encrypted cluster was up at a time and has not answered since, or whether
// none has: after a boot it is not known which were up.
func silenced(tunnels map[string]netstate.TunnelStatus, networks map[string]netinst.NetworkInstanceConfig,
	since time.Time) bool {
	members, answered := 0, 0
	for id, s := range tunnels {
		if !networks[id].IsEncrypted() {
			continue
		}
		for _, p := range s.Peers {
			members++
			switch last := p.LastHandshake; {
			case last.After(since):
				answered++
			case last.After(since.Add(-upFor)):
				return true
			}
		}
	}
	return members > 0 && answered == 0
}

// maxDialed bounds the addresses of names that are remembered: resolvers may give any number, and always others.
const maxDialed = 16

// controllers are the addresses of the controllers.
type controllers struct {
	mu      sync.Mutex
	given   []netip.Addr
	dialed  []netip.Addr // in the order in which they were dialed last
	changed func()
}

// dial notes an address that is about to be dialed.
func (c *controllers) dial(a netip.Addr) {
	a = a.Unmap()
	c.mu.Lock()
	i := slices.Index(c.dialed, a)
	if i >= 0 {
		c.dialed = slices.Delete(c.dialed, i, i+1)
	} else if len(c.dialed) == maxDialed {
		c.dialed = slices.Delete(c.dialed, 0, 1)
	}
	c.dialed = append(c.dialed, a)
	c.mu.Unlock()
	if i < 0 {
		c.changed()
	}
}

// Controllers returns the addresses of the controllers, sorted.
func (c *controllers) Controllers() []netip.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Concat(c.given, c.dialed)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// watchedLink notes when the controller is connected.
type watchedLink struct {
	nodelink.Listener
	facts *linkFacts
}

// Up implements nodelink.Listener.
func (w watchedLink) Up(s nodeproto.ToController) {
	w.facts.up(true)
	w.Listener.Up(s)
}

// Down implements nodelink.Listener.
func (w watchedLink) Down(cause error) {
	w.facts.up(false)
	w.Listener.Down(cause)
}
