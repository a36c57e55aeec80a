package rollouts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/rollout"
	"edgespan/config/fleet/topology"
	"edgespan/config/kv"
)

// take makes the machine of a rollout that was stored.
func (a *rolloutActor) take(s *Record) {
	t, groups := a.network()
	a.machine = rollout.FromMemory(s.Machine, t, groups)
	a.chart()
	if timer, runs := a.machine.Timer(); runs {
		a.arm(timer)
	}
	for _, g := range s.Machine.Nodes {
		a.recheck = append(a.recheck, g.Names...)
	}
	a.stir(true)
}

// network is the topology with the nodes online that have a stream, and the kinds of nodes.
func (a *rolloutActor) network() (*topology.Topology, map[string]string) {
	groups := make(map[string]string, len(a.ids))
	for name, id := range a.ids {
		groups[name] = a.nodes[id].kind
	}
	if a.topology == nil {
		return nil, groups
	}
	t := *a.topology
	t.Nodes = slices.Clone(t.Nodes)
	for i, n := range t.Nodes {
		w := a.nodes[a.ids[n.Name]]
		switch {
		case w == nil || !w.online:
			t.Nodes[i].Status = topology.Offline
		case n.Status == topology.Offline:
			t.Nodes[i].Status = topology.Online
		}
	}
	return &t, groups
}

// chart gives the machine what is known of the network now.
func (a *rolloutActor) chart() {
	t, groups := a.network()
	a.step(rollout.Grouped{Groups: groups})
	a.step(rollout.TopologyChanged{Topology: t})
	for name, id := range a.ids {
		if !a.nodes[id].online {
			a.step(rollout.NodeGone{Node: name})
		}
	}
}

// arm sets the timer of the machine.
func (a *rolloutActor) arm(t rollout.SetTimer) {
	a.timers++
	m, self := due{t.Timer, a.timers}, a.self
	a.d.After(t.After, func() { a.d.Send(self, m) })
}

// step gives the machine an event, and keeps what it decides.
func (a *rolloutActor) step(e rollout.Event) {
	if a.machine == nil || a.leads == nil {
		return
	}
	now := a.d.Now()
	for _, effect := range a.machine.Step(e) {
		a.stir(true)
		switch effect := effect.(type) {
		case rollout.Push:
			a.now.decide(now, "", fmt.Sprintf("batch %d goes out to %s", effect.Batch, named(effect.Nodes)), a.whyNow(e))
			a.recheck = append(a.recheck, effect.Nodes...)
		case rollout.SetTimer:
			a.arm(effect)
		case rollout.Delayed:
			a.now.decide(now, "", named(effect.Nodes)+" waits for a later batch", "it went offline before it took the change")
		case rollout.Halted:
			a.now.decide(now, "", "halted", effect.Why)
		case rollout.Done:
			a.finish(now, effect)
		}
	}
}

// whyNow says why a batch goes out now.
func (a *rolloutActor) whyNow(e rollout.Event) string {
	switch e.(type) {
	case rollout.Start:
		return "it is the first"
	case rollout.Changed:
		return "nodes want something else than before"
	case rollout.Resume:
		return "it was resumed"
	case rollout.Deadline:
		return "the time of the batch before, or of the rest after it, is over"
	}
	return "all of the batch before have answered"
}

// named are nodes for people.
func named(names []string) string {
	if len(names) > mostNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), len(names)-mostNamed)
	}
	return strings.Join(names, ", ")
}

// finish ends the rollout that the machine has ended.
func (a *rolloutActor) finish(now time.Time, d rollout.Done) {
	s := a.now
	s.Ended, s.Left = now.UTC(), map[string]string{}
	if s.End == "" {
		if s.End = EndDone; len(d.Failed) > 0 {
			s.End = EndFailed
		}
	}
	for _, u := range append(d.Failed, d.Unreachable...) {
		s.Left[u.Node] = u.Reason
	}
	why := "every node has it"
	if n := len(s.Left); n > 0 {
		why = fmt.Sprintf("%d nodes do not have it", n)
	}
	s.decide(now, s.By, s.End, why)
}

// observe tells the machine how a node stands.
func (a *rolloutActor) observe(w *wish) {
	if w == nil || a.machine == nil || a.now.End != "" {
		return
	}
	state, _ := a.machine.Node(w.name)
	if state == "" {
		return
	}
	if w.online {
		a.step(rollout.NodeBack{Node: w.name})
	} else {
		a.step(rollout.NodeGone{Node: w.name})
	}
	if w.stands.Digest != w.wants {
		return
	}
	switch w.stands.State {
	case storage.StandsConfirmed:
		if state != rollout.Confirmed {
			a.stir(false)
			a.step(rollout.NodeConfirmed{Node: w.name})
		}
	case storage.StandsTook:
		// else each word of the node is a record written
		if (state == rollout.Pushed || a.machine.Delayed(w.name)) && !a.machine.HasTaken(w.name) {
			a.stir(true)
			a.step(rollout.NodeTook{Node: w.name})
		}
	case storage.StandsFailed:
		if state == rollout.Pushed || a.machine.Delayed(w.name) {
			a.now.decide(a.d.Now(), "", w.name+" failed", w.stands.Why)
			a.stir(true)
			a.step(rollout.NodeFailed{Node: w.name, Why: w.stands.Why})
		}
	case storage.StandsStuck:
		if state == rollout.Pushed {
			a.stir(true)
			a.step(rollout.NodeStuck{Node: w.name, Why: w.stands.Why})
		}
	}
}

