package nodes

import (
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/pace"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/stateloop"
)

// Words to the actor of a node.
type (
	// Desired is what the node shall have, and the layers that make it.
	Desired struct {
		fleet.Desired
		Set     layers.Set
		Counted fleet.Counted
		Stored  kv.Entry // what the store has of its generations, as far as the fleet knows
	}
	// Owned is who has the node's stream, by the store; a key that does not exist is nobody.
	Owned struct{ Entry kv.Entry }
	// Remembered is what a replica wrote of the node's memory.
	Remembered struct{ Entry kv.Entry }
	// Connected, Said and Disconnected are what the node link tells.
	Connected struct {
		Stream nodeproto.ToNode
		Hello  nodeproto.Hello
	}
	Message struct {
		Stream nodeproto.ToNode
		Word   nodeproto.FromNode
	}
	Disconnected struct{ Stream nodeproto.ToNode }
	// Known is from where the node is known, and the name that it has now.
	Known struct {
		fleet.Known
		Name string
	}
	// tick is the machine's timer; one that was set anew meanwhile is no news.
	tick struct{ number uint64 }
	// retry is to try again what the store could not do.
	retry struct{}
)

// node is /fleet/node/<uuid>: the machine of one node, its stream, and what of it is on its
// way to the store.
type node struct {
	d      *Deps
	id     string
	name   string // as the fleet told it last: the seat's is the fleet's to change
	handle *Handle
	self   *actor.PID

	machine *fleet.Node // nil until its memory was read
	before  []any       // what came until then: of what the node says little
	status  string
	timer   *time.Timer
	timers  uint64

	stream  nodeproto.ToNode // nil: none here
	on      string           // the stream's name in the machine, also another replica's
	replica string           // that has it
	report  *nodeproto.Report

	unstored
	generations
	ownership
	questions
	standings
	places
	versions    pace.Steady[layers.Versions] // that it says
	versionsDue bool                         // a look at them is under way

	views
	lines lines // that it has had logged
}

// Deps is what the actors of nodes work with.
type Deps struct {
	*storage.Access
	Shared       bool                  // other replicas use the store
	Settings     func() fleet.Settings // those that count now
	Tell         func(any)             // tells the fleet
	documents    documents
	declarations declarations
	running      runningConfigs
}

// Declared is what layers declare, by the MD5 of their config.
func (d *Deps) Declared(md5 string, set layers.Set) []stateloop.Desired {
	return d.declarations.of(md5, set).parameters
}

// New is the actor of a node, by its id and the name that the fleet has for it.
func New(d *Deps, id, name string, s *Handle) actor.Actor {
	return &node{d: d, id: id, name: name, handle: s}
}

// todo is an effect, and the stream that it is for.
type todo struct {
	effect any
	on     string
}

// ack is told to the node once what it said is stored.
type ack struct{ attempt uint64 }

// Receive gives the machine what happened.
func (n *node) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		n.self = c.Self()
		n.read()
	case *actor.Stopping:
		n.end("node removed from the fleet, or its certificate revoked")
		n.storeRunning(nil)
		n.setTimer(time.Time{})
	case *actor.Restarting:
		n.storeRunning(nil)
		n.setTimer(time.Time{})
	case *actor.Stopped:
	case storage.Saved:
		n.saved(m)
	case retry:
		n.again()
	default:
		if n.machine == nil {
			n.early(m)
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
		n.wants(m)
	case fleet.Asked:
		n.asked(m)
	case Connected:
		hello := m.Hello.Bounded()
		n.located(hello.Address)
		n.connect(m.Stream, hello.Software, hello.Firmware, hello.Board)
	case Message:
		n.handleMessage(m)
	case Disconnected:
		n.disconnect(m.Stream)
	case Owned:
		n.owned(m.Entry)
	case Remembered:
		n.remembered(m.Entry)
	case storage.Leased:
		n.own()
	case showDue:
		n.showDue()
	case computeDue:
		n.versionsDue = false
		n.compute()
	case placeAgain:
		n.place()
	case portsDue:
		n.portsDue = false
		n.underlay()
	case whereDue:
		if n.whereDue = false; n.stream != nil { // else it may come from elsewhere, at another replica
			n.locate()
		}
	case fleet.Changed:
		n.step(m)
	case Gated:
		n.step(*n.handle.admission.Load())
	case tick:
		if m.number == n.timers {
			n.step(fleet.Tick{})
		}
	default:
		n.ofOperators(m)
	}
}

// read asks for the memory of the store.
func (n *node) read() {
	n.d.Saver.Add(storage.Save{Op: kv.Get(history.PushKey(n.id)), To: n.self, What: savedRead, Of: &n.handle.spends})
}

