package node

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/appnet"
	"edgespan/config/events"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/pubsub"
)

// eventLimits bound the stored events, each of some 300 bytes.
var eventLimits = events.Limits{Events: 2000, Bytes: 512 << 10}

// EventFileLimit is the longest file of events, in bytes.
const EventFileLimit = 1 << 20

// eventsID is the id of the events actor below the router; other actors send it their events.
const eventsID = "router/events"

const (
	// saveDelay collects events before they are written: what a power cut may lose.
	saveDelay = time.Second
	// saveAgain is the wait after a failed write.
	saveAgain = 30 * time.Second
	// readTimeout is how long new events wait until those of earlier starts are read.
	readTimeout = 5 * time.Second
	// earlyEvents bounds those that wait for that.
	earlyEvents = 1000
)

// EventStore is a file of events. Its methods may block; one at a time is called.
type EventStore interface {
	// Read returns what the file has, as far as it is not longer than any that this release writes.
	Read() ([]byte, error)
	// Append adds lines at the end, after it has cut off a line without an end: all of them or, with an error, perhaps a
	// part. It does not wait for the disk.
	Append(lines []byte) error
	// Replace replaces the file: it has the old or the new lines, whatever happens.
	Replace(lines []byte) error
}

// eventState is what actors share about events.
type eventState struct {
	eventStore  EventStore          // nil: none
	recordEvent func(nodeapi.Event) // stores an event
	published   atomic.Uint64       // the node's number of the published config
	lastEvent   atomic.Uint64       // the number of the last change of an event
}

// eventLog keeps the newest events on its own topic, and through a leaf on the disk. A reader gets the stored events
// and then the new ones; a slow reader or disk delays no one. config/events decides which events are kept, connected
// and written.
type eventLog struct {
	d       *deps
	log     *events.Log
	saving  *events.Saving
	pub     *pubsub.Publisher[nodeapi.Event]
	subs    subscriptions
	sources *pubsub.Subscription[api.Source]
	apps    *pubsub.Subscription[appnet.AppNetworkStatus]
	ports   *pubsub.Subscription[netinst.PortStatus]
	timers  timers

	disk      *actor.PID        // nil: none
	loaded    bool              // the events of earlier starts are known, or too late
	early     []relatedEvent    // arrived before that
	scheduled bool              // a saveDue is under way
	flushing  []chan<- struct{} // wait until everything is written
}

type (
	// relatedEvent is an event, and the objects on which its object depends.
	relatedEvent struct {
		nodeapi.Event
		related []string
	}
	// eventsRead is what the disk has, as the leaf sends it at each start.
	eventsRead struct {
		disk    *actor.PID
		size    int
		list    []nodeapi.Event
		damaged int
	}
	eventsSaved struct{ err error }
	saveDue     struct{}
	readLate    struct{}
	// drained are changes of topics. They are stored behind the events that were sent before them.
	drained struct {
		sources []pubsub.Change[api.Source]
		apps    []pubsub.Change[appnet.AppNetworkStatus]
		ports   []pubsub.Change[netinst.PortStatus]
	}
	flushRequest struct{ done chan<- struct{} }
)

func (v *eventLog) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		v.started(c)
	case *actor.Stopping, *actor.Restarting:
		v.subs.close()
		v.timers.stop()
	case wake:
		c.Send(c.Self(), drained{v.sources.Drain(), v.apps.Drain(), v.ports.Drain()})
	case drained:
		v.drained(c, msg)
	case nodeapi.Event:
		v.store(c, msg)
	case eventsRead:
		v.read(c, msg)
	case readLate:
		v.load(c)
	case saveDue:
		v.scheduled = false
		v.save(c, false)
	case eventsSaved:
		v.saved(c, msg.err)
	case flushRequest:
		v.flushing = append(v.flushing, msg.done)
		v.flush(c)
	}
}

