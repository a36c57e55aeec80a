package nodes

import (
	"encoding/json"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/pace"
	"edgespan/config/fleet/underlay"
	"edgespan/config/kv"
	"edgespan/config/stateloop"
	peerpkg "edgespan/config/stateloop/peer"
)

// places is where others find the node.
type places struct {
	placing bool   // its ports are on their way to the store
	placed  string // as which they were sent there
	ports   underlay.Paces
	where   pace.Steady[string] // the address that it comes from

	portsDue, whereDue bool // a look at them is under way
}

// configuration is the PeerConfiguration of what the node wants, with all that is to be absent;
// nil where there is neither.
func (n *node) configuration() *peerpkg.Configuration {
	return peerpkg.Complete(n.name, n.want.With, n.machine.Memory().Left(n.want.With), func() []stateloop.Desired {
		return n.d.Declared(n.want.Config, n.want.Set)
	})
}

// partsOf are the parameters that a report answers, where somebody asks.
func (n *node) partsOf(r *nodeproto.Report) map[string]bool {
	if !n.machine.Parting() {
		return nil
	}
	out := make(map[string]bool, len(r.Parameters))
	for _, p := range r.Parameters {
		out[p.ID] = stateloop.State(p.State) == stateloop.Absent && p.Generation == r.Generation
	}
	return out
}

// underlay writes where tunnels of others find the node, when that is news and the node is a
// peer. What a port had last stays until it has another address: a tunnel to one that is down
// is down, and one that is made anew for every cable that is pulled is no better.
func (n *node) underlay() {
	if n.stream == nil || n.report == nil || n.want.With == nil || len(n.report.Ports) == 0 {
		return
	}
	if n.placing {
		return // that is looked at again when it is stored
	}
	has := n.handle.underlay.Load()
	var before underlay.Ports
	if has != nil && *has != "" && json.Unmarshal([]byte(*has), &before) != nil {
		before = underlay.Ports{}
	}
	counts, wait := n.ports.Of(n.d.Now(), underlay.Of(n.report.Ports, before), before)
	n.dueIn(&n.portsDue, wait, portsDue{})
	text := string(storage.Encode(counts))
	if has != nil && *has == text {
		return
	}
	n.placing, n.placed = true, text
	n.place()
}

func (n *node) place() {
	n.d.Saver.Add(storage.Save{Op: kv.Put(history.UnderlayKey(n.id), []byte(n.placed)), To: n.self, What: savedUnderlay,
		Of: &n.handle.spends})
}

// placeAgain is to store ports again that the store did not take.
type placeAgain struct{}

// underlaySaved is the answer of the store. What it did not take is not looked at anew, which would count as another
// change, but stored again.
func (n *node) underlaySaved(m storage.Saved) {
	if m.Err != nil && n.stream != nil {
		n.d.Log.Warn("store the ports of a node", zap.String("node", n.id), zap.Error(m.Err))
		self := n.self
		n.d.After(storage.StoreBackoff, func() { n.d.Send(self, placeAgain{}) })
		return
	}
	n.placing = false
}

// portsDue is to look at the ports again.
type portsDue struct{}

// digestOf is what a report says the node runs.
func digestOf(md5, peer string) fleet.Digest { return fleet.Digest{Config: md5, Peer: peer} }

// encoded is the configuration as it is pushed, nil for none.
func (n *node) encoded() ([]byte, error) {
	c := n.configuration()
	if c == nil {
		return nil, nil
	}
	return c.Encode()
}
