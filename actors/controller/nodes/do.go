package nodes

import (
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/pace"
)

// queueEffect queues an effect behind those that wait for the store. Only the last effect of each kind is kept, and
// effects use the newest memory: so no more than a handful waits, however long the store or the node's rate limit
// takes.
func (n *node) queueEffect(effect any) {
	if save, ok := effect.(fleet.Save); ok {
		for i, t := range n.effects {
			if _, ok := t.effect.(fleet.Save); ok {
				n.effects[i].effect = save
				return
			}
		}
	} else {
		n.effects = slices.DeleteFunc(n.effects, func(t queuedEffect) bool { return replaces(effect, t.effect) })
	}
	acks := 0
	n.effects = append(n.effects, queuedEffect{effect, n.on})
	for i := len(n.effects) - 1; i >= 0; i-- {
		if _, ok := n.effects[i].effect.(ack); !ok {
			continue
		}
		if acks++; acks > maxQueued { // the node repeats it
			n.effects = slices.Delete(n.effects, i, i+1)
		}
	}
}

// maxQueued bounds the messages of a node that wait for the store.
const maxQueued = 16

// replaces reports whether a new effect replaces a waiting one.
func replaces(effect, waits any) bool {
	switch e := effect.(type) {
	case ack:
		return waits == effect
	case fleet.Push:
		w, ok := waits.(fleet.Push)
		return ok && w.Whole == e.Whole
	}
	return reflect.TypeOf(effect) == reflect.TypeOf(waits)
}

// queueEarly keeps messages that arrive before the memory is read. Of the node's own it keeps the last report and a few
// others; the node repeats what matters.
func (n *node) queueEarly(m any) {
	if new, ok := m.(Message); ok {
		says := 0
		_, report := new.Message.(nodeproto.Report)
		for i := len(n.before) - 1; i >= 0; i-- {
			old, ok := n.before[i].(Message)
			if !ok {
				continue
			}
			_, reported := old.Message.(nodeproto.Report)
			if says++; report && reported || says >= maxQueued {
				n.before = slices.Delete(n.before, i, i+1)
			}
		}
	}
	n.before = append(n.before, m)
}

// runEffects runs the effects in order. Effects after a Save wait for the store.
func (n *node) runEffects() {
	for len(n.effects) > 0 && n.saving == nil && !n.blocked {
		t := n.effects[0]
		if n.effects = n.effects[1:]; len(n.effects) == 0 {
			n.effects = nil
		}
		n.runEffect(t)
	}
}

func (n *node) runEffect(t queuedEffect) {
	switch e := t.effect.(type) {
	case fleet.Save:
		n.saveMemory(e.Memory)
		return
	case fleet.SetTimer:
		n.setTimer(e.At)
		return
	case fleet.Compute:
		n.versions.Set(n.d.Now(), e.Versions)
		n.compute()
		return
	case fleet.Compare:
		n.compare = &e
		n.asking = 0
		n.compareAgain()
		return
	}
	if n.stream == nil || t.on != n.on {
		return // for a stream that has ended
	}
	switch e := t.effect.(type) {
	case fleet.Push:
		n.push(e)
	case fleet.Probe:
		n.send(nodeproto.Probe{Number: e.Probe})
	case fleet.Confirm:
		n.d.Work.Confirmed()
		n.send(nodeproto.Confirm{Generation: e.Generation})
		n.traceConfirmed()
	case fleet.SetManaged:
		n.send(nodeproto.Managed{On: e.Managed})
	case fleet.Release:
		n.send(nodeproto.Release{})
	case fleet.RequestBaseConfig:
		n.d.Notify(RequestBaseConfig{To: n.self, ID: n.id, Board: e.Board})
	case ack:
		if n.machine.Unread() {
			return // not stored: the node repeats it
		}
		n.send(nodeproto.Ack{Attempt: e.attempt})
	}
}

// send sends a message to the node. If the stream rejects it, the node is gone and gets everything when it reconnects.
func (n *node) send(m nodeproto.FromController) {
	if n.stream == nil {
		return
	}
	if err := n.stream.Send(m); err != nil {
		n.d.Log.Debug("send a message to a node", zap.String("node", n.id), zap.Error(err))
	}
}

