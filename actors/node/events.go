package node

import (
	"fmt"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/node/api"
	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/pubsub"
)

// eventsKept limits the stored events, each of some hundred octets.
const eventsKept = 1000

// eventsID is the id of the events actor below the router; other actors send it their events.
const eventsID = "router/events"

// events keeps the newest eventsKept events on its own topic. A reader gets the stored events and then the new ones; a
// slow reader delays no one.
type events struct {
	d       *deps
	pub     *pubsub.Publisher[nodeapi.Event]
	next    uint64
	oldest  uint64
	subs    subscriptions
	sources *pubsub.Subscription[api.Source]
	apps    *pubsub.Subscription[appnet.AppNetworkStatus]
	ports   *pubsub.Subscription[netinst.PortStatus]
}

func (v *events) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		v.started(c)
	case *actor.Stopping, *actor.Restarting:
		v.subs.close()
	case wake:
		v.drain()
	case nodeapi.Event:
		v.store(msg)
	}
}

func (v *events) started(c actor.Context) {
	t := v.d.topics
	v.pub = t.Events.Publisher(api.OwnerEvents)
	v.next, v.oldest = 1, 1
	if kept := v.pub.AdoptAll(""); len(kept) > 0 { // from an earlier incarnation
		v.oldest, v.next = eventSeq(kept[0].Key), eventSeq(kept[len(kept)-1].Key)+1
	}
	v.subs = subscriptions{wake: waker(c)}
	v.sources = subscribe(&v.subs, t.Source, pubsub.Selector{})
	v.apps = subscribe(&v.subs, t.AppStatus, pubsub.Selector{})
	v.ports = subscribe(&v.subs, t.PortStatus, pubsub.Selector{})
}

// store numbers an event and drops the oldest one.
func (v *events) store(e nodeapi.Event) {
	e.Seq = v.next
	v.next++
	must(v.pub.Publish("", eventKey(e.Seq), e))
	for ; v.next-v.oldest > eventsKept; v.oldest++ {
		must(v.pub.Unpublish("", eventKey(v.oldest)))
	}
}

// eventKey returns a key that sorts in the order of the numbers.
func eventKey(seq uint64) string { return fmt.Sprintf("%020d", seq) }

func eventSeq(key string) uint64 {
	n, err := strconv.ParseUint(key, 10, 64)
	must(err)
	return n
}

// drain creates events from changes of topics. All other events arrive as messages from actors that know more than a
// topic says.
func (v *events) drain() {
	for _, ch := range v.sources.Drain() {
		if ch.Kind != pubsub.Created && ch.Kind != pubsub.Modified {
			continue
		}
		if s := ch.New; s.Valid && s.Generation != ch.Old.Generation {
			t := v.d.topics
			v.store(event(nodeapi.EventConfig, "config", "",
				fmt.Sprintf("generation %d from %s: networks %d, apps %d, ports %d", s.Generation, s.Source,
					len(t.NetworkConfig.List("")), len(t.AppConfig.List("")), len(t.PortConfig.List("")))))
		}
		if s := ch.New; s.Error != "" && s.Error != ch.Old.Error {
			e := event(nodeapi.EventConfig, "config", "", "refused")
			e.Error = s.Error
			v.store(e)
		}
	}
	for _, ch := range v.ports.Drain() {
		from, to := ch.Old.Describe(), ch.New.Describe()
		switch {
		case ch.Kind == pubsub.Created:
			v.store(event(nodeapi.EventPort, "port/"+ch.Key, string(ch.New.IfName), to))
		case ch.Kind == pubsub.Modified && from != to:
			v.store(event(nodeapi.EventPort, "port/"+ch.Key, string(ch.New.IfName), from+" -> "+to))
		case ch.Kind == pubsub.Deleted:
			v.store(event(nodeapi.EventPort, "port/"+ch.Key, string(ch.Old.IfName), "no longer a port"))
		}
	}
	for _, ch := range v.apps.Drain() {
		v.app(ch)
	}
}

func (v *events) app(ch pubsub.Change[appnet.AppNetworkStatus]) {
	e := event(nodeapi.EventState, "app/"+ch.Key, ch.New.DisplayName, "")
	e.Error = ch.New.Error
	from, to := appState(ch.Old), appState(ch.New)
	switch {
	case ch.Kind == pubsub.Created:
		e.Text = to
	case ch.Kind == pubsub.Deleted:
		e.Text, e.Name = from+" -> gone", ch.Old.DisplayName
	case ch.Kind == pubsub.Modified && (from != to || ch.Old.Error != ch.New.Error):
		e.Text = to
		if from != to {
			e.Text = from + " -> " + to
		}
	default:
		return
	}
	v.store(e)
}

func appState(s appnet.AppNetworkStatus) string {
	switch {
	case s.Pending:
		return "pending"
	case s.Activated:
		return "ready"
	}
	return "inactive"
}

func event(kind, object, name, text string) nodeapi.Event {
	return nodeapi.Event{Time: time.Now(), Kind: kind, Object: object, Name: name, Text: text}
}
