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

// places is where other nodes find this one.
type places struct {
	placing bool   // a write of its ports is in flight
	placed  string // the ports that were written
	copied  string // the last key that was another node's
	ports   underlay.Debouncers
	where   pace.Debouncer[string] // the address that it connects from

	portsDue, whereDue bool // a check is scheduled
}

// configuration returns the node's PeerConfiguration, including everything that must be absent; nil if there is
// neither.
func (n *node) configuration() *peerpkg.Configuration {
	return peerpkg.Complete(n.name, n.desired.With, n.machine.Memory().Leftovers(n.desired.With),
		func() []stateloop.DesiredParameter {
			return n.d.Declared(n.desired.Config, n.desired.Set)
		})
}

// partsOf returns which reported parameters are absent, if the machine needs it.
func (n *node) partsOf(r *nodeproto.Report) map[string]bool {
	if !n.machine.HasLeftovers() {
		return nil
	}
	out := make(map[string]bool, len(r.Parameters))
	for _, p := range r.Parameters {
		out[p.ID] = stateloop.State(p.State) == stateloop.Absent && p.Generation == r.Generation
	}
	return out
}

// storeUnderlay stores the ports at which tunnels of other nodes find this one, if it is a peer and they changed. A
// port keeps its last address until it has another one: a tunnel to a port that is down is down anyway, and recreating
// it for every unplugged cable would not help.
func (n *node) storeUnderlay() {
	if n.stream == nil || n.report == nil || n.desired.With == nil || len(n.report.Ports) == 0 {
		return
	}
	if n.placing {
		return // a write is in flight: the next report checks again
	}
	has := n.handle.underlay.Load()
	var before underlay.Ports
	if has != nil && *has != "" && json.Unmarshal([]byte(*has), &before) != nil {
		before = underlay.Ports{}
	}
	said := underlay.FromReport(n.report.Ports, before, n.isOfAnother)
	counts, wait := n.ports.Effective(n.d.Now(), said, before)
	n.scheduleOnce(&n.portsDue, wait, portsDue{})
	text := string(storage.Encode(counts))
	if has != nil && *has == text {
		return
	}
	n.placing, n.placed = true, text
	n.storePlace()
}

// isOfAnother reports whether a key for encrypted clusters is another node's, which was the first to report it. All
// members know each other's keys, and a node that has another's could take its place or cut it off.
func (n *node) isOfAnother(key string) bool {
	owner := n.handle.all.ownerOf(key)
	if owner == "" || owner == n.id {
		return false
	}
	if n.copied != key { // once, not with each report
		n.copied = key
		n.d.Log.Warn("a node reports a key for encrypted clusters that is another's: it is ignored",
			zap.String("node", n.id), zap.String("of", owner), zap.String("key", key))
	}
	return true
}

func (n *node) storePlace() {
	n.d.Saver.Add(storage.Save{Op: kv.Put(history.UnderlayKey(n.id), []byte(n.placed)), To: n.self, What: savedUnderlay,
		Of: &n.handle.spends})
}

// placeAgain retries a failed write of the ports.
type placeAgain struct{}

// handleUnderlaySaved handles the result of the write. A failed write is repeated without looking at the ports again,
// which would count as another change.
func (n *node) handleUnderlaySaved(m storage.Saved) {
	if m.Err != nil && n.stream != nil {
		n.d.Log.Warn("store the ports of a node", zap.String("node", n.id), zap.Error(m.Err))
		self := n.self
		n.d.After(storage.StoreBackoff, func() { n.d.Send(self, placeAgain{}) })
		return
	}
	n.placing = false
}

// portsDue checks the ports again.
type portsDue struct{}

// digestOf returns the digest of a reported config.
func digestOf(md5, peer string) fleet.Digest { return fleet.Digest{Config: md5, Peer: peer} }

// encodeConfiguration returns the configuration in its pushed form, nil for none.
func (n *node) encodeConfiguration() ([]byte, error) {
	c := n.configuration()
	if c == nil {
		return nil, nil
	}
	return c.Encode()
}
