package agent

import (
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/events"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/nodeside"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/pubsub/trace"
)

// link is the stream to the controller, and what must be sent on it.
type link struct {
	stream     nodeproto.ToController
	reported   time.Time
	owesReport bool // at the end of the step: one for all its causes
	rejected   *nodeproto.Result
	acked      uint64 // the attempt whose undo the controller has acknowledged
	attempt    uint64 // of the last push that this incarnation accepted
}

// handleStreamUp starts a stream: the node reports its state, and repeats unacknowledged results of pushes.
func (s *shell) handleStreamUp(stream nodeproto.ToController) {
	s.stream = stream
	s.watch()
	s.report()
	if s.rejected != nil {
		s.send(*s.rejected)
	}
	s.reportUndonePush()
	s.setTickInterval()
}

// handleMessage handles a message of the controller.
func (s *shell) handleMessage(m nodeproto.FromController) {
	switch msg := m.(type) {
	case nodeproto.Push:
		s.push(msg)
	case nodeproto.Number:
		live := s.m.Live()
		s.submit(&candidate{event: commitconfirm.Candidate{
			Source: commitconfirm.Push, Generation: msg.Generation, Document: live.Document, Peer: live.Peer,
		}, refusal: "store the generation's number"})
	case nodeproto.Probe:
		s.watch()
		st := s.machineState()
		s.send(nodeproto.Probed{Number: msg.Number, Generation: st.Echo.Generation, MD5: st.Echo.MD5,
			Peer:  s.peerDigest(st.Echo),
			Worse: st.Bad})
	case nodeproto.Confirm:
		s.watch()
		s.step(commitconfirm.ControllerAnswered{Nonce: s.asked, Generation: msg.Generation})
	case nodeproto.Ack:
		s.handleAck(msg.Attempt)
	case nodeproto.Request:
		data, err := s.answerTo(msg)
		a := nodeproto.Answer{ID: msg.ID, Data: data}
		if err != nil {
			a.Error = err.Error()
		}
		s.send(a)
	case nodeproto.Release:
		s.release()
	case nodeproto.Managed:
		s.setManaged(msg.On)
	case nodeproto.Renew: // handled by the link itself
	}
}

func (s *shell) setManaged(on bool) {
	if s.notes.Managed == nil || *s.notes.Managed != on {
		s.note(func(n *Notes) { n.Managed = &on })
		s.log.Info("management of the node changed", zap.Bool("managed", on), zap.String("controller", s.o.Facts.Controller))
	}
}

func (s *shell) release() (held bool) {
	if held = s.notes.Held != nil; held {
		s.log.Info("local hold ended", zap.String("by", s.notes.Held.By))
		s.note(func(n *Notes) { n.Held = nil })
	}
	return held
}

// push queues the controller's desired config as a candidate.
func (s *shell) push(p nodeproto.Push) {
	s.setManaged(p.Managed)
	document, text, err := pushed(p)
	if err != nil {
		faults := config.Faults{}
		if !errors.As(err, &faults) {
			faults.Add(nil, err.Error(), "must be the document with MD5 "+p.MD5)
		}
		s.reject(nodeproto.Result{Attempt: p.Attempt, Generation: p.Generation, MD5: p.MD5, Outcome: nodeproto.Rejected,
			Faults: faults})
		return
	}
	s.submit(&candidate{event: commitconfirm.Candidate{
		Source: commitconfirm.Push, Generation: p.Generation, Document: document, MD5: p.MD5, Text: text,
		Peer: string(p.PeerConfiguration), Confirm: p.Confirm, Attempt: p.Attempt,
		By: config.Truncate(cmp.Or(p.Cause, s.o.Facts.Controller), maxBy),
	}, refusal: "store the pushed config", trace: trace.Parse(p.Trace)})
}

// pushed returns the document of a push and its canonical form, and checks its MD5. A controller sends the canonical
// form, of which the MD5 is: then nothing has to be spelled to check it. text is nil if it sent another form.
func pushed(p nodeproto.Push) (document config.Object, text []byte, err error) {
	if document, err = documentOf(p.Document); err != nil {
		return nil, nil, err
	}
	if sum := md5.Sum(p.Document); hex.EncodeToString(sum[:]) == p.MD5 {
		return document, p.Document, nil
	}
	if sum := config.MD5(document); sum != p.MD5 {
		return nil, nil, fmt.Errorf("its MD5 is %s", sum)
	}
	return document, nil, nil
}

func (s *shell) reject(r nodeproto.Result) {
	if r.Attempt == 0 {
		return
	}
	s.rejected = &r
	s.send(r)
}

