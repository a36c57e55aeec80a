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

// plan puts an effect behind those that wait for the store. Of each kind only the last one has to be
// done, and all of them follow the newest memory: however long the store or the node's pace takes,
// no more than a handful waits.
func (n *node) plan(effect any) {
	if save, is := effect.(fleet.Save); is {
		for i, t := range n.todo {
			if _, is := t.effect.(fleet.Save); is {
				n.todo[i].effect = save
				return
			}
		}
	} else {
		n.todo = slices.DeleteFunc(n.todo, func(t todo) bool { return instead(effect, t.effect) })
	}
	acks := 0
	n.todo = append(n.todo, todo{effect, n.on})
	for i := len(n.todo) - 1; i >= 0; i-- {
		if _, is := n.todo[i].effect.(ack); !is {
			continue
		}
		if acks++; acks > maxSaid { // the node says it again
			n.todo = slices.Delete(n.todo, i, i+1)
		}
	}
}

// maxSaid is how many words of a node wait for the store.
const maxSaid = 16

// instead says whether an effect that is new makes one void that waits.
func instead(effect, waits any) bool {
	switch e := effect.(type) {
	case ack:
		return waits == effect
	case fleet.Push:
		w, is := waits.(fleet.Push)
		return is && w.Whole == e.Whole
	}
	return reflect.TypeOf(effect) == reflect.TypeOf(waits)
}

// early keeps what comes before the memory of the store was read. Of what the node says the last
// report and some others count; it says all that matters again.
func (n *node) early(m any) {
	if new, is := m.(Message); is {
		says := 0
		_, report := new.Word.(nodeproto.Report)
		for i := len(n.before) - 1; i >= 0; i-- {
			old, is := n.before[i].(Message)
			if !is {
				continue
			}
			_, reported := old.Word.(nodeproto.Report)
			if says++; report && reported || says >= maxSaid {
				n.before = slices.Delete(n.before, i, i+1)
			}
		}
	}
	n.before = append(n.before, m)
}

// work does the effects in their order. What comes after a Save waits for the store.
func (n *node) work() {
	for len(n.todo) > 0 && n.saving == nil && !n.holding {
		t := n.todo[0]
		if n.todo = n.todo[1:]; len(n.todo) == 0 {
			n.todo = nil
		}
		n.do(t)
	}
}

func (n *node) do(t todo) {
	switch e := t.effect.(type) {
	case fleet.Save:
		n.save(e.Memory)
		return
	case fleet.SetTimer:
		n.setTimer(e.At)
		return
	case fleet.Compute:
		n.versions.Say(n.d.Now(), e.Versions)
		n.compute()
		return
	case fleet.Compare:
		n.compare = &e
		n.asking = 0
		n.compareAgain()
		return
	}
	if n.stream == nil || t.on != n.on {
		return // for a stream that is no more
	}
	switch e := t.effect.(type) {
	case fleet.Push:
		n.push(e)
	case fleet.Probe:
		n.send(nodeproto.Probe{Number: e.Probe})
	case fleet.Confirm:
		n.send(nodeproto.Confirm{Generation: e.Generation})
	case fleet.SetManaged:
		n.send(nodeproto.Managed{On: e.Managed})
	case fleet.Release:
		n.send(nodeproto.Release{})
	case fleet.RequestBaseConfig:
		n.d.Tell(RequestBaseConfig{To: n.self, ID: n.id, Board: e.Board})
	case ack:
		if n.machine.Unread() {
			return // it was not stored: the node says it again
		}
		n.send(nodeproto.Ack{Attempt: e.attempt})
	}
}

// send says something to the node. One whose stream takes no more is gone, and will be told
// all when it is back.
func (n *node) send(m nodeproto.FromController) {
	if n.stream == nil {
		return
	}
	if err := n.stream.Send(m); err != nil {
		n.d.Log.Debug("send a message to a node", zap.String("node", n.id), zap.Error(err))
	}
}