// push sends the config of a Push. It does nothing if the desired config is newer: the machine gets that one and pushes
// again.
func (n *node) push(p fleet.Push) {
	if !p.Whole {
		n.d.Work.Pushed(false)
		n.send(nodeproto.Number{Generation: p.Generation})
		return
	}
	if n.desired.Digest != p.Digest || n.desired.Generation != p.Generation {
		return
	}
	document, err := n.d.documents.get(n.desired.Config, n.desired.Set)
	if err != nil {
		n.d.Log.Error("compute the config of a node", zap.String("node", n.id), zap.Error(err))
		return
	}
	with, err := n.encodeConfiguration()
	if err != nil {
		n.d.Log.Error("compute the peer configuration of a node", zap.String("node", n.id), zap.Error(err))
		return
	}
	n.d.Work.Pushed(true)
	n.send(nodeproto.Push{
		PeerConfiguration: with,
		Attempt:           p.Attempt, Generation: p.Generation, MD5: p.Digest.Config, Document: document, Confirm: p.Confirm,
		Managed: n.desired.Managed, Trace: n.tracePush(p.Attempt),
		Cause: config.Truncate(n.by, nodeproto.MaxName-1),
	})
}

// versionsRule limits how often a node's config is computed for other versions: at once for a node that was upgraded,
// ever later for one whose versions keep changing.
var versionsRule = pace.DebounceRule{First: 15 * time.Second, Max: 10 * time.Minute, Quiet: time.Hour}

// computeDue ends that delay.
type computeDue struct{}

// compute asks the fleet for the config of the reported versions.
func (n *node) compute() {
	v, wait := n.versions.Value(n.d.Now(), versionsRule)
	if wait == 0 {
		n.d.Notify(Compute{n.id, v})
		return
	}
	n.scheduleOnce(&n.versionsDue, wait, computeDue{})
}

// scheduleOnce sends m after wait, unless that is already scheduled; 0: nothing is to be scheduled.
func (n *node) scheduleOnce(due *bool, wait time.Duration, m any) {
	if wait == 0 || *due {
		return
	}
	*due = true
	self := n.self
	n.d.After(wait, func() { n.d.Send(self, m) })
}

// compareAgain asks the node for its running config if a comparison waits for it, and again if the node has not
// answered within Resend.
func (n *node) compareAgain() {
	if n.compare == nil || n.stream == nil || n.report == nil {
		return
	}
	if n.compare.Running.Config != n.report.MD5 || n.compare.Desired != n.desired.Digest {
		return // out of date: another comparison follows
	}
	now := n.d.Now()
	if a, open := n.asks[n.asking]; open && a.kind == nodeproto.RequestConfig &&
		now.Before(a.at.Add(n.d.Settings().Resend)) {
		return
	}
	// A report and its answer may come from before and after a change, but an answer that never matches is a fault.
	if n.misfits >= maxMisfits && now.Before(n.misfit.Add(n.d.Settings().Resend)) {
		return // until a later report
	}
	n.asking = n.request(request{kind: nodeproto.RequestConfig, at: now}, nil)
}

// maxMisfits is how many successive answers may differ from the reported config before the next request is delayed.
const maxMisfits = 3

// handleCompared steps the machine with what the desired config would remove from the node's running config.
func (n *node) handleCompared(data []byte) {
	c := n.compare
	if c == nil || c.Desired != n.desired.Digest {
		return
	}
	n.d.running.one.Lock() // one at a time: reading an answer may take 60 MB
	defer n.d.running.one.Unlock()
	running, faults := config.ParseBounded(data)
	if got := config.MD5(running); len(faults) > 0 || got != c.Running.Config {
		n.misfit, n.misfits = n.d.Now(), n.misfits+1
		n.log("a node reports a different config than it should run",
			zap.String("why", config.Truncate(faults.Error(), nodeproto.MaxText)),
			zap.String("said", got), zap.String("reported", c.Running.Config))
		return
	}
	effective, clashes := n.desired.Set.Effective()
	if clashes != nil {
		return
	}
	n.compare, n.misfits = nil, 0
	n.step(fleet.Compared{Desired: c.Desired, Running: c.Running, Removes: fleet.RemovedObjects(running, effective)})
}