func (v *eventLog) started(c actor.Context) {
	t := v.d.topics
	v.pub = t.Events.Publisher(api.OwnerEvents)
	v.log, v.saving = events.NewLog(eventLimits, events.FirstSeq(v.d.boot)), events.NewSaving(EventFileLimit)
	var kept []nodeapi.Event // from an earlier incarnation
	for _, ref := range v.pub.AdoptAll("") {
		e, _ := t.Events.Get("", ref.Key)
		kept = append(kept, e)
	}
	v.log.Restore(kept)
	v.subs = subscriptions{wake: waker(c)}
	v.sources = subscribe(&v.subs, t.Source, pubsub.Selector{})
	v.apps = subscribe(&v.subs, t.AppStatus, pubsub.Selector{})
	v.ports = subscribe(&v.subs, t.PortStatus, pubsub.Selector{})
	if v.loaded = v.d.eventStore == nil; v.loaded {
		return
	}
	spawn(c, v.d.props(func() actor.Actor { return &eventDisk{v.d.eventStore, v.d.log} }), "disk")
	v.timers.after(c, readTimeout, func() any { return readLate{} })
}

// read takes over what the disk has. It arrives at each start of the leaf: an unanswered write is void then.
func (v *eventLog) read(c actor.Context, msg eventsRead) {
	v.disk = msg.disk
	v.saving.Read(msg.size, msg.list, msg.damaged)
	if msg.damaged > 0 {
		v.d.log.Warn("stored events: skipped damaged lines", zap.Int("lines", msg.damaged))
	}
	for _, e := range v.log.Restore(msg.list) {
		must(v.pub.Publish("", eventKey(e.Seq), e))
	}
	v.d.lastEvent.Store(v.log.Last())
	v.load(c)
	v.schedule(c)
}

// load stores what has arrived early.
func (v *eventLog) load(c actor.Context) {
	if v.loaded {
		return
	}
	v.loaded = true
	early := v.early
	v.early = nil
	for _, e := range early {
		v.store(c, e.Event, e.related...)
	}
}

// store numbers an event and drops old ones.
func (v *eventLog) store(c actor.Context, e nodeapi.Event, related ...string) {
	if !v.loaded {
		v.early = append(v.early[max(0, len(v.early)+1-earlyEvents):], relatedEvent{e, related})
		return
	}
	change := v.log.Add(e, related...)
	must(v.pub.Publish("", eventKey(change.Event.Seq), change.Event))
	for _, seq := range change.Dropped {
		must(v.pub.Unpublish("", eventKey(seq)))
	}
	v.d.lastEvent.Store(change.Event.Changed())
	v.saving.Note(change)
	v.schedule(c)
}

// schedule begins a write after a while, if something waits for one.
func (v *eventLog) schedule(c actor.Context) {
	if v.disk == nil || v.scheduled || !v.saving.Due() {
		return
	}
	after := saveDelay
	if v.saving.IsFailing() {
		after = saveAgain
	}
	v.scheduled = true
	v.timers.after(c, after, func() any { return saveDue{} })
}

// save begins a write, if one is due.
func (v *eventLog) save(c actor.Context, all bool) bool {
	if v.disk == nil {
		return false
	}
	w, due := v.saving.Next(v.log, all)
	if due {
		c.Send(v.disk, w)
	}
	return due
}

// saved ends a write, and reports the first one that fails and the first one that works again.
func (v *eventLog) saved(c actor.Context, err error) {
	outcome, lost := v.saving.Done(err == nil)
	switch outcome {
	case events.Failing:
		v.d.log.Warn("store events", zap.Error(err))
		e := event(nodeapi.EventStorage, "node", "", "events are kept in memory only")
		e.Error = err.Error()
		v.store(c, e)
	case events.Works:
		v.d.log.Info("store events: the disk accepts them again", zap.Int("lost", lost))
		v.store(c, event(nodeapi.EventStorage, "node", "", fmt.Sprintf("events are stored again; %d were lost", lost)))
	}
	if err != nil {
		v.endFlush()
	} else {
		v.flush(c)
	}
	v.schedule(c)
}