// push sends the config that the machine means, unless there is a newer one already: the
// machine hears of that and pushes anew.
func (n *node) push(p fleet.Push) {
	if !p.Whole {
		n.send(nodeproto.Number{Generation: p.Generation})
		return
	}
	if n.want.Digest != p.Digest || n.want.Generation != p.Generation {
		return
	}
	document, err := n.d.documents.of(n.want.Config, n.want.Set)
	if err != nil {
		n.d.Log.Error("compute the config of a node", zap.String("node", n.id), zap.Error(err))
		return
	}
	with, err := n.encoded()
	if err != nil {
		n.d.Log.Error("compute the peer configuration of a node", zap.String("node", n.id), zap.Error(err))
		return
	}
	n.send(nodeproto.Push{
		PeerConfiguration: with,
		Attempt:           p.Attempt, Generation: p.Generation, MD5: p.Digest.Config, Document: document, Confirm: p.Confirm,
		Managed: n.want.Managed,
	})
}

// versionsRule is how often a node may have what it wants computed for other versions: a node that
// was upgraded at once, one that says so again and again ever later.
var versionsRule = pace.Rule{First: 15 * time.Second, Max: 10 * time.Minute, Quiet: time.Hour}

// computeDue ends the wait for that.
type computeDue struct{}

// compute has the fleet make the config of the versions that the node says.
func (n *node) compute() {
	v, wait := n.versions.Value(n.d.Now(), versionsRule)
	if wait == 0 {
		n.d.Tell(Compute{n.id, v})
		return
	}
	n.dueIn(&n.versionsDue, wait, computeDue{})
}

// dueIn has the node look again after a while, if it does not already; 0: it need not.
func (n *node) dueIn(due *bool, wait time.Duration, m any) {
	if wait == 0 || *due {
		return
	}
	*due = true
	self := n.self
	n.d.After(wait, func() { n.d.Send(self, m) })
}

// compareAgain asks a node for what it runs, if that is to be compared and it was not asked
// on this stream; and again after a while, if it has not said.
func (n *node) compareAgain() {
	if n.compare == nil || n.stream == nil || n.report == nil {
		return
	}
	if n.compare.Running.Config != n.report.MD5 || n.compare.Desired != n.want.Digest {
		return // it is out of date: there will be another
	}
	now := n.d.Now()
	if a, open := n.asks[n.asking]; open && a.kind == nodeproto.RequestConfig &&
		now.Before(a.at.Add(n.d.Settings().Resend)) {
		return
	}
	// A report and an answer may stand on the two sides of a change; an answer that never fits is another matter.
	if n.misfits >= maxMisfits && now.Before(n.misfit.Add(n.d.Settings().Resend)) {
		return // with a later report
	}
	n.asking = n.request(request{kind: nodeproto.RequestConfig, at: now}, nil)
}

// maxMisfits is how many answers in a row may be another config than the node reports, until the next has to wait.
const maxMisfits = 3

// compared is what the node runs: what the wanted config would remove of it.
func (n *node) compared(data []byte) {
	c := n.compare
	if c == nil || c.Desired != n.want.Digest {
		return
	}
	n.d.running.one.Lock() // what a node says may take 60 MB to read: one after the other
	defer n.d.running.one.Unlock()
	running, faults := config.ParseFew(data)
	if got := config.MD5(running); len(faults) > 0 || got != c.Running.Config {
		n.misfit, n.misfits = n.d.Now(), n.misfits+1
		n.log("a node reports a different config than it should run",
			zap.String("why", config.Cut(faults.Error(), nodeproto.MaxText)),
			zap.String("said", got), zap.String("reported", c.Running.Config))
		return
	}
	effective, clashes := n.want.Set.Effective()
	if clashes != nil {
		return
	}
	n.compare, n.misfits = nil, 0
	n.step(fleet.Compared{Desired: c.Desired, Running: c.Running, Removes: fleet.Removes(running, effective)})
}
