package actors

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/config/httpapi"
	"edgespan/config/nodeconf"
	"edgespan/netinst/netstate"
	"edgespan/pubsub"
)

// Diff says what on the host is not as the running config wants it: it observes, and
// changes nothing. What no config was published for is not judged.
func (n *Node) Diff(ctx context.Context, of string) ([]httpapi.Difference, error) {
	if s, ok := n.d.topics.Source.Get("", "node"); !ok || !s.Valid {
		return nil, fmt.Errorf("compare the host: %w: no valid config was published yet", httpapi.ErrBusy)
	}
	return lookAt(ctx, n, "diff", func(ctx context.Context) ([]httpapi.Difference, error) { return n.diff(ctx, of) })
}

func (n *Node) diff(ctx context.Context, of string) ([]httpapi.Difference, error) {
	found, err := n.d.host.Owners(ctx)
	if err != nil {
		return nil, fmt.Errorf("find our networks on the host: %w", err)
	}
	wants, owners := n.d.wanted(ctx, n.running(), found)
	var out []httpapi.Difference
	known := of == ""
	for _, o := range owners {
		object := ownerObject(o)
		if of != "" && !strings.EqualFold(object, of) {
			continue
		}
		known = true
		have, err := n.d.host.Observe(ctx, o, true)
		if err != nil {
			return nil, fmt.Errorf("observe %s: %w", o.Name, err)
		}
		out = append(out, n.differences(o, netstate.Diff(have, wants[o]))...)
	}
	if !known {
		return nil, fmt.Errorf("compare %s: %w: it is in no config and nothing of it is on the host", of, httpapi.ErrNotFound)
	}
	return out, nil
}

func ownerObject(o netstate.Owner) string {
	if o.Name == netstate.HostOwner {
		return o.Name
	}
	return "ni/" + o.Name
}

// running is the config as it was published.
func (n *Node) running() nodeconf.Config {
	t := n.d.topics
	return nodeconf.Config{
		Networks: byUUID(t.NetworkConfig.List("")), Apps: byUUID(t.AppConfig.List("")), Ports: t.PortConfig.List(""),
	}
}

func byUUID[V any](m map[string]V) map[uuid.UUID]V {
	out := make(map[uuid.UUID]V, len(m))
	for k, v := range m {
		if id, err := uuid.Parse(k); err == nil {
			out[id] = v
		}
	}
	return out
}

func (n *Node) differences(o netstate.Owner, plan netstate.Plan) []httpapi.Difference {
	trouble, _ := n.d.topics.Trouble.Get("", o.Name)
	var out []httpapi.Difference
	for _, op := range plan {
		why := ""
		for _, f := range trouble.Failing {
			if f.Op == op.String() {
				why = f.Error
			}
		}
		for _, it := range op.Items {
			d := httpapi.Difference{
				Owner: ownerObject(o), Kind: string(op.Kind), ID: it.ID().Name, Change: httpapi.Changed, Why: why,
				Want: objectText(it.Want), Have: objectText(it.Have),
			}
			switch {
			case it.Have == nil:
				d.Change = httpapi.Missing
			case it.Want == nil:
				d.Change = httpapi.Unexpected
			}
			out = append(out, d)
		}
	}
	return out
}

func objectText(o netstate.Object) string {
	if o == nil {
		return ""
	}
	return o.Text()
}

// watchPace is how long a watcher gathers changes before it looks: a burst is one look.
const watchPace = 20 * time.Millisecond

// Watch gives what there is and then every change of it. Topics only say that there is
// something to see; what is told is what List shows, compared with what was told
// before, so that both never differ.
func (n *Node) Watch(ctx context.Context, kinds []string, emit func(httpapi.Seen) error) error {
	wake := make(chan struct{}, 1)
	defer n.wakeOn(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})()
	told := map[string]httpapi.Resource{}
	for first := true; ; first = false {
		if err := n.tellChanges(ctx, kinds, told, emit); err != nil {
			return err
		}
		if first {
			if err := emit(httpapi.Seen{Time: time.Now(), Change: httpapi.Synchronized}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.d.ctx.Done():
			return nil
		case <-wake:
			time.Sleep(watchPace)
		}
	}
}

// wakeOn calls f when something that List shows may have changed, until the function
// that it gives back is called.
func (n *Node) wakeOn(f func()) (stop func()) {
	t := n.d.topics
	stops := []func(){
		signal(t.NetworkConfig, f), signal(t.NetworkStatus, f), signal(t.AppConfig, f), signal(t.AppStatus, f),
		signal(t.PortConfig, f), signal(t.PortStatus, f), signal(t.Reported, f), signal(t.Events, f),
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}

// signal calls f at each change of a topic. It drains at once, so that the next change
// wakes it again.
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

func (n *Node) tellChanges(ctx context.Context, kinds []string, told map[string]httpapi.Resource, emit func(httpapi.Seen) error) error {
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
			old, known := told[key]
			if known && reflect.DeepEqual(old, it) {
				continue
			}
			told[key] = it
			change := httpapi.Modified
			if !known {
				change = httpapi.Added
			}
			if err := emit(httpapi.Seen{Time: now, Change: change, Object: &it}); err != nil {
				return err
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(told)) {
		if it := told[key]; !there[key] {
			delete(told, key)
			if err := emit(httpapi.Seen{Time: now, Change: httpapi.Deleted, Object: &it}); err != nil {
				return err
			}
		}
	}
	return nil
}
