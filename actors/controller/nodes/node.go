package nodes

import (
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/controller/metrics"
	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/pace"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/stateloop"
)

// Messages to a node's actor.
type (
	// Desired is the desired config of the node, and the layers that it is merged from.
	Desired struct {
		fleet.Desired
		Set     layers.Set
		Counted fleet.Counted
		Stored  kv.Entry // the generations in the store, as far as the fleet knows
		Trace   string   // traceparent of the write that it comes from, "" for none
		By      string   // the revision that changed it, or that it is of, for people
	}
	// OwnerChanged is the key that names the replica with the node's stream; if it does not exist, no replica has it.
	OwnerChanged struct{ Entry kv.Entry }
	// MemoryChanged is a replica's write of the node's memory.
	MemoryChanged struct{ Entry kv.Entry }
	// Connected, Message and Disconnected come from the node link.
	Connected struct {
		Stream nodeproto.ToNode
		Hello  nodeproto.Hello
	}
	Message struct {
		Stream  nodeproto.ToNode
		Message nodeproto.FromNode
	}
	Disconnected struct{ Stream nodeproto.ToNode }
	// Known is from where the node is known, and its current name.
	Known struct {
		fleet.Known
		Name string
	}
	// tick is the machine's timer; a tick of a replaced timer is ignored.
	tick struct{ number uint64 }
	// retry repeats writes that failed.
	retry struct{}
)

// node is /fleet/node/<uuid>: the machine of one node, its stream, and its pending writes to the store.
type node struct {
	d      *Deps
	id     string
	name   string // from the fleet's last message; the fleet changes the handle's own
	handle *Handle
	self   *actor.PID

	machine *fleet.Node // nil until its memory is read
	before  []any       // messages that arrived until then; few of the node's own
	status  string
	timer   *time.Timer
	timers  uint64

	stream  nodeproto.ToNode // nil: not connected to this replica
	on      string           // the stream's name in the machine, also for a stream of another replica
	replica string           // that has the stream
	report  *nodeproto.Report

	storeQueue
	generations
	ownership
	questions
	progressState
	places
	search
	versionsState

	views
	pushTrace
	lines lines // logged on its behalf
}

// versionsState is the versions that the node reports.
type versionsState struct {
	versions    pace.Debouncer[layers.Versions]
	versionsDue bool // a computeDue is scheduled
}

// Deps are the dependencies of the nodes' actors.
type Deps struct {
	*storage.Access
	Shared       bool                  // other replicas use the store
	Settings     func() fleet.Settings // the current settings
	Work         *metrics.Work         // counts pushes and their results; may be nil
	Notify       func(any)             // sends a message to the fleet
	documents    documents
	declarations declarations
	running      runningConfigs
}

// Declared returns what layers declare, by the MD5 of their config.
func (d *Deps) Declared(md5 string, set layers.Set) []stateloop.DesiredParameter {
	return d.declarations.get(md5, set).parameters
}

// New returns the actor of a node, by its id and its name in the fleet.
func New(d *Deps, id, name string, s *Handle) actor.Actor {
	return &node{d: d, id: id, name: name, handle: s}
}

// queuedEffect is an effect and the stream that it is for.
type queuedEffect struct {
	effect any
	on     string
}

// ack acknowledges a message of the node, once its effect is stored.
type ack struct{ attempt uint64 }

// Receive turns messages into events of the machine.
func (n *node) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		n.self = c.Self()
		n.read()
	case *actor.Stopping:
		n.handle.dropEvents()
		n.endStream("node removed from the fleet, or its certificate revoked")
		n.storeRunning(nil)
		n.setTimer(time.Time{})
	case *actor.Restarting:
		n.storeRunning(nil)
		n.setTimer(time.Time{})
	case *actor.Stopped:
	case storage.Saved:
		n.handleSaved(m)
	case retry:
		n.retry()
	default:
		if n.machine == nil {
			n.queueEarly(m)
			return
		}
		n.receive(m)
	}
}

