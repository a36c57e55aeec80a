package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/pubsub/trace"
)

// diskTimeout is how long a write to the disk may take before its caller gets an error. The write continues: it can't
// be cancelled.
const diskTimeout = 10 * time.Second

// UndoBegan is the outcome that a rollback waits for, and an Event's; the machine reports it by a separate effect.
const UndoBegan commitconfirm.Outcome = "undo"

// candidate is a config to be applied; the machine gets them one at a time.
type candidate struct {
	event    commitconfirm.Candidate
	verdict  *commitconfirm.Verdict // nil: not validated yet
	local    bool
	author   string
	reply    chan<- applyResult // nil: no caller waits
	refusal  string             // the prefix of its error
	replaces config.Generation  // the config that it was made from; zero: any
	timeout  *time.Timer
	trace    trace.Context // of what brought it
	span     trace.Span    // while the machine has it
}

// command is an operator's command about the pending config.
type command struct {
	event commitconfirm.Event
	end   commitconfirm.Outcome
	reply chan<- error
}

// candidates are the configs to be applied, in the order in which the machine gets them, and the callers that wait for
// the outcome of the pending one.
type candidates struct {
	queue       []*candidate
	busy        *candidate             // the machine's current one
	busyVerdict *commitconfirm.Verdict // of busy
	sendAnswer  func()                 // sends the answer to one that was accepted and is being published
	commands    []*command
}

// supersede drops waiting pushes: only the newest counts.
func (q *candidates) supersede() {
	q.queue = slices.DeleteFunc(q.queue, func(old *candidate) bool {
		push := old.event.Source == commitconfirm.Push
		if push {
			old.timeout.Stop()
		}
		return push
	})
}

func (q *candidates) stop() {
	for _, o := range q.queue {
		o.timeout.Stop()
	}
	if q.busy != nil {
		q.busy.timeout.Stop()
	}
}

func (q *candidates) answerCommands(end commitconfirm.Outcome, err error) {
	q.commands = slices.DeleteFunc(q.commands, func(c *command) bool {
		if c.end != end {
			return false
		}
		c.reply <- err
		return true
	})
}

type timeoutDue struct{ of *candidate }

type fileRead struct {
	content []byte
	name    string
	err     error
}

// candidateFromFile returns the candidate of the config file; nil if it is unchanged, missing or faulty.
func (s *shell) candidateFromFile(f fileRead) *candidate {
	s.setFault("")
	switch {
	case f.name == "":
		return nil
	case f.err != nil:
		if errors.Is(f.err, fs.ErrNotExist) {
			s.log.Info("no config file", zap.String("file", f.name))
			if s.cameOtherwise() {
				return nil
			}
		}
		s.refuse("read the config file", f.err)
		return nil
	}
	refusal := "apply the config file " + f.name
	sum := sha256.Sum256(f.content)
	o := &candidate{event: commitconfirm.Candidate{Source: commitconfirm.File, FileDigest: hex.EncodeToString(sum[:]),
		By: config.Truncate(f.name, maxBy)},
		author: f.name, refusal: refusal}
	if last := s.m.Live(); o.event.FileDigest == last.FileDigest && !last.Fallback {
		return nil
	}
	document, faults := config.ReadObject(f.content)
	if faults == nil {
		v := s.o.Validator(document, "", commitconfirm.File)
		o.event.Document, o.verdict, faults = document, &v, v.Faults
	}
	if len(faults) > 0 {
		s.refuse(refusal, faults)
		return nil
	}
	return o
}

// cameOtherwise reports whether the config in force is from a person or a controller, so that no file has to be there.
func (s *shell) cameOtherwise() bool {
	live := s.m.Live()
	return live.Seq > 0 && live.Source != commitconfirm.File && live.Source != commitconfirm.Base
}

// reload reads the config file again.
func (s *shell) reload() {
	if s.reading { // the read under way sees the change
		return
	}
	s.reading = true
	late := time.AfterFunc(diskTimeout, func() {
		s.root.Send(s.self, done{s, func() { s.refuse("read the config file", slowDiskError()) }})
	})
	s.startTask(func() func() {
		content, name, err := s.readFile()
		late.Stop()
		return func() {
			s.reading = false
			if o := s.candidateFromFile(fileRead{content, name, err}); o != nil {
				s.submit(o)
			}
		}
	})
}

