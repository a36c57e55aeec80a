package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers/metadata"
)

// faulty is a history with faults: three replicas that die, whose clocks jump, and whose connections to the store are
// cut, slow or lossy; nodes that answer at random; staged rollouts on and off; and two operators with conflicting
// intents.
type faulty struct {
	*rig
	s     *common
	rand  *rand.Rand
	audit *audit
	names []string
	brief bool // pauses are short: the clock is the machine's

	open    func(replica string) storage.Store // opens the store for a replica
	disturb func()                             // disturbs the store itself; nil: not possible
	heal    func()                             // ends the disturbance

	ways   map[string]*way
	clocks map[string]*wallClock
	begun  map[string]time.Time
	work   sync.WaitGroup

	mu       sync.Mutex
	log      []string
	ops      []*sent
	moments  int
	coming   map[string]bool // nodes on their way to a replica
	suspects []suspect
	pushes   int
}

// sent is a request of an operator.
type sent struct {
	id          int
	by          fleetapi.Caller
	what        string
	write       ops.Write // nil: not a write
	message     string
	ifMatch     map[history.Layer]uint64
	dry         bool
	command     fleetapi.RolloutCommand
	rollout     uint64
	began       int // moments
	ended       int // 0: not ended
	first, last uint64
	out         fleetapi.Written
	err         error
}

// suspect is a push for which no gate was opened.
type suspect struct {
	at            time.Time
	since         time.Time // the replica may know the store as of this time
	node, replica string
	push          nodeproto.Push
}

var (
	faultyReplicas = []string{"a", "b", "c"}
	bob            = fleetapi.Caller{Name: "bob", Role: fleetapi.Admin}
)

var rolloutCommands = []fleetapi.RolloutCommand{fleetapi.PauseRollout, fleetapi.ResumeRollout, fleetapi.AbortRollout,
	fleetapi.RevertRollout}

// faultyFlags are the flags of the process; staged rollouts themselves are switched by the history.
var faultyFlags = map[string]string{
	"config_rollout_stages": "50", "config_rollout_batch_limit": "2", "config_batch_timeout_s": "60",
	"config_rollout_canary": "1",
}

const faultyLimit = 2

// usualIgnorance is how long a replica may not know the store's content after its connection was bad: a call that began
// then, and the pause after it.
const usualIgnorance = storage.StoreTimeout + 5*time.Second

func newFaulty(r *rig, s *common, seed uint64) *faulty {
	w := &faulty{
		rig: r, s: s, rand: rand.New(rand.NewPCG(seed, 11)), audit: newAudit(s, faultyLimit, faultyFlags),
		ways:   map[string]*way{},
		clocks: map[string]*wallClock{}, begun: map[string]time.Time{}, coming: map[string]bool{},
	}
	_, at, err := s.Get(r.Context(), history.HeadKey())
	if err != nil {
		r.Fatal(err)
	}
	w.audit.at, s.open = at, map[string]map[string]bool{}
	w.open = func(string) storage.Store { return s.Store }
	e2e := map[string]*metadata.Metadata{ownFile: rolloutMetadata(r.T)}
	r.change = func(o *Options) {
		name := o.Replica
		w.ways[name] = &way{s: s, store: w.open(name), replica: name, is: wayGood,
			rand: rand.New(rand.NewPCG(w.rand.Uint64(), 1))}
		if w.clocks[name] == nil {
			w.clocks[name] = &wallClock{}
		}
		w.begun[name] = time.Now()
		o.Store, o.Now, o.E2E, o.Flags, o.Shared = w.ways[name], w.clocks[name].now, e2e, faultyFlags, seed%3 > 0
	}
	return w
}

// run runs the history.
func (w *faulty) run(steps int) {
	w.setUp()
	for range steps {
		w.step()
		w.look()
		if w.Failed() {
			break
		}
	}
	if !w.Failed() {
		w.end()
	}
	w.work.Wait()
	w.s.late.Wait()
	if w.Failed() {
		w.note("rollouts: %s", w.audit.tells())
		w.Logf("what was done:\n%s", strings.Join(w.log, "\n"))
	}
}

