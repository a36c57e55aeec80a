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
	gather       = 100 * time.Millisecond // looks and reports that come closer are one
	observeShare = 20                     // a look at very much takes at most one part of the time in so many
)

// shell is one incarnation of the agent's actor. It turns messages into events of the
// machine and effects into messages.
type shell struct {
	a    *Agent
	o    *Options
	root *actor.RootContext
	self *actor.PID
	log  *zap.Logger

	m      commitconfirm.Machine
	booted bool
	early  []any // what came before
	notes  Notes
	live   commitconfirm.Publish // what was published last
	held   *commitconfirm.Publish
	fault  string            // why a wish is not what runs
	begins []chan<- struct{} // who waits for the first publication

	candidates
	diskWork
	standing
	hostView
	link
	timers
	reading bool // the config file is being read again
	ended   bool
}

// standing is where the machine stands, as it was spelled last.
type standing struct {
	dirty bool // something happened since known was asked for
	known commitconfirm.State
}

// timers are those of one incarnation, one of each kind, and what the ticks are counted by.
type timers struct {
	running  [timerKinds]*time.Timer
	lastTick time.Time
	every    time.Duration // between ticks, 0 for none
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

func (t *timers) runs(kind timerKind) bool { return t.running[kind] != nil }

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
	due struct { // a timer's end
		of   *shell
		kind timerKind
		id   int
	}
	woken struct{ of *shell } // the host has something new
	done  struct {            // an errand's end
		of   *shell
		then func()
	}
	stopping struct{ reply chan<- struct{} }
	begun    struct{ reply chan<- struct{} }
)

// Receive is the actor.
func (s *shell) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		s.started(c)
	case *actor.Stopping, *actor.Restarting:
		s.end()
	case due:
		if msg.of == s {
			s.due(msg)
		}
	case woken:
		if msg.of == s {
			s.woke()
		}
	case done:
		if msg.of == s {
			msg.then()
		}
	case *candidate:
		s.submit(msg)
	case timeoutDue:
		s.impatient(msg.of)
	case up, down, nodeproto.FromController, reload, ask, *command, stopping, begun:
		if !s.booted {
			s.early = append(s.early, msg)
			return
		}
		s.handleReady(msg)
	}
}

// handleReady takes what needs the node's config to be known.
func (s *shell) handleReady(m any) {
	switch msg := m.(type) {
	case up:
		s.up(msg.stream)
	case down:
		s.stream = nil
		s.pace()
	case nodeproto.FromController:
		s.received(msg)
	case reload:
		s.reload()
	case ask:
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
		s.stopped()
	}
}

func (s *shell) started(c actor.Context) {
	s.root, s.self, s.log = c.ActorSystem().Root, c.Self(), s.o.Log
	s.o.Host.Start(func() { s.root.Send(s.self, woken{s}) })
	s.load()
	s.a.once.Do(func() {
		s.a.root, s.a.pid = s.root, s.self
		close(s.a.bound)
	})
}

func (s *shell) end() {
	s.ended = true
	s.timers.stop()
	s.candidates.stop()
	s.o.Host.Stop()
}

// startTask runs f, which may block, beside the actor; then runs in the actor's turn.
func (s *shell) startTask(f func() (then func())) {
	go func() {
		then := f()
		s.root.Send(s.self, done{s, then})
	}()
}

// timer asks for a due after d; it takes the place of an earlier one of its kind.
func (s *shell) timer(kind timerKind, id int, d time.Duration) {
	s.set(kind, d, func() { s.root.Send(s.self, due{s, kind, id}) })
}

func (s *shell) due(d due) {
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
	default: // timerKinds is none
	}
}

// load reads what is on the disk and the config file.
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

// boot starts the machine. A config file that is new is judged first: what ran before is
// published only if the file can't be.
func (s *shell) boot(d commitconfirm.Disk, n Notes, faults []error, f fileRead) {
	for _, err := range faults {
		s.log.Error("read the stored state", zap.Error(err))
	}
	s.notes, s.booted, s.lastTick = n, true, time.Now()
	s.held = &commitconfirm.Publish{} // until the file is judged
	s.step(commitconfirm.Boot{Start: uuid.NewString(), Machine: s.o.Machine, Disk: d, Bases: s.o.Facts.Bases})
	if o := s.fromFile(f); o != nil && !s.m.State().Undoing {
		s.insert(0, o)
	} else {
		s.unhold()
		if o != nil {
			s.submit(o)
		}
	}
	early := s.early
	s.early = nil
	for _, m := range early {
		s.handleReady(m)
	}
	s.next()
}

// step gives the machine an event and carries out its effects, in order.
func (s *shell) step(event commitconfirm.Event) {
	accepted := false // the offer that the machine has, in this step: what is published is its document
	for _, effect := range s.m.Step(event) {
		switch e := effect.(type) {
		case commitconfirm.Write:
			s.write(e)
		case commitconfirm.Publish:
			s.publish(e, accepted)
		case commitconfirm.StartTimer:
			s.timer(settleTimer, e.ID, e.After)
		case commitconfirm.RunActions:
			s.run(e)
		case commitconfirm.Restart:
			s.restart(e)
		case commitconfirm.Undo:
			s.undo(e)
		case commitconfirm.RequestVerdict:
			s.asked = e.Nonce
			s.report()
		case commitconfirm.Report:
			accepted = accepted || e.What == commitconfirm.Accepted
			s.handleReport(e)
		}
	}
	if s.owed != nil {
		s.owed()
		s.owed = nil
	}
	s.answerStart()
	s.pace()
	s.next()
}

// answerStart answers who waits for the first publication.
func (s *shell) answerStart() {
	if s.held != nil || s.live.Document == nil {
		return
	}
	for _, reply := range s.begins {
		reply <- struct{}{}
	}
	s.begins = nil
}

// pace keeps the ticks as fast as there is something to count: each second while a config
// is pending, else for the reports, else not at all.
func (s *shell) pace() {
	every := time.Duration(0)
	switch {
	case !s.booted || s.ended:
		return
	case s.pending():
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
	s.lastTick = time.Now() // what passed before is nobody's
	s.timer(tickTimer, 0, every)
}

// tick counts the time, and reports when it is due.
func (s *shell) tick() {
	if s.every == 0 { // it was under way when nothing was left to count
		return
	}
	now := time.Now()
	elapsed := now.Sub(s.lastTick)
	s.lastTick = now
	s.timer(tickTimer, 0, s.every)
	if s.pending() {
		s.watch() // what decides is how it is now
	}
	s.step(commitconfirm.Tick{Elapsed: elapsed})
	if now.Sub(s.reported)+tickEvery/2 >= s.o.ReportEvery {
		s.report()
	}
}

func (s *shell) pending() bool { return s.m.Pending() }

// refuse tells why something is not what runs.
func (s *shell) refuse(what string, err error) {
	s.log.Error(what, zap.Error(err))
	s.setFault(what + ": " + err.Error())
}

func (s *shell) setFault(text string) {
	s.fault = text
	s.o.Host.Trouble(text)
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
