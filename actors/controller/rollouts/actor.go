package rollouts

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/rollout"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/fleet/topology"
	"edgespan/config/kv"
	"edgespan/config/layers"
)

// Messages to /rollout.
type (
	// Changes is what the fleet currently knows, and the keys that changed.
	Changes struct {
		Cause    staged.Cause
		Topology *topology.Topology
		Staging  staged.Staging
		Events   []kv.Event
	}
	// recheckNow looks for nodes that wait for a config that no rollout covers.
	recheckNow struct{}
	// due is a timer of the machine. It is ignored once another timer has been set, whichever machine set it.
	due struct {
		timer  int
		number uint64
	}
	// leadOn starts over with what the store has.
	leadOn struct{}
	// saveNow stores what was delayed.
	saveNow struct{}
	// List asks for the stored rollouts, or for the one of a revision.
	List struct {
		All    bool
		Number uint64 // 0 is valid: the rollout of base files that changed before any write
	}
)

// gather is how long /rollout waits for further nodes of one change: until nothing has arrived for that long, or
// maxGather has passed.
const (
	gather    = 100 * time.Millisecond
	maxGather = time.Second
	saveLater = time.Second // delay for what the nodes would report again
)

// rolloutActor is /rollout. Every replica follows the keys; the leader also has the machine of the running rollout.
type rolloutActor struct {
	d    *Deps
	self *actor.PID

	staging  staged.Staging
	cause    staged.Cause
	causes   []uint64 // revisions since the last rollout began
	topology *topology.Topology
	nodes    map[string]*staged.Node          // by id
	ids      map[string]string                // by name
	kept     map[uint64]*staged.RolloutRecord // by revision, as stored
	at       map[uint64]kv.Revision           // revisions of kept
	touched  map[string]bool                  // names whose desired config changed since the last rollout began
	taken    map[string]bool                  // the part of touched that the save in flight covers
	letters  map[kv.Key]storage.RemoteCommand // commands without an answer

	leads   *kv.Leadership
	mandate *kv.Leadership // a leadership that is about to begin
	knows   bool           // the first Changes has arrived
	machine *rollout.Rollout
	now     *staged.RolloutRecord // the machine's record, or the last one
	timers  uint64                // counts the timers that were set
	epoch   int                   // counts leaderships: results of writes of another one are ignored
	behind  bool                  // the previous leader stored more than this one started from
	recheck []string              // names to observe again

	gathering
	records
}

// gathering is the wait for all nodes of one change.
type gathering struct {
	gathers time.Time // its start; zero: none
	stirred bool      // something arrived since recheckSoon
}

// records is what has to be stored, and what is in flight.
type records struct {
	dirty, saving, later bool
	opening              int                     // transactions in flight that open gates
	ended                []*staged.RolloutRecord // stored with the next save
	answers              []answer                // sent once their effect is stored
}

// Deps are the dependencies of /rollout.
type Deps struct {
	*storage.Access
	Under *Underway
}

// answer is the result of a command.
type answer struct {
	key     kv.Key
	message storage.RemoteCommand
	refused string
}

// New returns the actor /rollout.
func New(d *Deps) actor.Actor {
	return &rolloutActor{
		d: d, nodes: map[string]*staged.Node{}, ids: map[string]string{},
		kept: map[uint64]*staged.RolloutRecord{}, at: map[uint64]kv.Revision{},
		touched: map[string]bool{}, letters: map[kv.Key]storage.RemoteCommand{},
	}
}

// Receive handles changes, elections and the results of writes.
func (a *rolloutActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.self = c.Self()
	case Changes:
		a.applyChanges(m)
	case storage.Elected:
		a.mandate = &m.By
		a.beginLeading()
	case leadOn:
		a.beginLeading()
	case storage.Deposed:
		a.stepDown()
	case recheckNow:
		a.lookedAt()
	case due:
		if a.leads != nil && a.machine != nil && m.number == a.timers {
			a.step(rollout.Deadline{Timer: m.timer})
		}
	case saveNow:
		a.later = false
	case stored:
		a.stored(m)
	case opened:
		a.opened(m)
	case storage.Question:
		if q, is := m.Question.(List); is {
			m.Reply(a.list(q))
		}
	}
	a.runPending()
	a.d.Under.is.Store(a.underWay())
}

// named returns the node with a name, nil for none.
func (a *rolloutActor) named(name string) *staged.Node { return a.nodes[a.ids[name]] }

// joined iterates over the nodes that have a name.
func (a *rolloutActor) joined(yield func(*staged.Node) bool) {
	for _, id := range a.ids {
		if !yield(a.nodes[id]) {
			return
		}
	}
}

// beginLeading starts to lead, once this replica knows the keys.
func (a *rolloutActor) beginLeading() {
	if a.mandate == nil || !a.knows {
		return
	}
	a.leads, a.mandate = a.mandate, nil
	a.begin()
}

