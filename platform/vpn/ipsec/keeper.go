package ipsec

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"github.com/vishvananda/netlink"
)

const (
	round      = 500 * time.Millisecond // between two looks at a charon
	askUp      = 2 * time.Second        // between two questions to one whose children all stand and whose log is silent
	hangsAfter = 2                      // questions without an answer
	tryFirst   = time.Second            // between two tries to connect; doubles up to tryLast
	tryLast    = 30 * time.Second
	lookUpTime = 3 * time.Second
	// A name is looked up again this often while its peer is not connected.
	lookUpEvery = 5 * time.Second
)

// keeper looks after one charon while the daemon runs: it makes it connect, again for ever, tells it where its packets
// leave, bounds its log, and knows what it says.
type keeper struct {
	t    *Tunnels
	r    record
	c    client
	end  context.CancelFunc
	done chan struct{}

	tries  int       // to connect since the last time that all children stood
	next   time.Time // of a try
	looked time.Time // when the peer's name was looked up
	at     []netip.Addr
	loaded []netip.Addr // those that charon has
	missed int          // questions without an answer, in a row
	sas    []sa         // of the last answer
	asked  time.Time    // when that was; zero if children were missing
	log    logReader
	host   *netlink.Handle
	v4, v6 netip.Addr        // what charon sees
	totals map[string]totals // by the identity of the peer

	mu   sync.Mutex
	last netstate.TunnelStatus
	when time.Time // of last
}

// newKeeper starts a keeper. It goes on where an old one of the same charon has stopped.
func newKeeper(t *Tunnels, r record, old *keeper) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{
		t: t, r: r, c: t.client(r), end: cancel, done: make(chan struct{}),
		log: logReader{path: filepath.Join(t.folder(r.Name), logFile)}, totals: map[string]totals{},
	}
	if old != nil && old.r.Ident == r.Ident {
		<-old.done
		k.log, k.totals = old.log, old.totals
		k.last, k.when = old.last, old.when
		k.log.words.callers.clear() // what was wrong may have changed
	}
	k.log.words.peer = r.Peer
	go k.run(ctx)
	return k
}

func (k *keeper) serves(r record) bool {
	select {
	case <-k.done:
		return false
	default:
	}
	return k.r.Ident == r.Ident && k.r.Generation == r.Generation && k.r.Mark == r.Mark
}

func (k *keeper) stop() { k.end() }

func (k *keeper) run(ctx context.Context) {
	defer close(k.done)
	h, ns, err := k.t.host()
	if err != nil {
		return // the namespace is gone
	}
	defer ns.Close()
	defer h.Close()
	k.host = h
	for ctx.Err() == nil {
		if !k.r.Alive() {
			return // Watch has told
		}
		k.look(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(round):
		}
	}
}

// look takes one look at charon, and does what is due.
func (k *keeper) look(ctx context.Context) {
	one, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if k.when.IsZero() { // which of the IKE_SAs in the log of an earlier daemon are no stranger's
		if sas, err := k.c.sas(one); err == nil {
			k.log.words.keepOwn(sas)
		}
	}
	k.log.words.callers.peers = k.at
	if added := k.log.read(); !added && time.Since(k.asked) < askUp {
		k.log.words.callers.clear() // all children stand
		if why := k.follow(k.sas); why != "" {
			k.publish(k.sas, why)
		}
		return
	}
	k.asked = time.Time{}
	sas, err := k.c.sas(one)
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		if k.missed++; k.missed%hangsAfter == 0 {
			k.t.emit(k.r.Number)
		}
		why := "charon does not answer"
		if errors.Is(err, errForeign) {
			why = err.Error()
		}
		k.publish(nil, why)
		return
	}
	k.missed = 0
	k.log.words.keepOwn(sas)
	missing := k.missing(sas)
	why := k.resolve(one, len(missing) > 0)
	if w := k.follow(sas); w != "" && why == "" {
		why = w
	}
	if len(missing) == 0 {
		k.tries, k.next = 0, time.Time{}
	} else if why == "" && k.r.Peer.Address != "" {
		k.connect(one, sas, missing)
	}
	if k.log.words.lacks.IsValid() { // charon had no address within a selector that the peer has narrowed
		k.addLocal(k.log.words.lacks)
		k.log.words.lacks = netip.Prefix{}
	}
	if k.sas = sas; len(missing) == 0 {
		k.asked = time.Now()
	}
	k.publish(sas, why)
}

// missing are the children that don't stand.
func (k *keeper) missing(sas []sa) []string {
	var out []string
	for _, name := range k.r.Peer.Children {
		stands := slices.ContainsFunc(sas, func(x sa) bool {
			return slices.ContainsFunc(x.children, func(c childSA) bool { return c.name == name && c.carries() })
		})
		if !stands {
			out = append(out, name)
		}
	}
	return out
}