// submit queues a candidate. Of pushes only the newest counts.
func (s *shell) submit(o *candidate) {
	if o.event.Source == commitconfirm.Push {
		s.supersede()
	}
	s.insert(len(s.queue), o)
	s.next()
}

func (s *shell) insert(at int, o *candidate) {
	o.timeout = time.AfterFunc(diskTimeout, func() { s.root.Send(s.self, timeoutDue{o}) })
	s.queue = slices.Insert(s.queue, at, o)
}

// next gives an idle machine its next candidate. It first observes the current health, so that what is bad already does
// not count against the candidate.
func (s *shell) next() {
	for s.booted && s.busy == nil && len(s.queue) > 0 {
		o := s.queue[0]
		s.queue = slices.Delete(s.queue, 0, 1)
		if err := s.checkMayApply(o); err != nil {
			s.answer(o, ApplyResult{}, err)
			continue
		}
		s.busy, s.busyVerdict, o.event.Validate = o, o.verdict, s.validate
		s.startSpan(o)
		s.watch()
		s.step(o.event)
	}
}

// checkMayApply returns why a candidate is refused: a managed node takes its config from its controller; a locally
// held one does not.
func (s *shell) checkMayApply(o *candidate) error {
	managed := s.notes.Managed != nil && *s.notes.Managed
	switch {
	case o.event.Source == commitconfirm.Push:
		if s.notes.Held != nil {
			s.report() // its Held tells the controller who holds the node
			return fmt.Errorf("%w: the node is held by %s", rest.ErrConflict, s.notes.Held.By)
		}
	case managed && (o.event.Source == commitconfirm.File || !o.local && s.notes.Held == nil):
		return fmt.Errorf("%w: the node is managed by its controller %s: use 'edgespan apply --local', and 'edgespan "+
			"release' to end it",
			rest.ErrConflict, s.o.Facts.Controller)
	case o.replaces != config.Generation{} && o.replaces != s.m.Live().Generation:
		return fmt.Errorf("%w: the node's config has changed since it was read: try again", rest.ErrConflict)
	}
	return nil
}

// validate validates the machine's current candidate.
func (s *shell) validate() config.Faults {
	if e := s.busy.event; s.busyVerdict == nil {
		v := s.validated(s.busy, func() commitconfirm.Verdict { return s.o.Validator(e.Document, e.Peer, e.Source) })
		s.busyVerdict = &v
	}
	return s.busyVerdict.Faults
}

// handleReport handles a report of the machine.
func (s *shell) handleReport(r commitconfirm.Announce) {
	s.logReport(r)
	s.scheduleReport()
	switch r.What {
	case commitconfirm.Accepted:
		s.handleAccepted(r)
	case commitconfirm.Rejected, commitconfirm.Refused, commitconfirm.Superseded, commitconfirm.Renumbered,
		commitconfirm.Unchanged, commitconfirm.WouldTake:
		s.rejectCandidate(r)
	case commitconfirm.NowConfirmed, commitconfirm.WouldConfirm:
		s.answerCommands(r.What, nil)
	case commitconfirm.Declined:
		if len(s.commands) > 0 {
			first := s.commands[0]
			s.commands = s.commands[1:]
			first.reply <- fmt.Errorf("%w: %s", rest.ErrConflict, r.Why)
		}
	case commitconfirm.Trouble:
		s.answerCommands(commitconfirm.NowConfirmed, errors.New(r.Why))
	case commitconfirm.Applied:
		s.reportAppliedPush()
	case commitconfirm.WentBack:
		s.reportUndonePush()
	case commitconfirm.OnFallback, commitconfirm.NotRun, commitconfirm.Unready:
	}
}

// logReport logs a report of the machine.
func (s *shell) logReport(r commitconfirm.Announce) {
	log := s.traceReport(r)
	fields := []zap.Field{zap.String("what", string(r.What)), zap.Stringer("gen", r.Echo.Generation),
		zap.String("md5", r.Echo.MD5)}
	if r.Why != "" {
		fields = append(fields, zap.String("why", r.Why))
	}
	why := r.Why
	if len(r.Faults) > 0 {
		fields, why = append(fields, zap.Error(r.Faults)), r.Faults.Error()
	}
	switch r.What {
	case commitconfirm.Rejected, commitconfirm.Refused, commitconfirm.Trouble, commitconfirm.NotRun,
		commitconfirm.OnFallback, commitconfirm.WentBack, commitconfirm.Unready:
		log.Warn("config", fields...)
	default:
		log.Info("config", fields...)
	}
	s.o.OnEvent(Event{r.What, r.Echo, why})
}