// runPending runs what is pending until nothing is left.
func (a *rolloutActor) runPending() {
	if a.leads == nil {
		return
	}
	for len(a.recheck) > 0 {
		names := a.recheck
		a.recheck = nil
		for _, name := range names {
			a.observe(a.nodes[a.ids[name]])
		}
	}
	a.save()
	a.openGates()
}

// applyChanges applies changes from the fleet.
func (a *rolloutActor) applyChanges(m Changes) {
	switch {
	case !m.Staging.On, a.cause.Number == 0:
		a.causes = nil // earlier revisions belong to no rollout
	case m.Cause.Number > a.cause.Number:
		a.causes = append(a.causes, m.Cause.Number)
	}
	mapped := a.topology != m.Topology
	switched := a.staging.On != m.Staging.On
	a.cause, a.topology, a.staging = m.Cause, m.Topology, m.Staging
	for _, e := range m.Events {
		a.event(e)
	}
	if a.behind {
		a.behind = false
		a.retryLater()
	}
	if !a.knows {
		a.knows = true
		a.beginLeading()
	}
	if a.leads == nil {
		return
	}
	if mapped && a.machine != nil {
		a.chart()
	}
	if switched && !a.staging.On {
		a.release()
	}
	if len(a.touched) > 0 || len(a.recheck) > 0 || switched {
		a.scheduleRecheck()
	}
}

// event applies the event of one key.
func (a *rolloutActor) event(e kv.Event) {
	k, put := e.Entry.Key, e.Kind == kv.EventPut
	id := history.Names(k)[0]
	switch {
	case history.InRollouts.Has(k):
		a.rolloutIs(e, id)
		return
	case history.InOutboxes.Has(k):
		if l := storage.ValueOf[storage.RemoteCommand](e); put && !l.Answered {
			a.letters[k] = l
			a.command(k, l)
		} else {
			delete(a.letters, k)
		}
		return
	}
	w := a.nodes[id]
	if w == nil {
		w = &staged.Node{ID: id}
		a.nodes[id] = w
	}
	switch {
	case history.InNodes.Has(k):
		a.memberIs(w, storage.ValueOf[history.JoinedNode](e).Name)
	case history.InGenerations.Has(k):
		if c := storage.ValueOf[fleet.Counted](e); c.Digest != w.Wants {
			w.Wants, w.Since = c.Digest, e.Entry.ModRevision
			a.touched[w.Name] = w.Name != ""
			delete(a.touched, "")
		}
	case history.InOwners.Has(k):
		if w.Online = put; put {
			o := storage.ValueOf[struct {
				Versions layers.Versions `json:"versions"`
			}](e)
			w.Kind = cmp.Or(o.Versions.Board, "any board") + ", " + o.Versions.Software
		}
	case history.InStandings.Has(k):
		w.Stands = storage.ValueOf[fleet.Standing](e)
	case history.InAdmissions.Has(k):
		w.Gate = storage.ValueOf[staged.Admission](e)
	}
	if w.Name != "" {
		a.recheck = append(a.recheck, w.Name)
	}
}

// memberIs records a node that joined, was renamed or was forgotten.
func (a *rolloutActor) memberIs(w *staged.Node, name string) {
	if w.Name == name {
		return
	}
	if a.ids[w.Name] == w.ID {
		delete(a.ids, w.Name)
		delete(a.touched, w.Name)
		a.step(rollout.NodeForgotten{Node: w.Name})
	}
	if w.Name = name; name != "" {
		a.ids[name] = w.ID
		a.touched[name] = true
	}
}

// rolloutIs records a stored rollout. It skips what this leader stored itself.
func (a *rolloutActor) rolloutIs(e kv.Event, id string) {
	number, is := staged.NumberOf(id)
	if !is || e.Entry.ModRevision <= a.at[number] {
		return
	}
	if e.Kind != kv.EventPut {
		delete(a.kept, number)
		delete(a.at, number)
		return
	}
	a.at[number] = e.Entry.ModRevision
	var s staged.RolloutRecord
	if err := json.Unmarshal(e.Entry.Value, &s); err != nil {
		// The leader starts a new record in its place; the nodes' state is in their gates and standings.
		a.d.Log.Error("read a rollout: starting it again", zap.Uint64("revision", number), zap.Error(err))
		delete(a.kept, number)
		a.behind = a.behind || a.leads != nil && !a.saving
		return
	}
	a.kept[number] = &s
	// A save in flight may be the author; otherwise the compare rejects that save.
	a.behind = a.behind || a.leads != nil && !a.saving
	if a.leads == nil && number >= a.cause.Number {
		clear(a.touched)
		a.causes = nil
	}
}

// last returns the newest stored rollout.
func (a *rolloutActor) last() *staged.RolloutRecord {
	if len(a.kept) == 0 {
		return nil
	}
	return a.kept[slices.Max(slices.Collect(maps.Keys(a.kept)))]
}
