package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"edgespan/netinst/netstate"
	"edgespan/platform/firewall"
)

// filterPause is the pause after a failed watch of the packet filter.
const filterPause = 10 * time.Second

// Watch emits changes of the host until ctx ends, one event at a time. See netstate.HostEvent.
func (h *Host) Watch(ctx context.Context, emit func(netstate.HostEvent)) error {
	var one sync.Mutex
	tell := func(ev netstate.HostEvent) {
		one.Lock()
		defer one.Unlock()
		if ev.Forwarding != nil {
			opened, all6, err := h.sys.opened()
			if err != nil {
				h.log.Error("links with forwarding enabled by edgespan", zap.Error(err))
			}
			ev.Forwarding.Opened, ev.Forwarding.Opened6 = opened, all6
		}
		emit(ev)
	}
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() {
		h.help.Watch(ctx, func(ns []int) { tell(netstate.HostEvent{Ended: ns}) })
	})
	listening := make(chan struct{})
	helpers.Go(func() { h.watchFilter(ctx, sync.OnceFunc(func() { close(listening) }), tell) })
	helpers.Go(func() { h.vpn.Watch(ctx, func(n int) { tell(netstate.HostEvent{Ended: []int{n}}) }) })
	defer helpers.Wait()
	defer cancel()
	dns := h.learn(ctx, tell)
	<-listening // the first event makes the receiver look at the packet filter, too
	if err := h.kernel.Watch(ctx, func(ev netstate.HostEvent) { dns.forward(ctx, ev, tell) }); err != nil {
		return fmt.Errorf("watch host: %w", err)
	}
	return nil
}

// watchFilter emits others' changes of the packet filter until ctx ends. It calls tried once it listens to the kernel
// or can't. As long as it can't, full observations find the changes.
func (h *Host) watchFilter(ctx context.Context, tried func(), tell func(netstate.HostEvent)) {
	defer tried()
	deaf := false
	listening := func() {
		tried()
		if deaf {
			tell(netstate.HostEvent{Filter: true})
		}
	}
	for ctx.Err() == nil {
		err := h.fw.Watch(ctx, listening, func(c firewall.Changed) {
			ev := netstate.HostEvent{Filter: c.All}
			for _, n := range c.Owners {
				if n == 0 {
					ev.Host = true
				} else {
					ev.Touched = append(ev.Touched, n)
				}
			}
			tell(ev)
		})
		if err != nil {
			tried()
			deaf = true
			h.log.Error("watch the packet filter", zap.Error(err))
			select {
			case <-ctx.Done():
			case <-time.After(filterPause):
			}
		}
	}
}
