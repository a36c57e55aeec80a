package node

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf"
	"edgespan/netinst/netstate"
)

// Diff reports how the host differs from the running config. It observes and changes nothing. It ignores objects for
// which no config is published.
func (n *Node) Diff(ctx context.Context, of string) ([]nodeapi.Difference, error) {
	if s, ok := n.d.topics.Source.Get("", "node"); !ok || !s.Valid {
		return nil, fmt.Errorf("compare the host: %w: no valid config published yet", rest.ErrBusy)
	}
	return observe(ctx, n, "diff", func(ctx context.Context) ([]nodeapi.Difference, error) { return n.diff(ctx, of) })
}

func (n *Node) diff(ctx context.Context, of string) ([]nodeapi.Difference, error) {
	found, err := n.d.host.Owners(ctx)
	if err != nil {
		return nil, fmt.Errorf("find edgespan's networks on the host: %w", err)
	}
	wants, owners := n.d.desiredStates(ctx, n.running(), found)
	var out []nodeapi.Difference
	known := of == ""
	for _, o := range owners {
		object := ownerObject(o)
		if of != "" && !strings.EqualFold(object, of) {
			continue
		}
		known = true
		have, err := n.d.host.Observe(ctx, o, true)
		if err != nil {
			return nil, fmt.Errorf("observe %s: %w", o.Name, err)
		}
		out = append(out, n.differences(o, netstate.Diff(netstate.Claim(have, wants[o]), wants[o]))...)
	}
	if !known {
		return nil, fmt.Errorf("compare %s: %w: neither in the config nor on the host", of, rest.ErrNotFound)
	}
	return out, nil
}

func ownerObject(o netstate.Owner) string {
	if o.Number <= 0 {
		return o.Name
	}
	return "ni/" + o.Name
}

// running returns the config as it was published.
func (n *Node) running() nodeconf.Config {
	t := n.d.topics
	return nodeconf.Config{
		Networks: byUUID(t.NetworkConfig.List("")), Apps: byUUID(t.AppConfig.List("")), Ports: t.PortConfig.List(""),
	}
}

func byUUID[V any](m map[string]V) map[uuid.UUID]V {
	out := make(map[uuid.UUID]V, len(m))
	for k, v := range m {
		if id, err := uuid.Parse(k); err == nil {
			out[id] = v
		}
	}
	return out
}

func (n *Node) differences(o netstate.Owner, plan netstate.Plan) []nodeapi.Difference {
	trouble, _ := n.d.topics.Trouble.Get("", o.Name)
	var out []nodeapi.Difference
	for _, op := range plan {
		why := ""
		for _, f := range trouble.Failing {
			if f.Op == op.String() {
				why = f.Error
			}
		}
		for _, it := range op.Items {
			d := nodeapi.Difference{
				Owner: ownerObject(o), Kind: string(op.Kind), ID: it.ID().Name, Change: nodeapi.Changed, Why: why,
				Want: objectText(it.Want), Have: objectText(it.Have),
			}
			switch {
			case it.Have == nil:
				d.Change = nodeapi.Missing
			case it.Want == nil:
				d.Change = nodeapi.Unexpected
			}
			out = append(out, d)
		}
	}
	return out
}

func objectText(o netstate.Object) string {
	if o == nil {
		return ""
	}
	return o.Text()
}

// eventDelay is how long it takes until the kernel's events of an op have been received: those of changes that were
// made after an observation must be told from them.
const eventDelay = 30 * time.Millisecond

// observation is a reading of the host in another goroutine, which begins after eventDelay.
type observation struct {
	cancel context.CancelFunc // one that has not begun yet
	ended  chan struct{}
	began  time.Time
	state  netstate.State // nil if it did not begin, or failed
}

// observeBeside starts to read back what was done while a process waits for its turn and starts, or goes on with the
// reading rest; any other op makes it void. Otherwise, of many processes that start one after the other, each would
// have all objects of the host listed at its end.
func (a *applier) observeBeside(op netstate.Op, rest *observation, changed bool) *observation {
	if op.Kind != netstate.KindProcess || op.Verb == netstate.Remove {
		rest.stop()
		return nil
	}
	if rest != nil || !changed {
		return rest
	}
	ctx, cancel := context.WithCancel(a.d.ctx)
	rest = &observation{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(rest.ended)
		defer func() { _ = recover() }() // the actor reads again, and crashes alone
		select {
		case <-ctx.Done():
			return
		case <-time.After(eventDelay):
		}
		rest.began = a.d.now()
		if have, err := a.observe(false); err == nil {
			rest.state = have
		}
	}()
	return rest
}

func (o *observation) stop() {
	if o != nil {
		o.cancel()
	}
}

// observeAfter reads the host after an apply, and returns when that began: all of it, or only the processes if rest has
// the others.
func (a *applier) observeAfter(rest *observation) (netstate.State, time.Time, error) {
	if rest != nil {
		rest.stop()
		<-rest.ended
	}
	if rest == nil || rest.state == nil {
		began := a.d.now()
		have, err := a.observe(false)
		return have, began, err
	}
	ctx, cancel := context.WithTimeout(a.d.ctx, observeDeadline)
	defer cancel()
	now, err := a.d.host.ObserveProcesses(ctx, a.owner)
	if err != nil {
		return nil, rest.began, fmt.Errorf("observe network instance %d: %w", a.owner.Number, err)
	}
	maps.DeleteFunc(rest.state, func(id netstate.ID, _ netstate.Object) bool { return id.Kind == netstate.KindProcess })
	maps.Copy(rest.state, now)
	return rest.state, rest.began, nil
}

// check verifies what was done, and then tests it.
func (a *applier) check(want netstate.State, rest *observation) ([]netstate.OpFailure, time.Time) {
	failures, began := a.verify(want, rest)
	if len(failures) == 0 {
		failures = a.test(want)
	}
	return failures, began
}

// verify reads back the objects and names each that differs from what was just written, and when the reading began.
func (a *applier) verify(want netstate.State, rest *observation) ([]netstate.OpFailure, time.Time) {
	have, began, err := a.observeAfter(rest)
	if err != nil {
		return []netstate.OpFailure{{Observe: true, Err: err.Error()}}, began
	}
	var fs []netstate.OpFailure
	for _, op := range netstate.Diff(netstate.Claim(have, want), want) {
		for _, it := range op.Items {
			fs = append(fs, netstate.OpFailure{
				ID: it.ID(), Observe: true, Remove: it.Want == nil,
				Err: fmt.Sprintf("%s: applied, but observed different: %s", it.ID(), difference(it)),
			})
		}
	}
	return fs, began
}

// test checks whether the objects that match the desired state also work.
func (a *applier) test(want netstate.State) []netstate.OpFailure {
	ctx, cancel := context.WithTimeout(a.d.ctx, testDeadline)
	defer cancel()
	fs := a.d.host.Test(ctx, a.owner, want)
	a.testFailed = len(fs) > 0
	return fs
}

// testAgain tests the objects that match the desired state at each full observation, and at every observation while a
// test fails: other programs may cause an observation every second, which must not run the tests each time.
func (a *applier) testAgain(r applyRequest) []netstate.OpFailure {
	if !r.full && !a.testFailed {
		return nil
	}
	return a.test(r.want)
}

func difference(it netstate.Item) string {
	switch {
	case it.Have == nil:
		return "absent"
	case it.Want == nil:
		return "still there"
	}
	return fmt.Sprintf("%q", it.Have.Text())
}
