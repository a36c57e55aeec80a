package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/action"
	"edgespan/config/confirm"
	"edgespan/config/layers"
	"edgespan/config/link"
)

// up begins a stream: the node says how it is, and again what ended a push and was not
// acknowledged.
func (s *shell) up(stream link.ToController) {
	s.stream = stream
	s.watch()
	s.report()
	if s.rejected != nil {
		s.send(*s.rejected)
	}
	s.undonePush()
	s.pace()
}

// received takes what the controller says.
func (s *shell) received(m link.FromController) {
	switch msg := m.(type) {
	case link.Push:
		s.push(msg)
	case link.Number:
		live := s.m.Live()
		s.submit(&offer{event: confirm.Offered{
			Source: confirm.Push, Generation: msg.Generation, Document: live.Document, Peer: live.Peer,
		}, refusal: "take the number"})
	case link.Probe:
		s.watch()
		st := s.state()
		s.send(link.Probed{Number: msg.Number, Generation: st.Echo.Generation, MD5: st.Echo.MD5, Peer: s.peer(st.Echo), Worse: st.Bad})
	case link.Confirm:
		s.watch()
		s.step(confirm.ControllerAnswered{Nonce: s.asked, Generation: msg.Generation})
	case link.Ack:
		s.acknowledged(msg.Attempt)
	case link.Ask:
		data, err := s.answerTo(msg)
		a := link.Answer{ID: msg.ID, Data: data}
		if err != nil {
			a.Error = err.Error()
		}
		s.send(a)
	case link.Release:
		s.release()
	case link.Managed:
		s.manage(msg.On)
	case link.Renew: // of the link itself
	}
}

func (s *shell) manage(on bool) {
	if s.notes.Managed == nil || *s.notes.Managed != on {
		s.note(func(n *Notes) { n.Managed = &on })
		s.log.Info("who rules", zap.Bool("managed", on), zap.String("controller", s.o.Facts.Controller))
	}
}

func (s *shell) release() (held bool) {
	if held = s.notes.Held != nil; held {
		s.log.Info("the local hold is over", zap.String("by", s.notes.Held.By))
		s.note(func(n *Notes) { n.Held = nil })
	}
	return held
}

// push offers what the controller wants the node to be.
func (s *shell) push(p link.Push) {
	s.manage(p.Managed)
	document, err := documentOf(p.Document)
	md5 := ""
	if err == nil {
		if md5 = config.MD5(document); md5 != p.MD5 {
			err = fmt.Errorf("its MD5 is %s", md5)
		}
	}
	if err != nil {
		faults := config.Faults{}
		if !errors.As(err, &faults) {
			faults.Add(nil, err.Error(), "the document of MD5 "+p.MD5+" is allowed")
		}
		s.reject(link.Result{Attempt: p.Attempt, Generation: p.Generation, MD5: p.MD5, Outcome: link.Rejected, Faults: faults})
		return
	}
	s.submit(&offer{event: confirm.Offered{
		Source: confirm.Push, Generation: p.Generation, Document: document, MD5: md5, Peer: string(p.PeerConfiguration), Confirm: p.Confirm,
		Attempt: p.Attempt,
	}, refusal: "store the config that was pushed"})
}

func (s *shell) reject(r link.Result) {
	if r.Attempt == 0 {
		return
	}
	s.rejected = &r
	s.send(r)
}

// acceptedPush says that a push is stored; how it ends follows.
func (s *shell) acceptedPush(o *offer, r confirm.Report) {
	if o.event.Attempt > 0 {
		s.send(link.Result{Attempt: o.event.Attempt, Generation: r.Echo.Generation, MD5: r.Echo.MD5, Outcome: link.Accepted})
	}
}

// endedPush says what became of a push that was not taken.
func (s *shell) endedPush(o *offer, r confirm.Report) {
	result := link.Result{Attempt: o.event.Attempt, Generation: r.Echo.Generation, MD5: r.Echo.MD5}
	switch {
	case o.event.Attempt == 0: // a number
	case r.What == confirm.Rejected:
		result.Outcome, result.Faults = link.Rejected, r.Faults
		s.reject(result)
	case r.What == confirm.Renumbered:
		s.attempt = o.event.Attempt
		result.Outcome = link.Accepted
		s.send(result)
		if st := s.state(); st.Echo.Generation == r.Echo.Generation {
			result.Outcome, result.Actions = link.Applied, actions(st.Results)
			s.send(result)
		}
	case r.What == confirm.Refused: // the controller pushes again
		result.Outcome = link.NotStored
		result.Faults.Add(nil, s.writeErr.Error(), "")
		s.send(result)
	}
	s.report()
}

