package nodes

import (
	"bytes"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/stateloop"
)

// Owner is what the key of a node's owner holds.
type Owner struct {
	Replica  string          `json:"replica"`
	Began    int64           `json:"began"` // which run of it
	Stream   string          `json:"stream"`
	Versions layers.Versions `json:"versions"`
	Address  string          `json:"address,omitempty"`
	Node     *reported       `json:"node,omitempty"`
}

// ownership is the key that says who has the node's stream.
type ownership struct {
	owner     kv.Revision // that wrote the owner's key last
	announced []byte      // what we wrote there
	leaving   []byte      // what we take away there
	instead   []byte      // what the key held before a text that is on its way; nil: none is
	showing   bool        // the others will be told
	reported  time.Time   // when they were told last
	theirs    *reported   // of the replica that has it
	ownings   int         // so many of ours are on their way
	deposed   *kv.Entry   // another's, meanwhile
}

func (n *node) ownerValue() []byte {
	if n.announced != nil {
		return n.announced
	}
	n.handle.mu.Lock()
	versions, address := n.handle.versions, n.handle.address
	n.handle.mu.Unlock() // what follows may take a while
	n.announced = fit(Owner{n.d.Replica, n.d.Began.UnixNano(), n.on, versions, address, n.tells()})
	return n.announced
}

// own says to the other replicas that the node's stream is here.
func (n *node) own() {
	lease := n.d.LeaseID()
	if n.stream == nil || lease == 0 {
		return // with the next lease
	}
	n.announced, n.instead = nil, nil
	if !n.d.Saver.Add(storage.Save{Op: kv.PutLeased(history.OwnerKey(n.id), n.ownerValue(), lease), To: n.self,
		What: savedOwner, Of: &n.handle.spends}) {
		n.ownings++ // else one of them waits no more
	}
}

// ownerSaved is the answer of the store to that.
func (n *node) ownerSaved(m storage.Saved) {
	n.ownings--
	if m.Err != nil && n.hopeless("streams of this replica", m.Err) {
		// It shows as offline there; the next change is tried again.
	} else if m.Err != nil {
		n.d.Log.Warn("publish the replica of a node's stream", zap.String("node", n.id), zap.Error(m.Err))
		n.later(savedOwner)
	} else {
		n.owner = max(n.owner, m.Rev)
	}
	if other := n.deposed; other != nil && n.ownings == 0 {
		n.deposed = nil
		n.owned(*other)
	}
}

// owned is what the store says of who has the node's stream.
func (n *node) owned(e kv.Entry) {
	if n.ownings > 0 {
		if n.deposed == nil || n.deposed.ModRevision < e.ModRevision {
			n.deposed = &e
		}
		return
	}
	if e.ModRevision <= n.owner {
		return
	}
	n.owner = e.ModRevision
	var o Owner
	if len(e.Value) > 0 && json.Unmarshal(e.Value, &o) != nil {
		return
	}
	switch {
	case len(e.Value) == 0 && n.stream != nil:
		n.own() // the lease ended before another one was there
	case len(e.Value) == 0:
		n.away()
	case o.Replica == n.d.Replica:
		// Ours, or of a run of this replica that has ended: that stream is gone.
	default:
		n.end("the node is connected to replica " + o.Replica)
		n.handle.is(o.Versions, o.Replica)
		n.handle.from(o.Address)
		n.theirs = o.Node
		if n.on == o.Stream && n.replica == o.Replica {
			n.show(n.d.Now())
			return
		}
		n.on, n.replica = o.Stream, o.Replica
		n.step(fleet.Connected{Stream: o.Stream, Replica: o.Replica})
	}
}