func (n *node) receive(m any) {
	switch m := m.(type) {
	case Known:
		n.name = m.Name
		n.step(m.Known)
	case Desired:
		n.setDesired(m)
	case fleet.Asked:
		n.handleAsked(m)
	case Connected:
		hello := m.Hello.Bounded()
		n.handleAddress(hello.Address)
		n.connect(m.Stream, hello.Software, hello.Firmware, hello.Board)
	case Message:
		n.handleMessage(m)
	case Disconnected:
		n.disconnect(m.Stream)
	case OwnerChanged:
		n.handleOwner(m.Entry)
	case MemoryChanged:
		n.handleMemory(m.Entry)
	case storage.Leased:
		n.announceOwnership()
	case showDue:
		n.showDue()
	case computeDue:
		n.versionsDue = false
		n.compute()
	case placeAgain:
		n.storePlace()
	case portsDue:
		n.portsDue = false
		n.storeUnderlay()
	case whereDue:
		if n.whereDue = false; n.stream != nil { // otherwise it may connect from another address, at another replica
			n.publishAddress()
		}
	case fleet.Changed:
		n.step(m)
	case BisectChanged:
		n.handleBisect(m.Entry)
	case bisectDue:
		n.checkDue = false
		n.stepBisect()
	case AdmissionChanged:
		n.step(*n.handle.admission.Load())
	case tick:
		if m.number == n.timers {
			n.step(fleet.Tick{})
		}
	default:
		n.handleOperatorMessage(m)
	}
}

// read reads the memory from the store.
func (n *node) read() {
	n.d.Saver.Add(storage.Save{Op: kv.Get(history.PushKey(n.id)), To: n.self, What: savedRead, Of: &n.handle.spends})
}

// wake creates the machine from the stored memory, after a start as after a crash.
func (n *node) wake(m storage.Saved) {
	if m.Err != nil {
		n.d.Log.Warn("read the stored state of a node", zap.String("node", n.id), zap.Error(m.Err))
		n.retryLater(savedRead)
		return
	}
	memory, err := n.parse(m.Now)
	n.memoryRevision = m.Now.ModRevision
	n.machine = fleet.New(n.name, memory, n.d.Settings())
	if err != nil {
		n.step(fleet.Unread{Why: err.Error()})
	}
	if g := n.handle.admission.Load(); g != nil {
		n.step(*g) // before it gets its desired config
	}
	n.d.Notify(Started{n.id})
	stream, versions := n.handle.Connection()
	if versions == (layers.Versions{}) {
		n.handle.setVersions(memory.Push.For, "")
	}
	if stream != nil {
		n.connect(stream, versions.Software, versions.Firmware, versions.Board)
	}
	before := n.before
	n.before = nil
	for _, m := range before {
		n.receive(m)
	}
}

// parse decodes a stored memory, and logs an error.
func (n *node) parse(e kv.Entry) (fleet.Memory, error) {
	if !e.Exists() {
		return fleet.Memory{}, nil
	}
	m, err := fleet.ParseMemory(e.Value)
	if err != nil {
		n.d.Log.Error("read the stored state of a node: ignored", zap.String("node", n.id), zap.Error(err))
	}
	return m, err
}

// connect starts a stream and announces it to the other replicas.
func (n *node) connect(s nodeproto.ToNode, software, firmware, board string) {
	if n.stream != nil && n.stream.ID() >= s.ID() {
		return
	}
	n.stream, n.asks, n.theirs = s, nil, nil
	n.on, n.replica = n.d.Replica+"/"+strconv.FormatUint(s.ID(), 10), n.d.Replica
	n.handle.setVersions(layers.Versions{Software: software, Firmware: firmware, Board: board}, n.replica)
	n.step(fleet.Connected{Stream: n.on, Replica: n.replica})
	n.announceOwnership()
}

// disconnect handles the end of a stream.
func (n *node) disconnect(s nodeproto.ToNode) {
	if n.stream == nil || n.stream.ID() != s.ID() {
		return
	}
	n.leaving = n.ownerValue()
	n.stream, n.asks = nil, nil
	n.publishDisconnected()
	n.handleOwnerGone()
	n.releaseOwnership()
}

