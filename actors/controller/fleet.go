package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/actors/supervise"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/stateloop/peer"
)

// Messages to the fleet actor, in addition to those of the watcher and the keeper of the lease.
type (
	// kindRead is the result of reading the files of a kind.
	kindRead struct {
		kind fleet.Kind
		set  layers.Set
		err  error
	}
	// headRead is the layers as of a revision, and what changed since the previous one.
	headRead struct {
		state  history.State
		record history.RevisionRecord
		all    []history.Version // every layer, on the first read; later only those that were damaged
		diffs  []history.LayerDiff
		own    controllerconf.Change // of the controller's config, for this replica
		peers  *peer.Inventory       // nil if no descriptor changed
		err    error
	}
	// libraryRead is the list of base files.
	libraryRead struct {
		library layers.Library
		err     error
	}
)

// fleetActor is /fleet. It computes the desired config of every node from the keys of the store, and sends a node what
// changed for it.
type fleetActor struct {
	d    *deps
	self *actor.PID

	fleet    *fleet.DesiredConfigs
	queries  *fleet.Queries
	library  *layers.Library
	kinds    map[string]*kind
	nodes    map[string]*record // by id; nodes that have an actor
	stopping map[string]bool    // by id; actors that are stopping
	layersKnown
	keysKnown

	queue    []kv.Batch
	upTo     int  // how many batches of the queue belong to the layers being read
	reading  bool // a read of the layers is in progress
	rollouts []*rolloutProgress
	admits   []admission     // callers that wait until a node is known
	located  map[string]bool // by id; nodes whose address may be missing in the tunnels that lead to them

	factsWait  bool // a retry of the facts is scheduled, until a rollout ends
	admissions admissions
	peers      peering
}

// layersKnown is what the fleet uses of the layers, as of a revision.
type layersKnown struct {
	state    history.State
	began    bool // the layers have been read once
	network  config.Object
	auto     map[string]config.Object
	own      map[string]config.Object
	topology map[string]bool
	damaged  map[history.Layer]error // layers that are damaged in the store
}

// keysKnown is what the fleet uses of the other keys of the store.
type keysKnown struct {
	members   map[string]history.JoinedNode // by id
	ids       map[string]string             // by name
	tokens    map[string]Token
	revoked   map[string]Revocation
	learnt    map[string]*baseConfig
	counted   map[string]kv.Entry
	owners    map[string]kv.Entry
	proposals map[string]proposal // by node
	proposed  map[string][]byte   // by node id; encoded proposals of this replica's nodes
	operators map[kv.Key]bool
	bisects   map[string]*canary // by id
}

// admission is a caller that waits until a node is known.
type admission struct {
	admit
	reply func(any)
}

// admit answers the callers whose nodes are known now.
func (a *fleetActor) admit() {
	a.admits = slices.DeleteFunc(a.admits, func(w admission) bool {
		if a.nodes[w.id] == nil || w.joining != "" && a.revoked[w.id].Joining != w.joining {
			return false
		}
		w.reply(nil)
		return true
	})
	if n := len(a.admits) - maxAdmits; n > 0 {
		a.admits = slices.Delete(a.admits, 0, n) // their callers gave up long ago
	}
}

// maxAdmits bounds the callers that wait for nodes that are not known yet.
const maxAdmits = 1000

// record is what the fleet knows of one node in addition to its layers.
type record struct {
	handle   *nodes.Handle
	pid      *actor.PID
	name     string // in the fleet
	known    nodes.Known
	versions layers.Versions
	kind     string // whose layers it has in the fleet; "" for none
	asked    bool   // its actor has asked for its desired config
	sent     fleet.Desired
	reported bool // sent has gone to its actor
}

// kind is the layers that nodes of one kind share.
type kind struct {
	set     layers.Set
	err     error
	reading bool
	learnt  bool          // from a board's proposal
	wait    time.Duration // delay before the next attempt to read it, after a failure
}

