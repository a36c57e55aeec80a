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

// Owner is the value of a node's owner key.
type Owner struct {
	Replica  string          `json:"replica"`
	Began    int64           `json:"began"` // when the replica started
	Stream   string          `json:"stream"`
	Versions layers.Versions `json:"versions"`
	Address  string          `json:"address,omitempty"`
	Node     *reported       `json:"node,omitempty"`
}

// ownership tracks the key that names the replica with the node's stream.
type ownership struct {
	owner     kv.Revision // that wrote the key last
	announced []byte      // the value that this replica wrote
	leaving   []byte      // the value that this replica deletes
	instead   []byte      // the value that a write in flight replaces; nil: no write in flight
	showing   bool        // an update for the other replicas is scheduled
	reported  time.Time   // time of the last update
	theirs    *reported   // the state from the replica that has the stream
	ownings   int         // this replica's writes in flight
	deposed   *kv.Entry   // another replica's write meanwhile
}

func (n *node) ownerValue() []byte {
	if n.announced != nil {
		return n.announced
	}
	n.handle.mu.Lock()
	versions, address := n.handle.versions, n.handle.address
	n.handle.mu.Unlock() // fit may take a while
	n.announced = encodeOwner(Owner{n.d.Replica, n.d.Began.UnixNano(), n.on, versions, address, n.reportStanding()})
	return n.announced
}

// announceOwnership announces to the other replicas that the node's stream is here.
func (n *node) announceOwnership() {
	lease := n.d.LeaseID()
	if n.stream == nil || lease == 0 {
		return // the next lease announces it
	}
	n.announced, n.instead = nil, nil
	if !n.d.Saver.Add(storage.Save{Op: kv.PutLeased(history.OwnerKey(n.id), n.ownerValue(), lease), To: n.self,
		What: savedOwner, Of: &n.handle.spends}) {
		n.ownings++ // otherwise it replaced a waiting one
	}
}

// handleOwnerSaved handles the result of that write.
func (n *node) handleOwnerSaved(m storage.Saved) {
	n.ownings--
	if m.Err != nil && n.permanentError("streams of this replica", m.Err) {
		// The other replicas show the node as offline until its next change is stored.
	} else if m.Err != nil {
		n.d.Log.Warn("publish the replica of a node's stream", zap.String("node", n.id), zap.Error(m.Err))
		n.retryLater(savedOwner)
	} else {
		n.owner = max(n.owner, m.Rev)
	}
	if other := n.deposed; other != nil && n.ownings == 0 {
		n.deposed = nil
		n.handleOwner(*other)
	}
}

// handleOwner handles a change of the node's owner key.
func (n *node) handleOwner(e kv.Entry) {
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
		n.announceOwnership() // the lease expired before there was a new one
	case len(e.Value) == 0:
		n.handleOwnerGone()
	case o.Replica == n.d.Replica:
		// Written by this replica, or by an earlier run of it whose stream is gone.
	default:
		n.endStream("the node is connected to replica " + o.Replica)
		n.handle.setVersions(o.Versions, o.Replica)
		n.handle.setAddress(o.Address)
		n.theirs = o.Node
		if n.on == o.Stream && n.replica == o.Replica {
			n.show(n.d.Now())
			return
		}
		n.on, n.replica = o.Stream, o.Replica
		n.step(fleet.Connected{Stream: o.Stream, Replica: o.Replica})
	}
}

// reported is a node's state, as its replica publishes it to the others.
type reported struct {
	State      string               `json:"state"` // in the previous release's spelling
	Why        string               `json:"why"`
	Managed    bool                 `json:"managed,omitempty"`
	Ready      bool                 `json:"ready,omitempty"`
	Desired    fleet.Digest         `json:"wanted"`
	Running    fleet.Digest         `json:"running"`
	Wants      fleet.Generation     `json:"wants"`
	Runs       fleet.Generation     `json:"runs"`
	Parameters []fleetapi.Parameter `json:"parameters,omitempty"`
	Health     stateloop.Health     `json:"health,omitempty"` // "" if not derived
	Peer       *PeerView            `json:"peer,omitempty"`   // if it has a PeerConfiguration; contains the parameters
	Left       int                  `json:"left,omitempty"`   // how many parameters and other entries did not fit
}

// showAfter is how long changes are collected before the other replicas are updated: a push is five states within a
// second.
const showAfter = time.Second

// showDue ends the collection.
type showDue struct{}

// reportStanding returns the node's state for the other replicas; nil if there are none.
func (n *node) reportStanding() *reported {
	r := n.handle.row.Load()
	if !n.d.Shared || r == nil || n.report == nil {
		return nil
	}
	out := &reported{
		State: r.Key.State.Previous(), Why: r.Why, Managed: r.Key.managed, Ready: r.Key.ready, Desired: r.Key.desired,
		Running: r.Key.running,
		Wants:   r.Key.Wants, Runs: r.Key.Runs,
	}
	out.Why = config.Truncate(out.Why, nodeproto.MaxText)
	if n.mayHaveParts() {
		out.Peer = n.currentView()
	} else if out.Parameters = n.parameters(); n.isInSync() {
		out.Health = n.summary.report.Health
	}
	return out
}

// notifyReplicas schedules an update for the other replicas.
func (n *node) notifyReplicas() {
	if !n.d.Shared || n.stream == nil || n.showing {
		return
	}
	n.showing = true
	self := n.self
	n.d.After(n.pause(), func() { n.d.Send(self, showDue{}) })
}

// showDue writes the changed state to the owner's key, if this replica still owns it.
func (n *node) showDue() {
	n.showing = false
	if n.stream == nil || n.announced == nil {
		return
	}
	if n.instead != nil || n.ownings > 0 || n.d.LeaseID() == 0 {
		n.notifyReplicas() // after the writes in flight
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
	still := kv.HasValue(history.OwnerKey(n.id), n.instead)
	n.d.Saver.Add(storage.Save{Op: kv.PutLeased(still.Key, n.announced, n.d.LeaseID()), Compare: &still, To: n.self,
		What: savedShown, Of: &n.handle.spends})
}

// handleShownSaved handles the result of that write. If another replica owns the key by now, the watch delivers it.
func (n *node) handleShownSaved(m storage.Saved) {
	switch {
	case n.instead == nil: // the stream was announced again meanwhile
	case m.Err == nil && !m.Done && !m.Now.Exists() && n.stream != nil:
		n.announceOwnership() // its lease has expired
	case m.Err == nil, n.stream == nil: // gone handles what is left
		n.instead = nil
	case n.permanentError("state of the node", m.Err):
		n.announced, n.instead = n.instead, nil // the next change retries
	default:
		n.retryLater(savedShown)
	}
}

// handleOwnerDeleted handles the result of deleting the owner's key. If the key still names the ended stream with
// another value, as after a write with unknown outcome, handleOwnerDeleted deletes that.
func (n *node) handleOwnerDeleted(m storage.Saved) {
	if m.Err != nil {
		n.retryLater(savedGone)
		return
	}
	if m.Done || n.stream != nil {
		return
	}
	var was, now Owner
	if json.Unmarshal(n.leaving, &was) == nil && json.Unmarshal(m.Now.Value, &now) == nil &&
		now.Replica == was.Replica && now.Began == was.Began && now.Stream == was.Stream {
		n.leaving = m.Now.Value
		n.releaseOwnership()
	}
}