// releaseOwnership deletes the owner's key, if it still has the value of the ended stream.
func (n *node) releaseOwnership() {
	if n.stream != nil || n.leaving == nil {
		return
	}
	gone := kv.HasValue(history.OwnerKey(n.id), n.leaving)
	n.d.Saver.Add(storage.Save{Op: kv.Delete(history.OwnerKey(n.id)), Compare: &gone, To: n.self, What: savedGone,
		Of: &n.handle.spends})
}

// handleOwnerGone records that no replica has the node's stream.
func (n *node) handleOwnerGone() {
	n.handle.setVersions(layers.Versions{}, "")
	on := n.on
	n.on, n.replica, n.theirs = "", "", nil
	n.step(fleet.Disconnected{Stream: on})
}

// endStream closes the node's stream.
func (n *node) endStream(why string) {
	if n.stream != nil {
		n.stream.End(why)
		n.stream = nil
	}
}

// handleMessage turns a message of the node into an event of the machine.
func (n *node) handleMessage(m Message) {
	if n.stream == nil || m.Stream.ID() != n.stream.ID() {
		return
	}
	switch w := m.Message.(type) {
	case nodeproto.Report:
		w = w.Bounded()
		if n.report == nil || !slices.Equal(n.report.Parameters, w.Parameters) {
			n.notifyReplicas()
		}
		n.report = &w
		n.handle.heard.Store(n.d.Now().UnixNano())
		v := layers.Versions{Software: w.Software, Firmware: w.Firmware, Board: w.Board}
		n.handle.setVersions(v, n.replica)
		e := fleet.ReportOf(&w, n.on)
		e.Parts = n.partsOf(&w)
		n.step(e)
		n.storeUnderlay()
		n.compareAgain()
		n.collectEvents(w.Events)
	case nodeproto.Result:
		n.handleResult(w)
	case nodeproto.Probed:
		w = w.Bounded()
		n.step(fleet.Answered{Stream: n.on, Probe: w.Number, Generation: w.Generation, Digest: digestOf(w.MD5, w.Peer),
			Worse: w.Worse})
	case nodeproto.Answer:
		n.handleAnswer(w)
	}
}

// handleResult handles the result of a push. Final results are acknowledged once they are stored.
func (n *node) handleResult(r nodeproto.Result) {
	digest := fleet.Digest{Config: r.Pushed()}
	n.d.Work.Result(r.Outcome.String())
	n.traceResult(r)
	switch r.Outcome {
	case nodeproto.Accepted, nodeproto.Applied:
		n.step(fleet.Acked{Attempt: r.Attempt})
		return
	case nodeproto.Rejected:
		n.stepThen(fleet.Rejected{Attempt: r.Attempt, Digest: digest, Faults: r.Faults.Error()}, ack{r.Attempt})
	case nodeproto.NotStored:
		n.step(fleet.NotStored{Attempt: r.Attempt, Digest: digest, Why: r.Faults.Error()})
	case nodeproto.Unhealthy:
		n.stepThen(fleet.Undone{Attempt: r.Attempt, Digest: digest, Reason: fleet.Unhealthy, Why: r.Faults.Error()},
			ack{r.Attempt})
	case nodeproto.Unconfirmed:
		n.stepThen(fleet.Undone{Attempt: r.Attempt, Digest: digest, Reason: fleet.Unconfirmed, Why: r.Faults.Error()},
			ack{r.Attempt})
	default:
		n.log("a node reports an unknown outcome")
	}
}

// step steps the machine and runs the effects.
func (n *node) step(e fleet.Event) { n.stepThen(e, nil) }

func (n *node) stepThen(e fleet.Event, then any) {
	now := n.d.Now()
	for _, effect := range n.machine.Step(now, e) {
		if status, ok := effect.(fleet.Status); ok {
			n.status = status.Why
			continue
		}
		n.queueEffect(effect)
	}
	if then != nil {
		n.queueEffect(then)
	}
	n.show(now)
	n.runEffects()
	n.stepBisect()
}
