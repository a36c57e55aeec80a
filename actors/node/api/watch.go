package api

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"edgespan/config/events"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/pubsub"
)

// watchPace is how long a watcher collects changes before it compares: a burst is one comparison.
const watchPace = 20 * time.Millisecond

// Watch emits the current resources and then every change. Topics only signal that something changed; what is emitted
// is List's output, compared with what was emitted before, so that the two never differ.
func (n *Reader) Watch(ctx context.Context, kinds []string, emit func(nodeapi.Observed) error) error {
	wake := make(chan struct{}, 1)
	defer n.onChange(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})()
	reported := map[string]nodeapi.Resource{}
	for first := true; ; first = false {
		if err := n.sendChanges(ctx, kinds, reported, emit); err != nil {
			return err
		}
		if first {
			if err := emit(nodeapi.Observed{Time: time.Now(), Change: nodeapi.Synchronized}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.Done:
			return nil
		case <-wake:
			time.Sleep(watchPace)
		}
	}
}

// onChange calls f when something that List shows may have changed, until stop is called.
func (n *Reader) onChange(f func()) (stop func()) {
	t := n.Topics
	stops := []func(){
		signal(t.NetworkConfig, f), signal(t.NetworkStatus, f), signal(t.AppConfig, f), signal(t.AppStatus, f),
		signal(t.PortConfig, f), signal(t.PortStatus, f), signal(t.Reported, f), signal(t.Events, f),
		signal(t.Uplinks, f), signal(t.Drains, f),
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}

// signal calls f at each change of a topic. It drains the subscription at once, so that the next change wakes it again.
func signal[V any](t *pubsub.Topic[V], f func()) (stop func()) {
	var sub *pubsub.Subscription[V]
	ready := make(chan struct{})
	sub = t.Subscribe(pubsub.Selector{}, func() {
		select {
		case <-ready:
			sub.Drain()
		default: // the replay, within Subscribe
		}
		f()
	})
	close(ready)
	sub.Drain()
	return sub.Close
}

func (n *Reader) sendChanges(ctx context.Context, kinds []string, reported map[string]nodeapi.Resource,
	emit func(nodeapi.Observed) error) error {
	now := time.Now()
	there := map[string]bool{}
	for _, kind := range kinds {
		items, err := n.List(ctx, kind)
		if err != nil {
			return err
		}
		for _, it := range items {
			key := kind + "/" + it.ID
			there[key] = true
			old, known := reported[key]
			if known && reflect.DeepEqual(unmeasured(old), unmeasured(it)) {
				continue
			}
			reported[key] = it
			change := nodeapi.Modified
			if !known {
				change = nodeapi.Added
			}
			if err := emit(nodeapi.Observed{Time: now, Change: change, Object: &it}); err != nil {
				return err
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(reported)) {
		if it := reported[key]; !there[key] {
			delete(reported, key)
			if err := emit(nodeapi.Observed{Time: now, Change: nodeapi.Deleted, Object: &it}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Events emits the stored events, oldest first, and with Follow the new ones.
func (n *Reader) Events(ctx context.Context, q nodeapi.EventQuery, emit func(nodeapi.Event) error) error {
	wake := make(chan struct{}, 1)
	sub := n.Topics.Events.Subscribe(pubsub.Selector{}, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	defer sub.Close()
	kept := true // the first drain has the stored events
	for {
		var pending []nodeapi.Event
		for _, ch := range sub.Drain() {
			if (ch.Kind == pubsub.Created || ch.Kind == pubsub.Modified) && q.Selects(ch.New) {
				pending = append(pending, ch.New)
			}
		}
		slices.SortStableFunc(pending, func(a, b nodeapi.Event) int { return cmp.Compare(a.Seq, b.Seq) })
		if kept && q.Last > 0 {
			pending = pending[max(0, len(pending)-q.Last):]
		}
		kept = false
		if q.Why && len(pending) > 0 {
			n.explainEvents(pending)
		}
		for _, e := range pending {
			if err := emit(e); err != nil {
				return err
			}
		}
		if !q.Follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.Done:
			return nil
		case <-wake:
		}
	}
}

// explainEvents adds to each event what led to it.
func (n *Reader) explainEvents(list []nodeapi.Event) {
	var all []nodeapi.Event
	for _, e := range n.Topics.Events.All() { // by key
		all = append(all, e.Value)
	}
	for i := range list {
		list[i].Chain = events.Chain(all, list[i])
	}
}