func newFleetActor(d *deps) *fleetActor {
	return &fleetActor{
		d: d, queries: fleet.NewQueries(d.settings()), kinds: map[string]*kind{}, nodes: map[string]*record{},
		stopping: map[string]bool{},
		layersKnown: layersKnown{auto: map[string]config.Object{}, own: map[string]config.Object{},
			topology: map[string]bool{}, damaged: map[history.Layer]error{}},
		keysKnown: keysKnown{
			members: map[string]history.JoinedNode{}, ids: map[string]string{}, tokens: map[string]Token{},
			revoked: map[string]Revocation{},
			learnt:  map[string]*baseConfig{}, counted: map[string]kv.Entry{}, owners: map[string]kv.Entry{},
			proposals: map[string]proposal{}, proposed: map[string][]byte{}, operators: map[kv.Key]bool{},
			bisects: map[string]*canary{},
		},
		admissions: newAdmissions(), peers: newPeering(),
	}
}

func (a *fleetActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.self = c.Self()
	case begin:
		a.d.Leaf("library", a.readLibrary)
		a.d.Leaf("watcher", func() { a.d.Watch(a.self) })
		a.d.Leaf("lease", func() { a.d.KeepLease(a.self) })
	case *actor.Terminated:
		a.handleTerminated(c, m.Who)
	case libraryRead:
		a.setLibrary(c, m)
	case storage.Listing:
		a.queueListing(m)
	case kv.Batch:
		a.queue = append(a.queue, m)
	case headRead:
		a.handleHead(c, m)
	case applyAgain:
		a.reading = false
	case kindRead:
		a.publishTouched(c, a.setKind(m), nil)
	case kindAgain:
		a.readKind(m)
	case storage.Leased:
		a.handleLease(c, m)
	case storage.Saved:
		a.handleProposalSaved(m)
	default:
		a.handleNodeMessage(c)
	}
	a.applyQueued(c)
}

// handleNodeMessage handles messages from the nodes' actors and from callers of the controller.
func (a *fleetActor) handleNodeMessage(c actor.Context) {
	switch m := c.Message().(type) {
	case nodes.Started:
		a.handle(c, m.ID)
	case nodes.Compute:
		if r := a.nodes[m.ID]; r != nil {
			r.versions, r.asked = m.Versions, true
			a.publishTouched(c, a.computeDesired(r), nil)
		}
	case nodes.Recount:
		a.recount(c, m)
	case nodes.RequestBaseConfig:
		if a.hasProposals(m.ID, m.Board) { // the operator has to decide first
			c.Send(m.To, fleet.Asked{Next: a.d.Now().Add(a.d.settings().Interval)})
			return
		}
		granted, next := a.queries.Allow(a.d.Now(), m.ID, m.Board)
		c.Send(m.To, fleet.Asked{Granted: granted, Next: next})
	case nodes.Located:
		a.queueLocations(m.ID)
	case factsDue:
		a.factsWait = false
		a.updateFacts()
	case tunnelsDue:
		a.writeTunnelAddresses()
	case trialRead:
		a.setTrial(c, m)
	case nodes.Learnt:
		a.learn(m)
	case nodes.Reached:
		a.noteReached(m)
	case storage.Question:
		switch q := m.Question.(type) {
		case admit:
			a.admits = append(a.admits, admission{q, m.Reply})
			a.admit()
		case listHardware:
			m.Reply(a.listHardware())
		case listRollouts:
			m.Reply(a.listRollouts())
		}
	case fleet.Changed:
		a.queries.Limit(m.Settings)
		for _, r := range a.nodes {
			c.Send(r.pid, m)
		}
	case reload:
		a.kinds = map[string]*kind{}
		a.d.Leaf("library", a.readLibrary)
	}
}

// begin starts the leaves that feed the fleet, once every actor of the tree has been spawned.
type begin struct{}

// reload reads the base files again.
type reload struct{}

func (a *fleetActor) readLibrary() {
	l, err := a.d.Base.Library()
	a.d.Send(a.self, libraryRead{l, err})
}

