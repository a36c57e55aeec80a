package host

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/resolvconf"
)

// firstRead is how long the first event waits for other programs' DNS servers: without the wait, a restart would remove
// the servers from every network for a moment.
const firstRead = time.Second

// learner joins the interfaces with the DNS servers that other programs have learned.
type learner struct {
	host  *Host
	links chan []resolvconf.Link
	read  chan struct{} // closed after the first read
	first sync.Once

	mu     sync.Mutex
	ifaces []netstate.Interface // the kernel's latest
	latest map[string][]netstate.DNSSource
}

// learn starts reading, until ctx ends; it returns nil if the files don't belong to this namespace's links.
func (h *Host) learn(ctx context.Context, tell func(netstate.HostEvent)) *learner {
	if h.resolvers == "" || !h.learning.TryLock() { // an earlier read still hangs
		return nil
	}
	l := &learner{host: h, links: make(chan []resolvconf.Link, 1), read: make(chan struct{})}
	go func() {
		defer h.learning.Unlock()
		resolvconf.Reader{Root: h.resolvers}.Watch(ctx, l.links, h.reread,
			func(by map[string][]netstate.DNSSource) { l.applySources(by, tell) })
	}()
	return l
}

// RereadDNS reads other programs' DNS servers now: a file behind a distant symlink, or on a network file system, sends
// no notification.
func (h *Host) RereadDNS() {
	select {
	case h.reread <- struct{}{}:
	default: // already due
	}
}

// applySources stores the sources and emits the interfaces again.
func (l *learner) applySources(by map[string][]netstate.DNSSource, tell func(netstate.HostEvent)) {
	own := l.host.kernel.Addresses()
	for link, sources := range by {
		by[link] = resolvconf.Own(sources, func(a netip.Addr) bool { return own[a] })
	}
	l.mu.Lock()
	defer l.mu.Unlock() // emit older state first
	l.latest = by
	l.first.Do(func() { close(l.read) })
	if l.ifaces != nil {
		tell(netstate.HostEvent{Interfaces: l.attached(l.ifaces)})
	}
}

// forward emits a kernel event, its interfaces joined with their DNS sources.
func (l *learner) forward(ctx context.Context, ev netstate.HostEvent, tell func(netstate.HostEvent)) {
	if l == nil || ev.Interfaces == nil {
		tell(ev)
		return
	}
	links := make([]resolvconf.Link, 0, len(ev.Interfaces))
	for _, i := range ev.Interfaces {
		if i.Name != netstate.Loopback {
			links = append(links, resolvconf.Link{Name: i.Name, Index: i.Index})
		}
	}
	select { // the newest counts
	case <-l.links:
	default:
	}
	l.links <- links
	select {
	case <-l.read:
	case <-time.After(firstRead):
		l.first.Do(func() { close(l.read) })
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ifaces = ev.Interfaces
	ev.Interfaces = l.attached(ev.Interfaces)
	tell(ev)
}

func (l *learner) attached(interfaces []netstate.Interface) []netstate.Interface {
	out := slices.Clone(interfaces)
	for k := range out {
		out[k].DNS = l.latest[out[k].Name]
	}
	return out
}

// resolverRoot returns the root of other programs' files: the configured folder, or "/" if this network namespace is
// that of the machine's first process. The files identify links by index, which is valid only in their own namespace.
func resolverRoot(cfg Config) string {
	if cfg.ResolverRoot != "" || cfg.NetnsPath != "" {
		return cfg.ResolverRoot
	}
	own, err := os.Readlink("/proc/self/ns/net")
	first, err1 := os.Readlink("/proc/1/ns/net")
	if err != nil || err1 != nil || own != first {
		return ""
	}
	return "/"
}