// poke looks for nodes that no rollout covers, as soon as there is quiet.
func (a *rolloutActor) poke() {
	a.stirred = true
	if a.gathers.IsZero() {
		a.gathers = time.Now()
		a.lookSoon()
	}
}

func (a *rolloutActor) lookSoon() {
	a.stirred = false
	self := a.self
	a.d.After(gather, func() { a.d.Send(self, lookNow{}) })
}

func (a *rolloutActor) lookedAt() {
	if a.leads == nil || a.gathers.IsZero() {
		return
	}
	if passed := time.Since(a.gathers); a.stirred && passed >= 0 && passed < mostGather {
		a.lookSoon()
		return
	}
	a.gathers = time.Time{}
	if a.staging.On {
		a.look()
	}
}

// look begins a rollout for nodes that want something which no rollout has brought them, or
// takes them into the one that runs. A revision later than that one's supersedes it.
func (a *rolloutActor) look() {
	last := a.now
	if last != nil && last.End == EndAborted && a.cause.Number <= last.Revision {
		a.hold()
		return
	}
	fresh := last == nil || a.cause.Number > last.Revision
	var barrier kv.Revision
	if last != nil {
		barrier = last.Barrier
	}
	want := map[string]bool{}
	for name, id := range a.ids {
		w := a.nodes[id]
		c := rollout.Candidate{Wants: w.since > 0, Held: w.since <= barrier, Changed: a.touched[name], Waits: w.staged(),
			Has: w.has(), Online: w.online}
		if a.machine != nil && !a.machine.Ended() {
			c.State, _ = a.machine.Node(name)
		}
		if c.Taken(fresh) {
			want[name] = true
		}
	}
	if len(want) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(want))
	a.taken, a.touched = a.touched, map[string]bool{}
	a.roll(names, fresh)
}

// roll takes nodes into the rollout that runs, or begins another one.
func (a *rolloutActor) roll(names []string, fresh bool) {
	now := a.d.Now()
	running := a.now != nil && a.now.End == "" && a.machine != nil
	if fresh {
		a.supersede(now)
	} else if !running {
		a.now.End, a.now.Ended, a.now.Left = "", time.Time{}, nil
		a.now.decide(now, "", "goes on with "+named(names), "they want what they do not have")
	}
	a.stir(true)
	switch {
	case fresh && !running:
		t, groups := a.network()
		a.machine = rollout.New(t, names, a.staging.set)
		a.step(rollout.Grouped{Groups: groups})
		a.chart()
		a.step(rollout.Start{})
	default:
		memory := a.now.Machine
		if a.machine != nil {
			memory = a.machine.Memory()
		}
		memory.Settings = a.staging.set
		t, groups := a.network()
		a.machine = rollout.FromMemory(memory, t, groups)
		a.chart()
		// What halted waits for a person, whatever the controller writes by itself.
		kept := fresh && storage.ByItself(a.cause.Author) && a.machine.IsHalted()
		a.step(rollout.Changed{Nodes: names, Fresh: fresh && !kept})
	}
}

// supersede begins the record of another rollout, and ends the one before.
func (a *rolloutActor) supersede(now time.Time) {
	next := &Record{Revision: a.cause.Number, Author: a.cause.Author, Message: a.cause.Message, Began: now.UTC(),
		Revisions: a.causes}
	a.causes = nil
	if len(next.Revisions) == 0 || next.Revisions[len(next.Revisions)-1] != next.Revision {
		next.Revisions = append(next.Revisions, next.Revision)
	}
	if old := a.now; old != nil {
		next.Barrier = old.Barrier
		if old.End == "" {
			next.Revisions = append(slices.Clone(old.Revisions), next.Revisions...)
			if a.machine != nil {
				old.Machine = a.machine.Memory()
				next.Machine = old.Machine
			}
			next.By = old.By
			old.End, old.Ended, old.Machine.Up, old.Machine.Gone, old.Machine.Out = EndSuperseded, now.UTC(), nil, nil, nil
			old.decide(now, "", EndSuperseded,
				fmt.Sprintf("revision %d touches nodes: it carries what is left of this one", next.Revision))
			a.ended = append(a.ended, old)
		}
	}
	next.decide(now, next.Author, fmt.Sprintf("revision %d begins", next.Revision), next.Message)
	a.now = next
}

// hold keeps up with what an aborted rollout holds back: what nodes want by its revision.
func (a *rolloutActor) hold() {
	for name := range a.touched {
		if w := a.nodes[a.ids[name]]; w != nil && w.since > a.now.Barrier {
			a.now.Barrier = w.since
			a.stir(true)
		}
	}
	clear(a.touched)
}

// release ends the rollout as staged rollouts are off: all nodes have got it at once.
func (a *rolloutActor) release() {
	if a.now == nil || a.now.End != "" || a.machine == nil {
		return
	}
	a.now.End = EndReleased
	a.now.decide(a.d.Now(), "", EndReleased, "config_staged_rollout_enabled is off: all nodes get it at once")
	a.step(rollout.Abort{})
}
