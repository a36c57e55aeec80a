package node

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
)

// listenTo lists all links that a watcher listens on from now on.
type listenTo struct{ links []string }

// watcherReady announces a watcher that has just started and listens on nothing yet.
type watcherReady struct{ pid *actor.PID }

// watcher is the leaf that listens on one network's links and reports the addresses it hears to its parent. It
// validates none of them.
type watcher struct {
	d       *deps
	running map[string]context.CancelFunc // by link
}

func (w *watcher) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		w.running = map[string]context.CancelFunc{}
		c.Send(c.Parent(), watcherReady{c.Self()})
	case *actor.Stopping, *actor.Restarting:
		w.listen(c, nil)
	case listenTo:
		w.listen(c, msg.links)
	}
}

func (w *watcher) listen(c actor.Context, links []string) {
	keep := map[string]bool{}
	for _, l := range links {
		keep[l] = true
	}
	for l, cancel := range w.running {
		if !keep[l] {
			cancel()
			delete(w.running, l)
		}
	}
	parent, root := c.Parent(), c.ActorSystem().Root
	for _, l := range links {
		if w.running[l] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(w.d.ctx)
		w.running[l] = cancel
		w.d.host.Snoop(ctx, l,
			func(s netstate.ObservedAddress) {
				root.Send(parent, manager.AddressObserved{Address: s, At: time.Now()})
			})
	}
}
