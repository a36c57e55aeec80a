package node

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/flowlog"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/netinst/watched"
)

type (
	// watcherReady announces a watcher that has just started and listens on nothing yet.
	watcherReady struct{ pid *actor.PID }
	// leasesDue tells a watcher to report changes of leases.
	leasesDue struct{}
)

// watcher is the leaf that listens on one network's links, as a manager.Listen says. It reports the addresses that it
// hears, none of which it validates, and changes of leases to its parent. DNS and DHCP messages go to the network's
// part of watchedNetworks from other goroutines, and are no messages of actors.
type watcher struct {
	d        *deps
	ni       uuid.UUID
	number   int                           // of the network
	running  map[string]context.CancelFunc // those that listen for addresses, by link
	watching map[string]context.CancelFunc // those that watch messages, by link
	net      *watchedNetwork
	timers   timers
	again    time.Time // when the next timer ends, zero for none
}

func (w *watcher) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		w.running, w.watching = map[string]context.CancelFunc{}, map[string]context.CancelFunc{}
		w.net = w.d.watched.open(w.ni)
		c.Send(c.Parent(), watcherReady{c.Self()})
	case *actor.Stopping, *actor.Restarting:
		w.timers.stop()
		w.listen(c, manager.Listen{})
		w.d.watched.close(w.ni, w.net)
	case manager.Listen:
		w.listen(c, msg)
	case leasesDue:
		w.reportLeases(c)
	}
}

func (w *watcher) listen(c actor.Context, to manager.Listen) {
	parent, self, root := c.Parent(), c.Self(), c.ActorSystem().Root
	w.follow(w.running, to.Links, func(ctx context.Context, link string) {
		w.d.host.Snoop(ctx, link, func(s netstate.ObservedAddress) {
			root.Send(parent, manager.AddressObserved{Address: s, At: w.d.now()})
		})
	})
	if w.net.use(to.Watched) {
		c.Send(self, leasesDue{})
	}
	if len(to.Watched) > 0 {
		w.takeOver(c)
	}
	var links []string
	for _, a := range to.Watched {
		links = append(links, a.Link)
	}
	net := w.net
	w.follow(w.watching, links, func(ctx context.Context, link string) {
		w.d.host.WatchMessages(ctx, link, w.d.watched.allow, func(m netstate.Messages) {
			if net.add(m) {
				root.Send(self, leasesDue{})
			}
		})
	})
}

// follow starts what runs for each link, and ends it for others.
func (w *watcher) follow(running map[string]context.CancelFunc, links []string, start func(context.Context, string)) {
	for l, cancel := range running {
		if !slices.Contains(links, l) {
			cancel()
			delete(running, l)
		}
	}
	for _, l := range links {
		if running[l] == nil {
			ctx, cancel := context.WithCancel(w.d.ctx)
			running[l] = cancel
			start(ctx, l)
		}
	}
}

// takeOver reads the leases that the network's DHCP server has recorded: they were assigned while no one watched.
func (w *watcher) takeOver(c actor.Context) {
	leases, err := w.d.host.HeldLeases(netinst.LeaseFile(w.number))
	if err != nil {
		w.d.log.Warn("read leases", zap.String("ni", w.ni.String()), zap.Error(err))
	}
	if len(leases) > 0 && w.net.hold(leases) {
		c.Send(c.Self(), leasesDue{})
	}
}

// reportLeases reports changes of leases, as often as the core allows.
func (w *watcher) reportLeases(c actor.Context) {
	list, again := w.net.changes()
	if !time.Now().Before(w.again) {
		w.again = time.Time{}
	}
	for _, x := range list {
		c.Send(c.Parent(), manager.LeaseObserved{Key: x.Key, Word: x.Word})
		if x.Word == "" || x.Lease.Recorded {
			continue
		}
		app, _ := w.d.topics.AppConfig.Get("", x.Key.AppUUID.String())
		e := event(nodeapi.EventLease, "adapter/"+api.AdapterID(x.Key.AppUUID.String(), x.Key.Index), app.DisplayName,
			"lease "+x.Text())
		w.d.recordEvent(e)
	}
	if !again.IsZero() && (w.again.IsZero() || again.Before(w.again)) {
		w.again = again
		w.timers.after(c, time.Until(again), func() any { return leasesDue{} })
	}
}

// maxAnswers is how many DNS answers are kept of all networks together, while that is more than minAnswers of each.
const (
	maxAnswers = 8192
	minAnswers = 64
)

// watchedNetworks has what is watched, by network. Goroutines that read messages, the API and the flow log share it.
type watchedNetworks struct {
	mu     sync.Mutex
	all    map[uuid.UUID]*watchedNetwork
	budget watched.Budget
}

type watchedNetwork struct {
	mu  sync.Mutex
	net *watched.Network
	due bool // leasesDue is under way
}

func newWatchedNetworks() *watchedNetworks {
	return &watchedNetworks{all: map[uuid.UUID]*watchedNetwork{}}
}

// open begins anew with a network.
func (n *watchedNetworks) open(ni uuid.UUID) *watchedNetwork {
	n.mu.Lock()
	defer n.mu.Unlock()
	x := &watchedNetwork{net: watched.NewNetwork()}
	n.all[ni] = x
	n.share()
	return x
}

// close ends with a network, unless it was opened again.
func (n *watchedNetworks) close(ni uuid.UUID, x *watchedNetwork) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all[ni] == x {
		delete(n.all, ni)
		n.share()
	}
}

// share divides maxAnswers.
func (n *watchedNetworks) share() {
	for _, x := range n.all {
		x.mu.Lock()
		x.net.Limit(max(minAnswers, maxAnswers/len(n.all)))
		x.mu.Unlock()
	}
}

func (n *watchedNetworks) allow(reader string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.budget.Allow(reader, time.Now())
}

func (n *watchedNetworks) get(ni uuid.UUID) *watchedNetwork {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[ni]
}

// nameOf returns the name that an adapter's app knows the remote end of a flow by.
func (n *watchedNetworks) nameOf(r flowlog.Record) string {
	x := n.get(r.Network)
	if x == nil {
		return ""
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.net.NameOf(r.Adapter, r.Remote.Addr())
}

// each calls f with each network, under the network's lock alone.
func (n *watchedNetworks) each(f func(uuid.UUID, *watched.Network)) {
	n.mu.Lock()
	all := maps.Clone(n.all)
	n.mu.Unlock()
	for id, x := range all {
		x.mu.Lock()
		f(id, x.net)
		x.mu.Unlock()
	}
}

func (x *watchedNetwork) use(list []watched.Adapter) (changed bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.notice(x.net.Use(list))
}

func (x *watchedNetwork) hold(leases []netstate.HeldLease) (changed bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.notice(x.net.Hold(leases, time.Now()))
}

// add adds messages, and reports whether leasesDue is to be sent.
func (x *watchedNetwork) add(m netstate.Messages) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.notice(x.net.Add(m))
}

// notice reports the first of several changes before the next call of changes.
func (x *watchedNetwork) notice(changed bool) bool {
	first := changed && !x.due
	x.due = x.due || changed
	return first
}

func (x *watchedNetwork) changes() (list []watched.Change, again time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.due = false
	return x.net.Changes(time.Now())
}