// reportAcceptedPush reports that a push is stored; its result follows.
func (s *shell) reportAcceptedPush(o *candidate, r commitconfirm.Announce) {
	if o.event.Attempt > 0 {
		s.send(nodeproto.Result{Attempt: o.event.Attempt, Generation: r.Echo.Generation, MD5: r.Echo.MD5,
			Outcome: nodeproto.Accepted})
	}
}

// reportEndedPush reports the result of a push that was not accepted.
func (s *shell) reportEndedPush(o *candidate, r commitconfirm.Announce) {
	result := nodeproto.Result{Attempt: o.event.Attempt, Generation: r.Echo.Generation, MD5: r.Echo.MD5}
	switch {
	case o.event.Attempt == 0: // only a number
	case r.What == commitconfirm.Rejected:
		result.Outcome, result.Faults = nodeproto.Rejected, r.Faults
		s.reject(result)
	case r.What == commitconfirm.Renumbered:
		s.attempt = o.event.Attempt
		result.Outcome = nodeproto.Accepted
		s.send(result)
		if st := s.machineState(); st.Echo.Generation == r.Echo.Generation {
			result.Outcome, result.Actions = nodeproto.Applied, nodeside.Actions(st.Results)
			s.send(result)
		}
	case r.What == commitconfirm.Refused: // the controller pushes again
		result.Outcome = nodeproto.NotStored
		result.Faults.Add(nil, s.writeErr.Error(), "")
		s.send(result)
	}
	s.report()
}

// reportAppliedPush reports that a push is applied and its actions have run.
func (s *shell) reportAppliedPush() {
	st := s.machineState()
	if st.Source != commitconfirm.Push || st.Attempt == 0 || !st.Pending && st.Attempt != s.attempt {
		return
	}
	s.send(nodeproto.Result{
		Attempt: st.Attempt, Generation: st.Echo.Generation, MD5: st.Echo.MD5, Outcome: nodeproto.Applied,
		Actions: nodeside.Actions(st.Results),
	})
	s.owesReport = true
}

// reportUndonePush reports that a push was undone, until the controller acknowledges it.
func (s *shell) reportUndonePush() {
	st := s.machineState()
	u := st.Undone
	if u == nil || st.Pending || u.Attempt == 0 || u.Attempt == s.acked {
		return
	}
	r := nodeproto.Result{
		Attempt: u.Attempt, Generation: u.Generation, MD5: u.MD5, Outcome: nodeproto.Unconfirmed, Restored: st.Restores,
		Actions: nodeside.Actions(st.Results),
	}
	if u.Reason == commitconfirm.Unhealthy {
		r.Outcome = nodeproto.Unhealthy
	}
	r.Faults.Add(nil, u.Why, "")
	s.send(r)
}

func (s *shell) handleAck(attempt uint64) {
	if s.rejected != nil && s.rejected.Attempt == attempt {
		s.rejected = nil
	}
	s.acked = max(s.acked, attempt)
}

// handleUndo handles the start of an undo.
func (s *shell) handleUndo(u commitconfirm.Undo) {
	s.publishLastRun()
	s.traceUndo(u).Warn("config rolled back", zap.Stringer("gen", u.Generation), zap.String("reason", string(u.Reason)),
		zap.String("why", u.Why))
	s.o.OnEvent(Event{UndoBegan, u.Echo, string(u.Reason) + ": " + u.Why})
	s.answerCommands(UndoBegan, nil)
	s.scheduleReport()
}

// answerTo answers a request of the controller.
func (s *shell) answerTo(q nodeproto.Request) ([]byte, error) {
	switch q.Kind {
	case nodeproto.RequestConfig:
		return config.AppendCanonical(nil, s.m.Live().Document), nil
	case nodeproto.RequestPreview:
		desired, err := documentOf(q.Data)
		if err != nil {
			return nil, err
		}
		return json.Marshal(nodeside.Preview(s.o.Facts.Metadata, s.o.Facts.Actions, s.m.Live().Document, desired))
	case nodeproto.RequestEvents:
		var r events.Request
		if err := json.Unmarshal(q.Data, &r); err != nil || s.o.Events == nil {
			return nil, errors.New("events: invalid request, or a node without events")
		}
		return json.Marshal(s.o.Events(r))
	case nodeproto.RequestBaseConfig:
		return json.Marshal(nodeside.BaseConfig(s.o.Facts.Metadata, s.o.Facts.Bases, s.o.Facts.Hardware))
	}
	return nil, fmt.Errorf("unknown question %.40q: must be %s", q.Kind, config.OrList([]string{
		nodeproto.RequestBaseConfig, nodeproto.RequestPreview, nodeproto.RequestConfig, nodeproto.RequestEvents,
	}))
}