// appliedPush says that a push was applied to the end of its actions.
func (s *shell) appliedPush() {
	st := s.state()
	if st.Source != confirm.Push || st.Attempt == 0 || !st.Pending && st.Attempt != s.attempt {
		return
	}
	s.send(link.Result{
		Attempt: st.Attempt, Generation: st.Echo.Generation, MD5: st.Echo.MD5, Outcome: link.Applied, Actions: actions(st.Results),
	})
	s.report()
}

// undonePush says that a push was undone, until that is acknowledged.
func (s *shell) undonePush() {
	st := s.state()
	u := st.Undone
	if u == nil || st.Pending || u.Attempt == 0 || u.Attempt == s.acked {
		return
	}
	r := link.Result{
		Attempt: u.Attempt, Generation: u.Generation, MD5: u.MD5, Outcome: link.Unconfirmed, Restored: st.Restores, Actions: actions(st.Results),
	}
	if u.Reason == confirm.Unhealthy {
		r.Outcome = link.Unhealthy
	}
	r.Faults.Add(nil, u.Why, "")
	s.send(r)
}

func (s *shell) acknowledged(attempt uint64) {
	if s.rejected != nil && s.rejected.Attempt == attempt {
		s.rejected = nil
	}
	s.acked = max(s.acked, attempt)
}

// undo is the beginning of one.
func (s *shell) undo(u confirm.Undo) {
	s.unhold()
	s.log.Warn("config is undone", zap.Stringer("gen", u.Generation), zap.String("reason", string(u.Reason)), zap.String("why", u.Why))
	s.o.Happened(Happening{undoBegan, u.Echo, string(u.Reason) + ": " + u.Why})
	s.answerCommands(undoBegan, nil)
	s.changed()
}

// answerTo answers what the controller asks.
func (s *shell) answerTo(q link.Ask) ([]byte, error) {
	switch q.Kind {
	case link.AskConfig:
		return config.AppendCanonical(nil, s.m.Live().Document), nil
	case link.AskPreview:
		wanted, err := documentOf(q.Data)
		if err != nil {
			return nil, err
		}
		return json.Marshal(preview(s.o.Facts, s.m.Live().Document, wanted))
	case link.AskBaseConfig:
		return json.Marshal(baseConfig(s.o.Facts))
	}
	return nil, fmt.Errorf("question %.40q: %s are known", q.Kind, config.OrList([]string{
		link.AskBaseConfig, link.AskPreview, link.AskConfig,
	}))
}

// preview are the actions that a document would entail on this node.
func preview(f Facts, now, wanted config.Object) link.Preview {
	p := link.Preview{Actions: []link.PreviewAction{}}
	for _, step := range action.Plan(f.Metadata, config.FullDiff(now, wanted), f.Actions) {
		for _, a := range step.Actions {
			keys := make([]string, len(a.Keys))
			for i, k := range a.Keys {
				keys[i] = config.FormatPath(k)
			}
			p.Actions = append(p.Actions, link.PreviewAction{Name: a.Name, Keys: keys, Supported: step.Do.Kind != action.Unsupported})
		}
	}
	return p
}

// baseConfig is what a controller has to learn of a node whose hardware it does not know.
func baseConfig(f Facts) link.BaseConfig {
	b := link.BaseConfig{Metadata: f.Metadata.Document(), Base: latest(f.Bases)}
	if len(f.Hardware) > 0 {
		b.Hardware = latest(f.Hardware)
	}
	return b
}

// latest is the last of them in natural order.
func latest(of map[string]config.Object) map[string]config.Object {
	if len(of) == 0 {
		return nil
	}
	name := slices.MaxFunc(slices.Collect(maps.Keys(of)), layers.CompareNatural)
	return map[string]config.Object{name: of[name]}
}