// wake begins with the memory of the store: after a crash like after a start.
func (n *node) wake(m storage.Saved) {
	if m.Err != nil {
		n.d.Log.Warn("read the stored state of a node", zap.String("node", n.id), zap.Error(m.Err))
		n.later(savedRead)
		return
	}
	memory, err := n.parse(m.Now)
	n.memory = m.Now.ModRevision
	n.machine = fleet.New(n.name, memory, n.d.Settings())
	if err != nil {
		n.step(fleet.Unread{Why: err.Error()})
	}
	if g := n.handle.admission.Load(); g != nil {
		n.step(*g) // before it hears what it wants
	}
	n.d.Tell(Started{n.id})
	stream, versions := n.handle.Connection()
	if versions == (layers.Versions{}) {
		n.handle.is(memory.Push.For, "")
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

// parse reads a memory of the store; one that can't be read is told.
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

// connect begins a stream. It is announced to the other replicas.
func (n *node) connect(s nodeproto.ToNode, software, firmware, board string) {
	if n.stream != nil && n.stream.ID() >= s.ID() {
		return
	}
	n.stream, n.asks, n.theirs = s, nil, nil
	n.on, n.replica = n.d.Replica+"/"+strconv.FormatUint(s.ID(), 10), n.d.Replica
	n.handle.is(layers.Versions{Software: software, Firmware: firmware, Board: board}, n.replica)
	n.step(fleet.Connected{Stream: n.on, Replica: n.replica})
	n.own()
}

// disconnect is the end of a stream.
func (n *node) disconnect(s nodeproto.ToNode) {
	if n.stream == nil || n.stream.ID() != s.ID() {
		return
	}
	n.leaving = n.ownerValue()
	n.stream, n.asks = nil, nil
	n.vanished()
	n.away()
	n.disown()
}

// disown says that the node's stream is not here any more, unless the key says something else.
func (n *node) disown() {
	if n.stream != nil || n.leaving == nil {
		return
	}
	gone := kv.Holds(history.OwnerKey(n.id), n.leaving)
	n.d.Saver.Add(storage.Save{Op: kv.Delete(history.OwnerKey(n.id)), Compare: &gone, To: n.self, What: savedGone,
		Of: &n.handle.spends})
}

// away says that no replica has the node's stream.
func (n *node) away() {
	n.handle.is(layers.Versions{}, "")
	on := n.on
	n.on, n.replica, n.theirs = "", "", nil
	n.step(fleet.Disconnected{Stream: on})
}

// end ends the stream from here.
func (n *node) end(why string) {
	if n.stream != nil {
		n.stream.End(why)
		n.stream = nil
	}
}

// handleMessage gives the machine what the node says.
func (n *node) handleMessage(m Message) {
	if n.stream == nil || m.Stream.ID() != n.stream.ID() {
		return
	}
	switch w := m.Word.(type) {
	case nodeproto.Report:
		w = w.Bounded()
		if n.report == nil || !slices.Equal(n.report.Parameters, w.Parameters) {
			n.notifyReplicas()
		}
		n.report = &w
		n.handle.heard.Store(n.d.Now().UnixNano())
		v := layers.Versions{Software: w.Software, Firmware: w.Firmware, Board: w.Board}
		n.handle.is(v, n.replica)
		e := fleet.ReportOf(&w, n.on)
		e.Parts = n.partsOf(&w)
		n.step(e)
		n.underlay()
		n.compareAgain()
	case nodeproto.Result:
		n.result(w)
	case nodeproto.Probed:
		w = w.Bounded()
		n.step(fleet.Answered{Stream: n.on, Probe: w.Number, Generation: w.Generation, Digest: digestOf(w.MD5, w.Peer),
			Worse: w.Worse})
	case nodeproto.Answer:
		n.answered(w)
	}
}

// result takes what became of a push. What ends the matter is acknowledged once it is stored.
func (n *node) result(r nodeproto.Result) {
	digest := fleet.Digest{Config: r.Pushed()}
	switch r.Outcome {
	case nodeproto.Accepted, nodeproto.Applied:
		n.step(fleet.Acked{Attempt: r.Attempt})
		return
	case nodeproto.Rejected:
		n.steps(fleet.Rejected{Attempt: r.Attempt, Digest: digest, Faults: r.Faults.Error()}, ack{r.Attempt})
	case nodeproto.NotStored:
		n.step(fleet.NotStored{Attempt: r.Attempt, Digest: digest, Why: r.Faults.Error()})
	case nodeproto.Unhealthy:
		n.steps(fleet.Undone{Attempt: r.Attempt, Digest: digest, Reason: fleet.Unhealthy, Why: r.Faults.Error()},
			ack{r.Attempt})
	case nodeproto.Unconfirmed:
		n.steps(fleet.Undone{Attempt: r.Attempt, Digest: digest, Reason: fleet.Unconfirmed, Why: r.Faults.Error()},
			ack{r.Attempt})
	default:
		n.log("a node reports an unknown outcome")
	}
}

// step gives the machine an event and does what follows.
func (n *node) step(e fleet.Event) { n.steps(e, nil) }

func (n *node) steps(e fleet.Event, then any) {
	now := n.d.Now()
	for _, effect := range n.machine.Step(now, e) {
		if status, is := effect.(fleet.Status); is {
			n.status = status.Why
			continue
		}
		n.plan(effect)
	}
	if then != nil {
		n.plan(then)
	}
	n.show(now)
	n.work()
}
