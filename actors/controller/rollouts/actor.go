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

// Words to /rollout.
type (
	// Changes is what the fleet goes by now, and the keys that changed.
	Changes struct {
		Cause    staged.Cause
		Topology *topology.Topology
		Staging  staged.Staging
		Events   []kv.Event
	}
	// recheckNow is to see whether nodes wait that no rollout covers.
	recheckNow struct{}
	// due is a timer of the machine. One that another was set in place of is void, whichever
	// machine either is of.
	due struct {
		timer  int
		number uint64
	}
	// leadOn is to begin anew with what the store has.
	leadOn struct{}
	// saveNow stores what can wait a little.
	saveNow struct{}
	// List asks for the rollouts that are kept, or for that of one revision.
	List struct {
		All    bool
		Number uint64 // 0 is one, too: that of a base which changed before any write
	}
)

// gather is how long /rollout waits for more nodes of one change; it has come to all of them
// when there is quiet for so long, or after mostGather.
const (
	gather    = 100 * time.Millisecond
	maxGather = time.Second
	saveLater = time.Second // what can be learnt again from the nodes
)

// rolloutActor is /rollout. On every replica it keeps up with the keys; on the one that leads
// it has the machine of the rollout that runs.
type rolloutActor struct {
	d    *Deps
	self *actor.PID

	staging  staged.Staging
	cause    staged.Cause
	causes   []uint64 // since the last rollout began
	topology *topology.Topology
	nodes    map[string]*staged.Node          // by id
	ids      map[string]string                // by name
	kept     map[uint64]*staged.Record        // by revision, as stored
	at       map[uint64]kv.Revision           // of kept
	touched  map[string]bool                  // names that want something else since the last rollout began
	taken    map[string]bool                  // those of touched that the save under way is about
	letters  map[kv.Key]storage.RemoteCommand // commands that nobody has answered

	leads   *kv.Leadership
	mandate *kv.Leadership // that is taken up in a moment
	knows   bool           // the keys of the store, as of the start at least
	machine *rollout.Rollout
	now     *staged.Record // that the machine is of, or the last one
	timers  uint64         // that were set
	epoch   int            // of the leadership: answers of the store to another one are void
	behind  bool           // the leader before has stored more than what this one began with
	recheck []string       // names to be observed

	gathering
	records
}

// gathering is the wait for all nodes of one change.
type gathering struct {
	gathers time.Time // since when; zero: it doesn't
	stirred bool      // something came since lookNow was set
}

// records is what the store is to have, and what is on its way there.
type records struct {
	dirty, saving, later bool
	opening              int              // transactions that open gates, on their way
	ended                []*staged.Record // to be stored with the next save
	answers              []answer         // once what they tell of is stored
}

// Deps is what /rollout works with.
type Deps struct {
	*storage.Access
	Under *Underway
}

// answer is what became of a command.
type answer struct {
	key     kv.Key
	message storage.RemoteCommand
	refused string
}

// New is /rollout.
func New(d *Deps) actor.Actor {
	return &rolloutActor{
		d: d, nodes: map[string]*staged.Node{}, ids: map[string]string{},
		kept: map[uint64]*staged.Record{}, at: map[uint64]kv.Revision{},
		touched: map[string]bool{}, letters: map[kv.Key]storage.RemoteCommand{},
	}
}

// Receive takes news, what the leadership is, and what the store has done.
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
	a.d.Under.is.Store(a.rolls())
}

// named is the node of a name, nil for none.
func (a *rolloutActor) named(name string) *staged.Node { return a.nodes[a.ids[name]] }

// joined are the nodes that have a name.
func (a *rolloutActor) joined(yield func(*staged.Node) bool) {
	for _, id := range a.ids {
		if !yield(a.nodes[id]) {
			return
		}
	}
}

// beginLeading begins to lead, once it is known what there is to be led.
func (a *rolloutActor) beginLeading() {
	if a.mandate == nil || !a.knows {
		return
	}
	a.leads, a.mandate = a.mandate, nil
	a.begin()
}

// runPending does what follows until nothing does.
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

// applyChanges takes what the fleet has told.
func (a *rolloutActor) applyChanges(m Changes) {
	switch {
	case !m.Staging.On, a.cause.Number == 0:
		a.causes = nil // what is there already is no rollout's to take back
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
		a.recheckLater()
	}
}

// event takes over one key.
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
		a.memberIs(w, storage.ValueOf[history.Member](e).Name)
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

// memberIs takes over a node that has joined, has another name, or is forgotten.
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

// rolloutIs takes over a rollout as the store has it. What the leader stored itself it knows.
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
	var s staged.Record
	if err := json.Unmarshal(e.Entry.Value, &s); err != nil {
		// The leader begins another record in its place: what nodes have is in their gates and standings.
		a.d.Log.Error("read a rollout: starting it again", zap.Uint64("revision", number), zap.Error(err))
		delete(a.kept, number)
		a.behind = a.behind || a.leads != nil && !a.saving
		return
	}
	a.kept[number] = &s
	// While a save is on its way it may be that one; if it is not, the save is refused.
	a.behind = a.behind || a.leads != nil && !a.saving
	if a.leads == nil && number >= a.cause.Number {
		clear(a.touched)
		a.causes = nil
	}
}

// last is the newest rollout that the store has.
func (a *rolloutActor) last() *staged.Record {
	if len(a.kept) == 0 {
		return nil
	}
	return a.kept[slices.Max(slices.Collect(maps.Keys(a.kept)))]
}
