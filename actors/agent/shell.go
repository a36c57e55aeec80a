package agent

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/nodeconf/commitconfirm"
)

const (
	reportEvery  = 5 * time.Second
	tickEvery    = time.Second            // while a config is pending
	reportDelay  = 100 * time.Millisecond // closer observations and reports are combined
	observeShare = 20                     // an expensive observation takes at most 1/observeShare of the time
)

// shell is one incarnation of the agent's actor. It turns messages into events of the machine, and effects into
// messages.
type shell struct {
	a    *Agent
	o    *Options
	root *actor.RootContext
	self *actor.PID
	log  *zap.Logger

	m      commitconfirm.Machine
	booted bool
	early  []any // messages that arrived before boot
	notes  Notes
	live   commitconfirm.Publish // the last publication
	held   *commitconfirm.Publish
	fault  string            // why the desired config does not run
	begins []chan<- struct{} // callers that wait for the first publication

	candidates
	diskWork
	stateCache
	hostView
	link
	timers
	configTrace
	reading bool // the config file is being read again
	ended   bool
}

// stateCache caches the machine's state.
type stateCache struct {
	dirty bool // something happened since known was computed
	known commitconfirm.State
}

// timers are the timers of one incarnation, one of each kind, and the state of the ticks.
type timers struct {
	running  [timerKinds]*time.Timer
	lastTick time.Time
	every    time.Duration // interval of ticks, 0 for none
}

func (t *timers) set(kind timerKind, after time.Duration, f func()) {
	t.cancel(kind)
	t.running[kind] = time.AfterFunc(after, f)
}

func (t *timers) cancel(kind timerKind) {
	if x := t.running[kind]; x != nil {
		x.Stop()
		t.running[kind] = nil
	}
}

func (t *timers) isRunning(kind timerKind) bool { return t.running[kind] != nil }

func (t *timers) stop() {
	for kind := range timerKinds {
		t.cancel(kind)
	}
}

type timerKind int

const (
	tickTimer timerKind = iota
	observeTimer
	reportTimer
	settleTimer
	storeTimer
	timerKinds
)

type (
	due struct { // a timer fired
		of   *shell
		kind timerKind
		id   int
	}
	woken struct{ of *shell } // the host may have changed
	done  struct {            // a task ended
		of   *shell
		then func()
	}
	stopping struct{ reply chan<- struct{} }
	begun    struct{ reply chan<- struct{} }
	hello    struct{ reply chan<- commitconfirm.Echo }
)

func (s *shell) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		s.handleStarted(c)
	case *actor.Stopping, *actor.Restarting:
		s.stop()
	case due:
		if msg.of == s {
			s.handleDue(msg)
		}
	case woken:
		if msg.of == s {
			s.observeHost()
		}
	case done:
		if msg.of == s {
			msg.then()
		}
	case *candidate:
		s.submit(msg)
	case timeoutDue:
		s.answerTimeout(msg.of)
	case streamUp, streamDown, nodeproto.FromController, hello, reload, releaseRequest, *command, stopping, begun:
		s.receive(msg)
	}
}

// receive keeps messages until they can be handled. Those of a stream wait until the config of this start is decided: a
// controller that hears of none, while a new file is validated, would push its own, and remove what the file has.
func (s *shell) receive(m any) {
	ofStream := false
	switch m.(type) {
	case streamUp, streamDown, nodeproto.FromController, hello:
		ofStream = true
	}
	if !s.booted || ofStream && (s.held != nil || len(s.early) > 0) { // in order
		s.early = append(s.early, m)
		return
	}
	s.handleReady(m)
}

// decided notes that the config of this start is decided. What was kept until then is handled in a turn of its own.
func (s *shell) decided() {
	if s.held = nil; len(s.early) > 0 {
		s.root.Send(s.self, done{s, s.receiveEarly})
	}
}

// receiveEarly handles the messages that were kept, as far as they can be handled now.
func (s *shell) receiveEarly() {
	early := s.early
	s.early = nil
	for _, m := range early {
		s.receive(m)
	}
}

// handleReady handles messages that need the node's config.
func (s *shell) handleReady(m any) {
	switch msg := m.(type) {
	case streamUp:
		s.handleStreamUp(msg.stream)
	case streamDown:
		s.stream = nil
		s.setTickInterval()
	case nodeproto.FromController:
		s.handleMessage(msg)
	case hello:
		msg.reply <- s.machineState().Echo
	case reload:
		s.reload()
	case releaseRequest:
		msg.answer(s)
	case *command:
		s.commands = append(s.commands, msg)
		s.watch()
		s.step(msg.event)
	case begun:
		s.begins = append(s.begins, msg.reply)
		s.answerStart()
	case stopping:
		s.stops = append(s.stops, msg.reply)
		s.step(commitconfirm.Stopping{})
		s.answerStopped()
	}
}

func (s *shell) handleStarted(c actor.Context) {
	s.root, s.self, s.log = c.ActorSystem().Root, c.Self(), s.o.Log
	s.o.Host.Start(func() { s.root.Send(s.self, woken{s}) })
	s.load()
	s.a.once.Do(func() {
		s.a.root, s.a.pid = s.root, s.self
		close(s.a.bound)
	})
}

func (s *shell) stop() {
	s.ended = true
	s.timers.stop()
	s.candidates.stop()
	s.o.Host.Stop()
}