// carries reports whether packets can pass.
func (c childSA) carries() bool {
	return slices.Contains([]string{"INSTALLED", "UPDATING", "REKEYING", "REKEYED", "RETRYING"}, c.state)
}

// resolve looks the peer's name up when it is due and gives charon its addresses. It returns why they are unknown.
func (k *keeper) resolve(ctx context.Context, apart bool) string {
	address := k.r.Peer.Address
	if address == "" {
		return ""
	}
	if k.at == nil || apart && time.Since(k.looked) > lookUpEvery && !isLiteral(address) {
		k.looked = time.Now()
		at, err := k.t.lookUp(ctx, address)
		if err != nil {
			return fmt.Sprintf("the name %s of the peer can't be resolved: %s", address, resolverSays(err))
		}
		k.at = at
	}
	if !slices.Equal(k.at, k.loaded) {
		if err := k.c.loadConn(ctx, k.r.Conn, k.at); err != nil {
			return ""
		}
		k.loaded = k.at
	}
	return ""
}

func isLiteral(address string) bool {
	_, err := netip.ParseAddr(address)
	return err == nil
}

// anywhere are addresses that only default routes lead to. No packet is sent to them.
var anywhere = []netip.Addr{netip.MustParseAddr("1.0.0.1"), netip.MustParseAddr("2001:4860::1")}

// follow shows charon the address that its packets leave by. It returns why there is none.
func (k *keeper) follow(sas []sa) string {
	to := slices.Clone(k.at)
	for _, x := range sas {
		if a, err := netip.ParseAddr(x.remoteHost); err == nil {
			to = append([]netip.Addr{a}, to...)
		}
	}
	if len(to) == 0 && k.r.Ports.IKE == listenIKE {
		to = anywhere
	}
	var v4, v6 netip.Addr
	for _, a := range to {
		from, err := source(k.host, a, k.r.Mark)
		switch {
		case err != nil:
		case from.Is4() && !v4.IsValid():
			v4 = from
		case from.Is6() && !v6.IsValid():
			v6 = from
		}
	}
	if v4 != k.v4 || v6 != k.v6 {
		if err := setView(k.r.Pid, v4, v6); err != nil {
			return "" // the next look repeats it
		}
		k.v4, k.v6 = v4, v6
	}
	if len(to) > 0 && !v4.IsValid() && !v6.IsValid() {
		if k.r.Peer.Address == "" {
			return "the network has no uplink at which peers could call"
		}
		return "no uplink of the network leads to the peer " + k.log.words.name()
	}
	return ""
}

// connect begins to make the children that are missing, unless charon is at it or a try was just made.
func (k *keeper) connect(ctx context.Context, sas []sa, missing []string) {
	if time.Now().Before(k.next) {
		return
	}
	established := false
	for _, x := range sas {
		if x.busy || x.state == "CONNECTING" {
			return
		}
		established = established || x.state == "ESTABLISHED"
	}
	if !established {
		missing = missing[:1] // with the IKE_SA; the others follow
	}
	wait := min(tryFirst<<min(k.tries, 6), tryLast)
	k.tries++
	if len(k.r.Peer.Children) > len(missing) {
		wait = tryFirst
	}
	k.next = time.Now().Add(wait/2 + rand.N(wait/2+1))
	for _, child := range missing {
		if err := k.c.initiate(ctx, child); err != nil {
			return // the next look tells
		}
	}
}

// addLocal gives charon an address in a prefix, without which it can't make the child that the peer agrees to.
func (k *keeper) addLocal(p netip.Prefix) {
	h, ns, err := inner(k.r.Pid)
	if err != nil {
		return // it has ended
	}
	defer ns.Close()
	defer h.Close()
	if addLocals(h, []netip.Addr{within(p)}) == nil {
		k.next = time.Time{}
	}
}

// lookUp resolves a peer's address and remembers it.
func (t *Tunnels) lookUp(ctx context.Context, address string) ([]netip.Addr, error) {
	if address == "" {
		return nil, nil
	}
	if a, err := netip.ParseAddr(address); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, at string) (c net.Conn, err error) {
		err = proc.In(t.netns, func() error {
			c, err = (&net.Dialer{}).DialContext(ctx, network, at)
			return err
		})
		return c, err
	}}
	all, err := r.LookupNetIP(ctx, "ip", address)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = all[i].Unmap()
	}
	slices.SortFunc(all, func(a, b netip.Addr) int { return a.Compare(b) })
	return all, nil
}

// resolverSays is the cause of a failed resolution.
func resolverSays(err error) string {
	s := err.Error()
	if i := strings.LastIndex(s, ": "); i >= 0 {
		s = s[i+2:]
	}
	return s
}