func (w *faulty) setUp() {
	for _, name := range faultyReplicas {
		w.start(name)
	}
	w.pass(time.Second)
	for i := range 6 {
		w.names = append(w.names, fmt.Sprintf("n%d", i))
	}
	if w.rand.IntN(4) > 0 {
		doc, links := ringOf(w.names)
		w.audit.ring, w.audit.links = w.names, links
		w.ask(alice, "topology", ops.SetTopology{Document: w.doc(doc)}, nil)
	}
	if w.rand.IntN(4) > 0 {
		w.turn(alice, true)
	}
	w.work.Wait()
	for _, name := range w.names {
		inv, err := w.some().Invite(w.Context(), alice, name, 1000*time.Hour, false)
		if err != nil {
			w.Fatal(err)
		}
		n := newFakeNode(w.rig, name)
		n.tap = w.pushed(n)
		if _, err := w.some().Join(w.Context(),
			nodeproto.Join{Token: inv.Token, Name: name, Node: n.id, Key: "key-" + name}); err != nil {
			w.Fatal(err)
		}
	}
	w.settled()
	for _, name := range w.names {
		w.come(name, w.some())
	}
	w.nap(time.Duration(w.rand.IntN(60)) * time.Second)
	w.look()
}

// nap lets time pass.
func (w *faulty) nap(d time.Duration) {
	if w.brief {
		d /= 20
	}
	w.pass(d)
}

func (w *faulty) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// some returns one of the running replicas.
func (w *faulty) some() *Controller {
	for {
		if c := w.replicas[faultyReplicas[w.rand.IntN(len(faultyReplicas))]]; c != nil {
			return c
		}
	}
}

func (w *faulty) operator() fleetapi.Caller { return []fleetapi.Caller{alice, bob}[w.rand.IntN(2)] }

func (w *faulty) one() *fakeNode { return w.nodes[w.names[w.rand.IntN(len(w.names))]] }

// come makes a node connect to a replica, unless it is about to.
func (w *faulty) come(name string, c *Controller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.coming[name] {
		return
	}
	w.coming[name] = true
	w.work.Go(func() {
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		err := w.nodes[name].try(ctx, c)
		w.note("%s comes to %s: %v", name, c.d.Replica, err)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.coming, name)
	})
}

// pushed records each push that a node gets.
func (w *faulty) pushed(n *fakeNode) func(*Controller, nodeproto.Push) {
	return func(c *Controller, p nodeproto.Push) {
		open := w.s.isOpen(n.id, p.MD5)
		w.note("%s gets attempt %d from %s, gate open %v: %s", n.name, p.Attempt, c.d.Replica, open, short(p.Document))
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pushes++
		if open {
			return
		}
		name := c.d.Replica
		since := c.d.Store.(*way).ignorance(time.Now(), usualIgnorance)
		w.suspects = append(w.suspects, suspect{time.Now(), since, n.name, name, p})
	}
}

// short returns the part of a node's config that differs within a history.
func short(doc []byte) string {
	o, _ := config.ParseObject(doc)
	return fmt.Sprint(o["envParams"], o["sysParams"])
}

// look checks what was written and pushed so far against the invariants.
func (w *faulty) look() {
	w.Helper()
	w.settled()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	err := w.audit.read(ctx)
	if err != nil {
		w.Fatal("audit: ", err)
	}
	for _, wrong := range w.audit.wrong {
		w.Error(wrong)
	}
	w.audit.wrong = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.suspects {
		if !w.audit.off(s.since, time.Now()) {
			w.Errorf("%s: %s got attempt %d from %s before its gate was open: %s", s.at.Format("15:04:05.000"), s.node,
				s.push.Attempt, s.replica, short(s.push.Document))
		}
	}
	w.suspects = nil
}

func (w *faulty) step() {
	if w.disturb != nil && w.rand.IntN(4) == 0 {
		w.disturb()
	}
	switch w.rand.IntN(20) {
	case 0, 1, 2:
		w.ask(w.operator(), "network", ops.SetNetwork{Overrides: w.overrides()}, &history.Layer{Kind: history.Network})
	case 3, 4:
		w.writeNode()
	case 5:
		w.dispute()
	case 6:
		w.turn(w.operator(), w.rand.IntN(3) > 0)
	case 7, 8:
		w.command(w.operator(), rolloutCommands[w.rand.IntN(len(rolloutCommands))])
	case 9:
		w.disputeRollout()
	case 10, 11:
		w.reroute()
	case 12:
		w.restart()
	case 13:
		w.jump()
	case 14:
		w.forgetPast()
	case 15:
		w.moodOf(w.one())
	case 16:
		w.move()
	case 17:
		w.commandNode()
	case 18:
		w.readHead()
	default:
		if w.audit.head > 1 {
			w.ask(w.operator(), "revert", ops.Revert{Revision: w.audit.head - uint64(w.rand.IntN(2))}, nil)
		}
	}
	for _, name := range w.names {
		if !w.nodes[name].online() && w.rand.IntN(3) == 0 {
			w.come(name, w.some())
		}
	}
	switch w.rand.IntN(4) {
	case 0:
	case 1:
		w.nap(time.Duration(w.rand.IntN(2000)) * time.Millisecond)
	default:
		w.nap(time.Duration(w.rand.IntN(90)) * time.Second)
	}
}