// startTask runs f, which may block, in a goroutine; its result runs in the actor's turn.
func (s *shell) startTask(f func() (then func())) {
	go func() {
		then := f()
		s.root.Send(s.self, done{s, then})
	}()
}

// setTimer sends a due after d; it replaces an earlier timer of its kind.
func (s *shell) setTimer(kind timerKind, id int, d time.Duration) {
	s.set(kind, d, func() { s.root.Send(s.self, due{s, kind, id}) })
}

func (s *shell) handleDue(d due) {
	if !s.isRunning(d.kind) {
		return // it was cancelled after it had fired
	}
	s.running[d.kind] = nil
	switch d.kind {
	case tickTimer:
		s.tick()
	case observeTimer:
		s.watch()
	case reportTimer:
		s.report()
	case settleTimer:
		s.step(commitconfirm.TimedOut{ID: d.id})
	case storeTimer:
		s.storeOwed()
	default: // timerKinds is no kind
	}
}

// load reads the disk and the config file.
func (s *shell) load() {
	s.startTask(func() func() {
		disk, notes, faults := readDisk(s.o.Disk)
		content, name, err := s.readFile()
		return func() { s.boot(disk, notes, faults, fileRead{content, name, err}) }
	})
}

func (s *shell) readFile() (content []byte, name string, err error) {
	if s.o.File == nil {
		return nil, "", nil
	}
	return s.o.File()
}

// boot starts the machine. A new config file is validated first: the config that ran before is published only if the
// file's is refused.
func (s *shell) boot(d commitconfirm.Disk, n Notes, faults []error, f fileRead) {
	for _, err := range faults {
		s.log.Error("read the stored state", zap.Error(err))
	}
	s.notes, s.booted, s.lastTick = n, true, time.Now()
	s.held = &commitconfirm.Publish{} // until the file is validated
	s.step(commitconfirm.Boot{Start: uuid.NewString(), Machine: s.o.Machine, Disk: d, Bases: s.o.Facts.Bases})
	if o := s.candidateFromFile(f); o != nil && !s.m.State().Undoing {
		s.insert(0, o)
	} else {
		s.publishLastRun()
		if o != nil {
			s.submit(o)
		}
	}
	s.receiveEarly()
	s.next()
}

// step steps the machine and runs its effects, in order.
func (s *shell) step(event commitconfirm.Event) {
	accepted := false // the current candidate, in this step: what is published is its document
	for _, effect := range s.m.Step(event) {
		switch e := effect.(type) {
		case commitconfirm.Write:
			s.write(e)
		case commitconfirm.Publish:
			s.publish(e, accepted)
		case commitconfirm.StartTimer:
			s.setTimer(settleTimer, e.ID, e.After)
		case commitconfirm.RunActions:
			s.run(e)
		case commitconfirm.Restart:
			s.restart(e)
		case commitconfirm.Undo:
			s.handleUndo(e)
		case commitconfirm.RequestVerdict:
			s.asked, s.owesReport = e.Nonce, true
		case commitconfirm.Announce:
			accepted = accepted || e.What == commitconfirm.Accepted
			s.handleReport(e)
		}
	}
	if s.owesReport {
		s.report()
	}
	if s.sendAnswer != nil {
		s.sendAnswer()
		s.sendAnswer = nil
	}
	s.answerStart()
	s.setTickInterval()
	s.next()
}

// answerStart answers the callers that wait for the first publication.
func (s *shell) answerStart() {
	if s.held != nil || s.live.Document == nil {
		return
	}
	for _, reply := range s.begins {
		reply <- struct{}{}
	}
	s.begins = nil
}

// setTickInterval sets the interval of ticks: a second while a config is pending, otherwise that of the reports,
// otherwise none.
func (s *shell) setTickInterval() {
	every := time.Duration(0)
	switch {
	case !s.booted || s.ended:
		return
	case s.hasPending():
		every = tickEvery
	case s.stream != nil:
		every = s.o.ReportEvery
	}
	if every == s.every {
		return
	}
	if s.every = every; every == 0 {
		s.cancel(tickTimer)
		return
	}
	s.lastTick = time.Now() // earlier time does not count
	s.setTimer(tickTimer, 0, every)
}

// tick advances the machine's clock, and reports if due.
func (s *shell) tick() {
	if s.every == 0 { // a tick that was under way when ticks were stopped
		return
	}
	now := time.Now()
	elapsed := now.Sub(s.lastTick)
	s.lastTick = now
	s.setTimer(tickTimer, 0, s.every)
	if s.hasPending() {
		s.watch() // the current health decides
	}
	s.step(commitconfirm.Tick{Elapsed: elapsed})
	if now.Sub(s.reported)+tickEvery/2 >= s.o.ReportEvery {
		s.report()
	}
}

func (s *shell) hasPending() bool { return s.m.Pending() }

// refuse records why something does not run.
func (s *shell) refuse(what string, err error) {
	s.log.Error(what, zap.Error(err))
	s.setFault(what + ": " + err.Error())
}

func (s *shell) setFault(text string) {
	s.fault = text
	s.o.Host.ReportProblem(text)
}

var errNoDocument = errors.New("no document")

func documentOf(text []byte) (config.Object, error) {
	o, faults := config.ParseObject(text)
	if faults != nil {
		return nil, faults
	}
	if o == nil {
		return nil, errNoDocument
	}
	return o, nil
}
