package wireguard

import (
	"context"
	"net"
	"net/netip"
	"time"

	"edgespan/platform/proc"
)

const (
	// silentAfter is the age of a handshake at which a peer is asked for at its configured endpoint again: one that has
	// anything to send makes a new one after 120 s, and gives up after 90 s more.
	silentAfter = 135 * time.Second
	lookupTime  = 5 * time.Second
	retryFirst  = 2 * time.Second // between two lookups for a silent peer; doubles up to retryLast
	retryLast   = 5 * time.Minute
	tendEvery   = 30 * time.Second // while all peers are heard
)

// end is what is known of a peer's configured endpoint.
type end struct {
	endpoint string // as configured
	address  netip.AddrPort
	err      error // of the last lookup
	tries    int   // since the peer was heard
	turn     int   // of the addresses of its name
	next     time.Time
}

// resolver returns the lookup of the node's own resolver, asked from a network namespace.
func resolver(netnsPath string) func(ctx context.Context, host string) ([]netip.Addr, error) {
	r := net.DefaultResolver
	if netnsPath != "" {
		r = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			var conn net.Conn
			err := proc.In(netnsPath, func() (err error) {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		}}
	}
	return func(ctx context.Context, host string) ([]netip.Addr, error) { return r.LookupNetIP(ctx, "ip", host) }
}

// resolved returns the address of a peer's endpoint, invalid if it is not known.
func (one *tunnel) resolved(public key, endpoint string) netip.AddrPort {
	one.mu.Lock()
	defer one.mu.Unlock()
	if e := one.ends[public]; e != nil && e.endpoint == endpoint {
		return e.address
	}
	return netip.AddrPort{}
}

// lookupError returns the error of the last lookup of a peer's endpoint.
func (one *tunnel) lookupError(public key) error {
	one.mu.Lock()
	defer one.mu.Unlock()
	if e := one.ends[public]; e != nil {
		return e.err
	}
	return nil
}

// attend makes a goroutine look after the endpoints of a tunnel, as recorded.
func (t *Tunnels) attend(one *tunnel, number int, r record) {
	if r.Kernel {
		t.steered(number)
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	ends, changed := map[key]*end{}, false
	for _, p := range r.Peers {
		public, err := parseKey(p.PublicKey)
		if err != nil || p.Endpoint == "" {
			continue
		}
		if old := one.ends[public]; old != nil && old.endpoint == p.Endpoint {
			ends[public] = old
			continue
		}
		ends[public], changed = &end{endpoint: p.Endpoint}, true
	}
	one.ends = ends
	one.attended++
	if r.hasSuccessors() && !one.follows {
		one.follows, changed = true, true
	}
	if one.tend == nil && (len(ends) > 0 || one.follows) {
		ctx, cancel := context.WithCancel(context.Background())
		one.tend = cancel
		go t.tend(ctx, one, number)
	}
	if changed {
		select {
		case one.wake <- struct{}{}:
		default:
		}
	}
}

// leave ends tending.
func (one *tunnel) leave() {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.tend != nil {
		one.tend()
		one.tend = nil
	}
	one.ends, one.follows = map[key]*end{}, false
}

// tend gives silent peers the address of their configured endpoint: a name may have another address now, and a peer
// that has roamed may be back. It holds nothing while it waits for a resolver.
func (t *Tunnels) tend(ctx context.Context, one *tunnel, number int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-one.wake:
		case <-timer.C:
		}
		wait := t.tendOnce(ctx, one, number)
		timer.Reset(wait)
	}
}

// tendOnce returns the time until a peer may need something.
func (t *Tunnels) tendOnce(ctx context.Context, one *tunnel, number int) time.Duration {
	began, attended := time.Now(), one.attends()
	r, err := readRecord(t.folder(number))
	if err != nil || !r.Whole {
		return one.rest()
	}
	dev := t.device(r, number)
	ask, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	have, err := dev.get(ask)
	if err != nil {
		return one.rest()
	}
	wait := tendEvery
	if r.hasSuccessors() {
		if more := t.follow(ctx, one, number, r, have); one.setFollows(more, attended) {
			wait = t.looks.rest(began, time.Now())
		}
	}
	for public, host := range one.due(have, time.Now()) {
		addresses, err := t.find(ctx, host)
		if address, ok := one.found(public, host, addresses, err); ok && address != have.peers[public].endpoint {
			set, cancel := context.WithTimeout(ctx, answerTime)
			err := dev.set(set, change{peers: []peerChange{{public: public, endpoint: address}}})
			cancel()
			if err != nil {
				continue // again at the next try
			}
		}
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	for public, e := range one.ends {
		if p, known := have.peers[public]; known && silent(p, time.Now()) {
			wait = min(wait, max(0, time.Until(e.next)))
		}
	}
	return wait
}

func silent(p peer, now time.Time) bool { return now.Sub(p.handshake) > silentAfter }

// due returns the configured endpoints of silent peers whose turn it is, and counts the tries.
func (one *tunnel) due(have config, now time.Time) map[key]string {
	one.mu.Lock()
	defer one.mu.Unlock()
	out := map[key]string{}
	for public, e := range one.ends {
		p, known := have.peers[public]
		switch {
		case !known:
		case !silent(p, now):
			e.tries, e.turn, e.next, e.err = 0, 0, time.Time{}, nil
		case !now.Before(e.next):
			e.next = now.Add(min(retryFirst<<min(e.tries, 16), retryLast))
			e.tries++
			out[public] = e.endpoint
		}
	}
	return out
}

// find resolves the host of an endpoint.
func (t *Tunnels) find(ctx context.Context, endpoint string) ([]netip.AddrPort, error) {
	host, port, err := splitEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a, port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addresses, err := t.lookup(ctx, host)
	var out []netip.AddrPort
	for _, a := range addresses {
		out = append(out, netip.AddrPortFrom(a.Unmap(), port))
	}
	return out, err
}

// found notes the result of a lookup and returns the address to try: each in its turn.
func (one *tunnel) found(public key, endpoint string, addresses []netip.AddrPort, err error) (netip.AddrPort, bool) {
	one.mu.Lock()
	defer one.mu.Unlock()
	e := one.ends[public]
	if e == nil || e.endpoint != endpoint {
		return netip.AddrPort{}, false // changed meanwhile
	}
	if e.err = err; err != nil || len(addresses) == 0 {
		return netip.AddrPort{}, false
	}
	e.address = addresses[e.turn%len(addresses)]
	e.turn++
	return e.address, true
}
