package console

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"edgespan/config/layers/redact/plain"
	"edgespan/pubsub"
	"edgespan/pubsub/shellproto"
)

// valueSize bounds what is shown of one value of a topic, and valueLimit its octets.
const (
	valueSize  = 2000
	valueLimit = 64 << 10
)

// topic is a topic whatever its values are.
type topic struct {
	keys  func() []string
	watch func(ctx context.Context, key string, mask func(string) string, emit shellproto.Emit) error
}

// topics returns all topics of the node by name.
func (c *Console) topics() map[string]topic {
	t, all := c.Topics, map[string]topic{}
	add(all, t.NetworkConfig)
	add(all, t.AppConfig)
	add(all, t.PortConfig)
	add(all, t.SysParams)
	add(all, t.Source)
	add(all, t.AdapterConfig)
	add(all, t.AdapterStatus)
	add(all, t.NetworkStatus)
	add(all, t.AppStatus)
	add(all, t.AppSynced)
	add(all, t.NetworkApps)
	add(all, t.PortStatus)
	add(all, t.SubnetOverlap)
	add(all, t.Forwarding)
	add(all, t.HostChanged)
	add(all, t.TaskConfig)
	add(all, t.TaskStatus)
	add(all, t.TasksSwept)
	add(all, t.Reported)
	add(all, t.Trouble)
	add(all, t.Tunnels)
	add(all, t.Events)
	add(all, t.Storage)
	add(all, t.ProbeRequest)
	add(all, t.ProbeOutcomes)
	add(all, t.Uplinks)
	add(all, t.Numbers)
	add(all, t.Leases)
	add(all, t.Applied)
	add(all, t.AppRecords)
	add(all, t.NodeRecord)
	add(all, t.UplinkRecords)
	add(all, t.Drains)
	add(all, t.PortLeases)
	add(all, t.ProbeBudgets)
	return all
}

func add[V any](to map[string]topic, t *pubsub.Topic[V]) {
	to[t.Name()] = topic{
		keys: func() []string {
			var all []string
			for _, e := range t.All() {
				all = append(all, pubsub.Ref{Scope: e.Scope, Key: e.Key}.String())
			}
			slices.Sort(all)
			return all
		},
		watch: func(ctx context.Context, key string, mask func(string) string, emit shellproto.Emit) error {
			return watch(ctx, t, key, mask, emit)
		},
	}
}

// watch emits the values of a topic, of all keys or of one, which may also be a scope, and then the changes. Of a key
// that changes faster than the shell reads, it emits the newest value.
func watch[V any](ctx context.Context, t *pubsub.Topic[V], of string, mask func(string) string,
	emit shellproto.Emit) error {
	wake := make(chan struct{}, 1)
	sub := t.Subscribe(pubsub.Selector{AllScopes: true}, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	defer sub.Close()
	for {
		for _, ch := range sub.Drain() {
			ref := pubsub.Ref{Scope: ch.Scope, Key: ch.Key}.String()
			if ch.Kind == pubsub.Synchronized || of != "" && ref != of && ch.Key != of && !strings.HasPrefix(ref, of+"/") {
				continue
			}
			i := shellproto.WatchItem{At: time.Now(), Topic: t.Name(), Key: ref, Deleted: ch.Kind == pubsub.Deleted}
			if !i.Deleted {
				i.Value = text(ch.New, mask)
			}
			if err := emit(i, 0); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

func text(v any, mask func(string) string) json.RawMessage {
	out, err := json.Marshal(plain.Shared(v, valueSize, mask))
	if err != nil || len(out) > valueLimit {
		return json.RawMessage(`"(too long)"`)
	}
	return out
}

func (c *Console) watch(ctx context.Context, name, key string, emit shellproto.Emit) error {
	all := c.topics()
	t, ok := all[name]
	if !ok {
		return shellproto.Failf(shellproto.ExitNotFound, "%.60q: no topic: must be one of %s", name,
			strings.Join(sortedKeys(all), ", "))
	}
	return t.watch(ctx, key, c.Census.Masked, emit)
}
