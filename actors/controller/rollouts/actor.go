package rollouts

import (
	"cmp"
	"encoding/json"
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

// Messages to the actor.
type (
	// Changes is sent by the actor "fleet": the latest revision, topology and settings, and the keys that changed.
	Changes struct {
		Cause    staged.Cause // the newest revision that touched nodes
		Topology *topology.Topology
		Staging  staged.Staging
		Events   []kv.Event
	}
	// gatherDue says that it is time to look for nodes whose desired config no rollout covers.
	gatherDue struct{}
	// machineTimerDue says that a timer of the machine has expired. Only the timer that was set last counts.
	machineTimerDue struct {
		timer  int
		number uint64 // of timerCount
	}
	// restartDue says that it is time to lead again from the stored state, after retryLater.
	restartDue struct{}
	// saveDue says that a delayed save is to be made now.
	saveDue struct{}
	// List asks for the stored rollouts, or for the one of a revision.
	List struct {
		All    bool
		Number uint64 // 0 is valid: the rollout of base files that changed before any write
	}
)

// One change sets the desired configs of its nodes one after the other. The actor gathers these nodes until nothing has
// arrived for gatherDelay, or maxGather has passed.
const (
	gatherDelay = 100 * time.Millisecond
	maxGather   = time.Second
	saveDelay   = time.Second // for a change that the nodes would report again if it were lost
)

// rolloutActor is the actor. Every replica follows the keys; the leader also has the machine of the current rollout.
type rolloutActor struct {
	deps *Deps
	self *actor.PID

	staging         staged.Staging
	cause           staged.Cause
	causes          []uint64 // revisions that touched nodes since the last rollout began
	topology        *topology.Topology
	nodes           map[string]*staged.Node          // by id
	ids             map[string]string                // by name
	storedRecords   map[uint64]*staged.RolloutRecord // by revision, as stored
	storedRevisions map[uint64]kv.Revision           // of storedRecords
	touched         map[string]bool                  // names whose desired config changed since the last rollout began
	touchedInSave   map[string]bool                  // the names that left touched for a save whose result is not known
	commands        map[kv.Key]storage.RemoteCommand // commands without an answer

	leadership        *kv.Leadership
	pendingLeadership *kv.Leadership // a leadership that is about to begin
	initialized       bool           // the first Changes has arrived
	machine           *rollout.Rollout
	current           *staged.RolloutRecord // the machine's record, or the last one
	timerCount        uint64                // counts the timers that were set
	epoch             int                   // counts leaderships: a result with another epoch is ignored
	outdated          bool                  // the previous leader stored more than this one started from
	nodesToStep       []string              // names of nodes whose state has changed: see stepNode

	gatherWait
	records
}

// gatherWait is the wait for all nodes of one change.
type gatherWait struct {
	gatherSince    time.Time // its start; zero: nothing is gathered
	gatherExtended bool      // something arrived since setGatherTimer
}

// records is what has to be stored, and what is in flight.
type records struct {
	dirty             bool                    // the current record has changed
	saving            bool                    // a save is in flight
	saveScheduled     bool                    // the save waits for saveDelay
	writingAdmissions int                     // transactions in flight that admit nodes
	ended             []*staged.RolloutRecord // stored with the next save
	answers           []answer                // sent once their effect is stored
}

// Deps are the dependencies of the actor.
type Deps struct {
	*storage.Access
	Underway *UnderwayCache
}

// answer is the result of a command.
type answer struct {
	key     kv.Key
	command storage.RemoteCommand
	refused string // why; "" if it was carried out
}

// New returns the actor.
func New(deps *Deps) actor.Actor {
	return &rolloutActor{
		deps: deps, nodes: map[string]*staged.Node{}, ids: map[string]string{},
		storedRecords: map[uint64]*staged.RolloutRecord{}, storedRevisions: map[uint64]kv.Revision{},
		touched: map[string]bool{}, commands: map[kv.Key]storage.RemoteCommand{},
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
		a.pendingLeadership = &m.By
		a.beginLeading()
	case restartDue:
		a.beginLeading()
	case storage.Deposed:
		a.stepDown()
	case gatherDue:
		a.handleGatherDue()
	case machineTimerDue:
		if a.leadership != nil && a.machine != nil && m.number == a.timerCount {
			a.step(rollout.Deadline{Timer: m.timer})
		}
	case saveDue:
		a.saveScheduled = false
	case saveResult:
		a.handleSaveResult(m)
	case admissionsResult:
		a.handleAdmissionsResult(m)
	case storage.Question:
		if q, ok := m.Question.(List); ok {
			m.Reply(a.listRollouts(q))
		}
	}
	a.runPending()
	a.deps.Underway.underway.Store(a.isUnderWay())
	a.deps.Underway.last.Store(a.lastRecord())
}

// nodeByName returns the node with a name, nil for none.
func (a *rolloutActor) nodeByName(name string) *staged.Node { return a.nodes[a.ids[name]] }

// joinedNodes iterates over the nodes that have a name.
func (a *rolloutActor) joinedNodes(yield func(*staged.Node) bool) {
	for _, id := range a.ids {
		if !yield(a.nodes[id]) {
			return
		}
	}
}

// beginLeading starts to lead, once this replica knows the keys.
func (a *rolloutActor) beginLeading() {
	if a.pendingLeadership == nil || !a.initialized {
		return
	}
	a.leadership, a.pendingLeadership = a.pendingLeadership, nil
	a.resumeLastRollout()
}

// runPending gives the machine the state of the nodes in nodesToStep, and then starts the writes that have become due.
func (a *rolloutActor) runPending() {
	if a.leadership == nil {
		return
	}
	for len(a.nodesToStep) > 0 {
		names := a.nodesToStep
		a.nodesToStep = nil
		for _, name := range names {
			a.stepNode(a.nodes[a.ids[name]])
		}
	}
	a.save()
	a.writeAdmissions()
}

// applyChanges applies changes from the fleet.
func (a *rolloutActor) applyChanges(m Changes) {
	switch {
	case !m.Staging.On, a.cause.Number == 0:
		a.causes = nil // earlier revisions belong to no rollout
	case m.Cause.Number > a.cause.Number:
		a.causes = append(a.causes, m.Cause.Number)
	}
	topologyChanged := a.topology != m.Topology
	stagingSwitched := a.staging.On != m.Staging.On
	a.cause, a.topology, a.staging = m.Cause, m.Topology, m.Staging
	for _, e := range m.Events {
		a.applyEvent(e)
	}
	if a.outdated {
		a.outdated = false
		a.retryLater()
	}
	if !a.initialized {
		a.initialized = true
		a.beginLeading()
	}
	if a.leadership == nil {
		return
	}
	if topologyChanged && a.machine != nil {
		a.updateTopology()
	}
	if stagingSwitched && !a.staging.On {
		a.endAtOnce()
	}
	if len(a.touched) > 0 || len(a.nodesToStep) > 0 || stagingSwitched {
		a.startGathering()
	}
}

// applyEvent applies the change of one key, whose first part is a node's id, a rollout's revision or an outbox's name.
func (a *rolloutActor) applyEvent(e kv.Event) {
	k, put := e.Entry.Key, e.Kind == kv.EventPut
	id := history.KeyTexts(k)[0]
	switch {
	case history.InRollouts.Has(k):
		a.setStoredRecord(e, id)
		return
	case history.InOutboxes.Has(k):
		if command := storage.ValueOf[storage.RemoteCommand](e); put && !command.Answered {
			a.commands[k] = command
			a.handleCommand(k, command)
		} else {
			delete(a.commands, k)
		}
		return
	}
	node := a.nodes[id]
	if node == nil {
		node = &staged.Node{ID: id}
		a.nodes[id] = node
	}
	switch {
	case history.InNodes.Has(k):
		a.setNodeName(node, storage.ValueOf[history.JoinedNode](e).Name)
	case history.InGenerations.Has(k):
		if counted := storage.ValueOf[fleet.Counted](e); counted.Digest != node.Desired && !counted.Trial {
			node.Desired, node.Since = counted.Digest, e.Entry.ModRevision
			a.touched[node.Name] = node.Name != ""
			delete(a.touched, "")
		}
	case history.InOwners.Has(k): // the replica that the node is connected to; no key: it is offline
		if node.Online = put; put {
			owner := storage.ValueOf[struct {
				Versions layers.Versions `json:"versions"`
			}](e)
			node.Kind = cmp.Or(owner.Versions.Board, "any board") + ", " + owner.Versions.Software
		}
	case history.InRolloutProgress.Has(k):
		node.Progress = storage.ValueOf[fleet.RolloutProgress](e)
	case history.InAdmissions.Has(k):
		node.Admission = storage.ValueOf[staged.Admission](e)
	}
	if node.Name != "" {
		a.nodesToStep = append(a.nodesToStep, node.Name)
	}
}

// setNodeName records a node that joined, was renamed or was forgotten.
func (a *rolloutActor) setNodeName(node *staged.Node, name string) {
	if node.Name == name {
		return
	}
	if a.ids[node.Name] == node.ID {
		delete(a.ids, node.Name)
		delete(a.touched, node.Name)
		a.step(rollout.NodeForgotten{Node: node.Name})
	}
	if node.Name = name; name != "" {
		a.ids[name] = node.ID
		a.touched[name] = true
	}
}

// setStoredRecord applies the change of a stored record. It skips a record that this leader stored itself.
func (a *rolloutActor) setStoredRecord(e kv.Event, id string) {
	number, ok := staged.NumberOf(id)
	if !ok || e.Entry.ModRevision <= a.storedRevisions[number] {
		return
	}
	if e.Kind != kv.EventPut {
		delete(a.storedRecords, number)
		delete(a.storedRevisions, number)
		return
	}
	a.storedRevisions[number] = e.Entry.ModRevision
	var record staged.RolloutRecord
	if err := json.Unmarshal(e.Entry.Value, &record); err != nil {
		// The leader starts a new record in its place; the nodes' state is in their admissions and progress.
		a.deps.Log.Error("read a rollout: starting it again", zap.Uint64("revision", number), zap.Error(err))
		delete(a.storedRecords, number)
		a.outdated = a.outdated || a.leadership != nil && !a.saving
		return
	}
	a.storedRecords[number] = &record
	// A save in flight may be the author; otherwise the compare rejects that save.
	a.outdated = a.outdated || a.leadership != nil && !a.saving
	if a.leadership == nil && number >= a.cause.Number {
		clear(a.touched)
		a.causes = nil
	}
}

// lastRecord returns the newest stored rollout.
func (a *rolloutActor) lastRecord() (last *staged.RolloutRecord) {
	newest := uint64(0)
	for number, record := range a.storedRecords { // some twenty
		if last == nil || number > newest {
			last, newest = record, number
		}
	}
	return last
}