// handleAccepted ends the current candidate: it is stored, and published next. The caller is answered after that, so
// that it then sees the new state.
func (s *shell) handleAccepted(r commitconfirm.Announce) {
	o := s.busy
	if o == nil {
		return
	}
	s.busy = nil
	s.setFault("") // an earlier fault of the file no longer matters
	if o.event.Source == commitconfirm.Push {
		s.attempt, s.rejected = o.event.Attempt, nil
		s.reportAcceptedPush(o, r)
	}
	if o.local && s.notes.Managed != nil && *s.notes.Managed {
		s.note(func(n *Notes) { n.Held = newHold(o.author) })
	}
	t := ApplyResult{Seq: s.m.Live().Seq}
	if s.busyVerdict != nil {
		for _, w := range s.busyVerdict.Warnings {
			t.Warnings = append(t.Warnings, w.Error())
		}
	}
	s.sendAnswer = func() { s.answer(o, t, nil) }
}

// rejectCandidate ends the current candidate with any other outcome.
func (s *shell) rejectCandidate(r commitconfirm.Announce) {
	o := s.busy
	if o == nil {
		return
	}
	s.busy, s.busyVerdict = nil, nil
	var err error
	switch r.What {
	case commitconfirm.Rejected:
		err = r.Faults
	case commitconfirm.Refused:
		err = fmt.Errorf("%s: %w", o.refusal, s.writeErr)
	case commitconfirm.Superseded:
		err = fmt.Errorf("%s: %w: %s", o.refusal, rest.ErrBusy, r.Why)
	default: // Unchanged, Renumbered
	}
	if o.event.Source == commitconfirm.Push {
		s.reportEndedPush(o, r)
	}
	s.answer(o, ApplyResult{Seq: s.m.Live().Seq}, err)
	s.publishLastRun()
}

// answer answers the caller of a candidate.
func (s *shell) answer(o *candidate, t ApplyResult, err error) {
	o.timeout.Stop()
	switch {
	case o.reply != nil:
		o.reply <- applyResult{t, err}
		o.reply = nil
	case err != nil && o.event.Source == commitconfirm.File:
		var faults config.Faults
		if errors.As(err, &faults) || errors.Is(err, rest.ErrConflict) {
			err = fmt.Errorf("%s: %w", o.refusal, err)
		}
		s.log.Error("config file", zap.Error(err))
		s.setFault(err.Error())
	}
	if err != nil {
		s.publishLastRun()
	}
}

// publishLastRun publishes the config that ran last, because the config file of this start did not replace it.
func (s *shell) publishLastRun() {
	p := s.held
	if p == nil {
		return
	}
	s.decided()
	if p.ID > 0 {
		s.publish(*p, false)
	}
}

func slowDiskError() error {
	return fmt.Errorf("the disk has not answered for %v; the config takes effect when it does: %w", diskTimeout,
		context.DeadlineExceeded)
}

// answerTimeout answers a caller after diskTimeout. A queued candidate is dropped; the machine's current one takes
// effect once it can.
func (s *shell) answerTimeout(o *candidate) {
	if o == s.busy {
		err := slowDiskError()
		if s.writing == 0 {
			err = fmt.Errorf("the previous config is still being applied; this one follows: %w", context.DeadlineExceeded)
		}
		if o.event.Source != commitconfirm.Push {
			s.refuse(o.refusal, err)
		}
		if o.reply != nil {
			o.reply <- applyResult{err: fmt.Errorf("%s: %w", o.refusal, err)}
			o.reply = nil
		}
		return
	}
	i := slices.Index(s.queue, o)
	if i < 0 || o.reply == nil {
		return
	}
	const busy = "store the config: %w: the disk has not answered an earlier request for %v: try again"
	o.reply <- applyResult{err: fmt.Errorf(busy, rest.ErrBusy, diskTimeout)}
	o.reply = nil
	s.log.Warn("gave up an apply that was waiting for the disk", zap.Duration("after", diskTimeout))
	s.queue = slices.Delete(s.queue, i, i+1)
}