// flush writes everything for those that wait for it.
func (v *eventLog) flush(c actor.Context) {
	if len(v.flushing) > 0 && !v.save(c, true) && !v.saving.Busy() {
		v.endFlush()
	}
}

func (v *eventLog) endFlush() {
	for _, done := range v.flushing {
		close(done)
	}
	v.flushing = nil
}

// flushEvents writes what is not yet on the disk, before the tree stops.
func (n *Node) flushEvents(ctx context.Context) {
	if n.d.eventStore == nil {
		return
	}
	done := make(chan struct{})
	n.system.Root.Send(actor.NewPID(n.system.Address(), eventsID), flushRequest{done})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// maxEventsAnswer bounds what a controller gets at once, in bytes.
const maxEventsAnswer = 64 << 10

// eventsAfter answers the controller.
func (d *deps) eventsAfter(r events.Request) (a events.Answer) {
	var all []nodeapi.Event
	for _, e := range d.topics.Events.All() {
		all = append(all, e.Value)
	}
	a.Events, a.Others = events.Newest(all, r.After, min(r.Bytes, maxEventsAnswer))
	return a
}

// eventDisk is the leaf that reads and writes the file of events. It decides nothing.
type eventDisk struct {
	store EventStore
	log   *zap.Logger
}

func (k *eventDisk) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		text, err := k.store.Read()
		if err != nil {
			k.log.Warn("read stored events", zap.Error(err))
		}
		list, damaged := events.Decode(text)
		c.Send(c.Parent(), eventsRead{c.Self(), len(text), list, damaged})
	case events.Write:
		write := k.store.Append
		if msg.Replace {
			write = k.store.Replace
		}
		c.Send(c.Parent(), eventsSaved{write(msg.Lines)})
	}
}

// eventKey returns a key that sorts in the order of the numbers.
func eventKey(seq uint64) string { return fmt.Sprintf("%020d", seq) }

// drained creates events from changes of topics. All other events arrive as messages from actors that know more than a
// topic says.
func (v *eventLog) drained(c actor.Context, msg drained) {
	for _, ch := range msg.sources {
		if ch.Kind != pubsub.Created && ch.Kind != pubsub.Modified {
			continue
		}
		if s := ch.New; s.Error != "" && s.Error != ch.Old.Error {
			e := event(nodeapi.EventConfig, "config", "", "refused")
			e.Error = s.Error
			v.store(c, e)
		}
	}
	for _, ch := range msg.ports {
		from, to := ch.Old.Describe(), ch.New.Describe()
		switch {
		case ch.Kind == pubsub.Created:
			v.store(c, event(nodeapi.EventPort, "port/"+ch.Key, string(ch.New.IfName), to))
		case ch.Kind == pubsub.Modified && from != to:
			v.store(c, event(nodeapi.EventPort, "port/"+ch.Key, string(ch.New.IfName), from+" -> "+to))
		case ch.Kind == pubsub.Deleted:
			v.store(c, event(nodeapi.EventPort, "port/"+ch.Key, string(ch.Old.IfName), "no longer a port"))
		}
	}
	for _, ch := range msg.apps {
		v.app(c, ch)
	}
}

func (v *eventLog) app(c actor.Context, ch pubsub.Change[appnet.AppNetworkStatus]) {
	e := event(nodeapi.EventState, "app/"+ch.Key, ch.New.DisplayName, "")
	e.Error, e.Cause.Config = ch.New.Error, v.d.published.Load()
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
	v.store(c, e, networksOf(ch.Old, ch.New)...)
}

// networksOf returns the networks of an app, as the objects of events.
func networksOf(states ...appnet.AppNetworkStatus) (out []string) {
	for _, s := range states {
		for _, a := range s.Adapters {
			out = append(out, "ni/"+a.NetworkInstance.String())
		}
	}
	return out
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