// setLibrary stores the list of base files. If the first list can't be read, the controller ends.
func (a *fleetActor) setLibrary(c actor.Context, m libraryRead) {
	if m.err != nil {
		a.d.Log.Error("list the base files", zap.Error(m.err))
		if a.library != nil {
			return // keep the previous list
		}
		m.library = layers.Library{}
		a.d.Fail(fmt.Errorf("list the base files: %w", m.err))
	}
	a.library = &m.library
	if a.fleet != nil {
		a.publishTouched(c, a.setHardware(), nil)
	}
}

// spawn starts the actor of a node that has joined.
func (a *fleetActor) spawn(c actor.Context, id string) *record {
	s, name := a.d.dir.node(id), a.members[id].Name
	props := actor.PropsFromProducer(func() actor.Actor { return nodes.New(a.d.nodes, id, name, s) },
		a.d.Load.Mailbox(storage.KindNode), actor.WithReceiverMiddleware(supervise.Lifecycle(a.d.Log)))
	pid, err := c.SpawnNamed(props, "node/"+id)
	if err != nil { // the previous actor is still stopping: terminated spawns the new one
		a.stopping[id] = true
		return nil
	}
	s.SetProcess(pid)
	r := &record{handle: s, pid: pid, name: name}
	a.nodes[id] = r
	a.passUnderlay(id)
	a.updateAdmission(c, id, r) // before the node learns its desired config
	return r
}

// handleTerminated removes a node's actor that ended; if its node has joined again, it spawns a new one.
func (a *fleetActor) handleTerminated(c actor.Context, who *actor.PID) {
	id := who.Id[max(0, len(who.Id)-uuidLength):]
	if r := a.nodes[id]; r != nil && r.pid.Equal(who) {
		delete(a.nodes, id)
	}
	if a.stopping[id] {
		delete(a.stopping, id)
		if _, ok := a.members[id]; ok {
			a.syncNodes(c, &changes{names: map[string]bool{a.members[id].Name: true}})
			a.admit()
		}
	}
}

const uuidLength = 36

// handle sends an actor that has started everything that concerns it.
func (a *fleetActor) handle(c actor.Context, id string) {
	r := a.nodes[id]
	if r == nil {
		return
	}
	c.Send(r.pid, r.known)
	if owner, ok := a.owners[id]; ok {
		c.Send(r.pid, nodes.OwnerChanged{Entry: owner})
	}
	if k := a.bisects[id]; k != nil {
		c.Send(r.pid, nodes.BisectChanged{Entry: k.entry})
	}
	if r.asked {
		r.reported = false
		a.publishTouched(c, a.computeDesired(r), nil)
	}
}

// handleLease makes the nodes write again what was attached to the previous lease.
func (a *fleetActor) handleLease(c actor.Context, m storage.Leased) {
	a.d.HasLease(m.ID)
	for _, r := range a.nodes {
		c.Send(r.pid, m)
	}
	for id := range a.proposed {
		a.propose(id)
	}
}

// publishTouched sends nodes their desired config if it differs from what they were sent last. Nodes whose config
// changed by a revision are followed in its rollout.
func (a *fleetActor) publishTouched(c actor.Context, touched map[string]fleet.Touched, by *history.RevisionRecord) {
	var changed []string
	names := make([]string, 0, len(touched))
	for name := range touched {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r := a.nodes[a.ids[name]]
		if r == nil || r.name != name {
			continue
		}
		t := touched[name]
		w := nodes.Desired{Desired: t.Desired, Counted: t.Counted, Stored: a.counted[a.ids[name]]}
		w.Set, _ = a.fleet.Layers(name)
		if w.By = fmt.Sprintf("the layers as of revision %d", a.state.Number); by != nil {
			w.By = by.String()
			w.Trace = by.Trace
		}
		if k := a.bisects[a.ids[name]]; k != nil && w.Trial > 0 {
			w.By = k.by
		}
		if r.reported && r.sent == w.Desired {
			continue
		}
		if r.sent.For == w.For && (r.sent.Digest != w.Digest || r.sent.Fault != w.Fault) {
			changed = append(changed, name)
		}
		r.sent, r.reported = w.Desired, true
		c.Send(r.pid, w)
	}
	a.rollOut(by, changed)
}