// reported is where a node stands, as its replica tells it to the others.
type reported struct {
	State      string               `json:"state"` // in the words of the previous release
	Why        string               `json:"why"`
	Managed    bool                 `json:"managed,omitempty"`
	Ready      bool                 `json:"ready,omitempty"`
	Desired    fleet.Digest         `json:"wanted"`
	Running    fleet.Digest         `json:"running"`
	Wants      fleet.Generation     `json:"wants"`
	Runs       fleet.Generation     `json:"runs"`
	Parameters []fleetapi.Parameter `json:"parameters,omitempty"`
	Health     stateloop.Health     `json:"health,omitempty"` // "" where it was not derived
	Peer       *PeerView            `json:"peer,omitempty"`   // of one with a PeerConfiguration: Parameters are in it
	Left       int                  `json:"left,omitempty"`   // parameters and other entries that would not fit
}

// showAfter is how long changes are gathered before the other replicas are told: a push is
// five states within a second.
const showAfter = time.Second

// showDue ends the gathering.
type showDue struct{}

// tells is where the node stands, for the other replicas; nil where there are none.
func (n *node) tells() *reported {
	r := n.handle.row.Load()
	if !n.d.Shared || r == nil || n.report == nil {
		return nil
	}
	out := &reported{
		State: r.Key.State.Previous(), Why: r.Why, Managed: r.Key.managed, Ready: r.Key.ready, Desired: r.Key.desired,
		Running: r.Key.running,
		Wants:   r.Key.Wants, Runs: r.Key.Runs,
	}
	out.Why = config.Cut(out.Why, nodeproto.MaxText)
	if n.peers() {
		out.Peer = n.viewed()
	} else if out.Parameters = n.parameters(); n.synced() {
		out.Health = n.summary.report.Health
	}
	return out
}

// notifyReplicas has the other replicas told soon that something is new of the node.
func (n *node) notifyReplicas() {
	if !n.d.Shared || n.stream == nil || n.showing {
		return
	}
	n.showing = true
	self := n.self
	n.d.After(n.pause(), func() { n.d.Send(self, showDue{}) })
}

// showDue writes what is new to the key of the node's owner, as long as it is still ours.
func (n *node) showDue() {
	n.showing = false
	if n.stream == nil || n.announced == nil {
		return
	}
	if n.instead != nil || n.ownings > 0 || n.d.LeaseID() == 0 {
		n.notifyReplicas() // after what is on its way
		return
	}
	before := n.announced
	n.announced = nil
	if bytes.Equal(n.ownerValue(), before) {
		return
	}
	n.instead, n.reported = before, n.d.Now()
	n.showAgain()
}

func (n *node) showAgain() {
	if n.instead == nil || n.stream == nil {
		return
	}
	still := kv.Holds(history.OwnerKey(n.id), n.instead)
	n.d.Saver.Add(storage.Save{Op: kv.PutLeased(still.Key, n.announced, n.d.LeaseID()), Compare: &still, To: n.self,
		What: savedShown, Of: &n.handle.spends})
}

// shownSaved is the answer of the store to that. Where the key is another's by now, the watch
// tells of it.
func (n *node) shownSaved(m storage.Saved) {
	switch {
	case n.instead == nil: // it was announced anew meanwhile
	case m.Err == nil && !m.Done && !m.Now.Exists() && n.stream != nil:
		n.own() // its lease has ended
	case m.Err == nil, n.stream == nil: // gone sees to what is there
		n.instead = nil
	case n.hopeless("state of the node", m.Err):
		n.announced, n.instead = n.instead, nil // with the next change
	default:
		n.later(savedShown)
	}
}

// gone is the answer of the store to the end of our stream. What is left of it there, of
// before or after a text whose fate was not known, is taken away too.
func (n *node) gone(m storage.Saved) {
	if m.Err != nil {
		n.later(savedGone)
		return
	}
	if m.Done || n.stream != nil {
		return
	}
	var was, is Owner
	if json.Unmarshal(n.leaving, &was) == nil && json.Unmarshal(m.Now.Value, &is) == nil &&
		is.Replica == was.Replica && is.Began == was.Began && is.Stream == was.Stream {
		n.leaving = m.Now.Value
		n.disown()
	}
}