func (w *faulty) overrides() config.Object {
	env := config.Object{}
	for _, key := range []string{"A", "B", "C"} {
		if w.rand.IntN(2) == 0 {
			env[key] = []string{"x", "y", "bad"}[w.rand.IntN(3)]
		}
	}
	return config.Object{"envParams": env}
}

func (w *faulty) writeNode() {
	o, n := w.overrides(), w.one()
	if w.rand.IntN(6) == 0 {
		o["sysParams"] = config.Object{"managedConfig": w.rand.IntN(3) > 0}
	}
	w.ask(w.operator(), "node", ops.SetNodes{Overrides: config.Object{n.name: o}},
		&history.Layer{Kind: history.Node, Name: n.name})
}

// dispute has two operators write at once: one turns a value on, the other turns it off.
func (w *faulty) dispute() {
	layer := &history.Layer{Kind: history.Network}
	for _, by := range []fleetapi.Caller{alice, bob} {
		w.ask(by, "dispute",
			ops.SetNetwork{Overrides: config.Object{"envParams": config.Object{"SWITCH": by.Name}}, Modify: true}, layer)
	}
}

// disputeRollout has one operator pause while the other resumes, or one abort while the other reverts.
func (w *faulty) disputeRollout() {
	both := [][2]fleetapi.RolloutCommand{{fleetapi.PauseRollout, fleetapi.ResumeRollout},
		{fleetapi.AbortRollout, fleetapi.RevertRollout}}[w.rand.IntN(2)]
	w.command(alice, both[0])
	w.command(bob, both[1])
}

// turn switches staged rollouts.
func (w *faulty) turn(by fleetapi.Caller, on bool) {
	doc := config.Object{"flags": config.Object{"config_staged_rollout_enabled": fmt.Sprint(on)}}
	w.ask(by, "flag", ops.SetE2E{File: ownFile, Config: doc, Modify: true}, nil)
}

// reroute changes a replica's connection to the store.
func (w *faulty) reroute() {
	name := w.some().d.Replica
	now := ways[w.rand.IntN(len(ways))]
	w.note("the way of %s to the store is %s", name, now)
	w.ways[name].become(now)
}

// jump sets the clock of a replica.
func (w *faulty) jump() {
	name, d := w.some().d.Replica, time.Duration(w.rand.IntN(600)-300)*time.Minute
	w.note("the clock of %s jumps by %s", name, d)
	w.clocks[name].jump(d)
}

// forgetPast compacts the store, however slow a watcher is.
func (w *faulty) forgetPast() {
	at := w.audit.at
	w.note("the store is compacted to %d", at)
	if err := w.s.compact(w.Context(), at); err != nil && !w.brief {
		w.Errorf("compact: %v", err)
	}
}

// restart ends a replica, orderly or as a power cut does, or starts one that is not running.
func (w *faulty) restart() {
	if len(w.replicas) < len(faultyReplicas) && (len(w.replicas) == 1 || w.rand.IntN(2) == 0) {
		for _, name := range faultyReplicas {
			if w.replicas[name] == nil {
				w.note("%s begins", name)
				w.start(name)
				return
			}
		}
	}
	name := w.some().d.Replica
	killed := w.rand.IntN(3) > 0
	w.note("%s ends, killed %v", name, killed)
	if killed {
		w.ways[name].become(wayRefused)
	}
	w.stop(name)
}

func (w *faulty) moodOf(n *fakeNode) {
	reject, unhealthy, silent := "", "", false
	switch w.rand.IntN(4) {
	case 0:
		reject = "bad"
	case 1:
		unhealthy = "bad"
	case 2:
		silent = true
	}
	w.note("mood of %s: rejects %q, unhealthy %q, silent %v", n.name, reject, unhealthy, silent)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reject, n.unhealthy, n.silent = reject, unhealthy, silent
}

// move cuts a node's stream, or makes it connect elsewhere.
func (w *faulty) move() {
	n, lost := w.one(), w.rand.IntN(2) == 0
	w.note("%s leaves, lost %v", n.name, lost)
	if lost {
		n.lose()
	} else {
		n.cut()
	}
	if w.rand.IntN(2) == 0 {
		w.come(n.name, w.some())
	}
}
