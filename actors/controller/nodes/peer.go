package nodes

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/pace"
	"edgespan/config/kv"
	"edgespan/config/stateloop"
	peerpkg "edgespan/config/stateloop/peer"
)

// What is kept of one node's ports at most: it is a key that all replicas hold.
const (
	mostPorts     = 64
	mostAddresses = 8 // of one port
	longestLabel  = 64
)

// places is where others find the node.
type places struct {
	placing bool   // its ports are on their way to the store
	placed  string // as which they were sent there
	ports   portPaces
	where   pace.Steady[string] // the address that it comes from

	portsDue, whereDue bool // a look at them is under way
}

// configuration is the PeerConfiguration of what the node wants, with all that is to be absent;
// nil where there is neither.
func (n *node) configuration() *peerpkg.Configuration {
	return peerpkg.Complete(n.name, n.want.With, n.machine.Memory().Left(n.want.With), func() []stateloop.Wanted {
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
	has := n.seat.underlay.Load()
	var before Underlay
	if has != nil && *has != "" && json.Unmarshal([]byte(*has), &before) != nil {
		before = Underlay{}
	}
	counts, wait := n.ports.of(n.d.Now(), underlayOf(n.report.Ports, before), before)
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
		Of: &n.seat.spends})
}

// placeAgain is to store ports again that the store did not take.
type placeAgain struct{}

// underlaySaved is the answer of the store. What it did not take is not looked at anew, which would count as another
// change, but stored again.
func (n *node) underlaySaved(m storage.Saved) {
	if m.Err != nil && n.stream != nil {
		n.d.Log.Warn("keep the ports of a node", zap.String("node", n.id), zap.Error(m.Err))
		self := n.self
		n.d.After(storage.StoreBackoff, func() { n.d.Send(self, placeAgain{}) })
		return
	}
	n.placing = false
}

// underlayOf are ports as they are kept.
func underlayOf(ports []nodeproto.Port, before Underlay) Underlay {
	was := before.ByLabel()
	out := Underlay{Ports: []underlayPort{}}
	for _, p := range ports {
		if len(p.Label) > longestLabel || len(out.Ports) == mostPorts {
			continue
		}
		port := underlayPort{Label: p.Label, MTU: cmp.Or(p.MTU, was[p.Label].MTU)}
		for _, text := range p.Addresses {
			a, err := netip.ParseAddr(text)
			if err == nil && len(port.Addresses) < mostAddresses && reachable(text) != "" && !a.IsMulticast() {
				port.Addresses = append(port.Addresses, a.Unmap())
			}
		}
		if port.Addresses == nil {
			port.Addresses = was[p.Label].Addresses
		}
		out.Ports = append(out.Ports, port)
	}
	slices.SortStableFunc(out.Ports, func(a, b underlayPort) int { return cmp.Compare(a.Label, b.Label) })
	out.Ports = slices.CompactFunc(out.Ports, func(a, b underlayPort) bool { return a.Label == b.Label })
	return out
}

// portsRule is how often a port may have other addresses, or another MTU: each time all nodes of its
// clusters get another config.
var portsRule = pace.Rule{Still: 3 * time.Second, First: 15 * time.Second, Most: 10 * time.Minute, Quiet: time.Hour}

// portsDue is to look at the ports again.
type portsDue struct{}

// portPaces are the ports of a node: what counts of each.
type portPaces map[string]*pace.Steady[string]

// of is what counts of the ports as they are said to be, by what is stored of them, and how long it
// takes until more of it does; 0: all of it does.
func (p *portPaces) of(now time.Time, said, stored Underlay) (counts Underlay, wait time.Duration) {
	if *p == nil {
		*p = portPaces{}
	}
	is, was := said.texts(), stored.texts()
	maps.DeleteFunc(*p, func(label string, s *pace.Steady[string]) bool {
		return is[label] == "" && was[label] == "" && s.Idle(now, portsRule)
	})
	counts = Underlay{Ports: []underlayPort{}}
	for _, label := range slices.Sorted(maps.Keys(maps.Collect(both(is, was)))) {
		s := (*p)[label]
		if s == nil && was[label] == "" && len(*p) >= mostPorts {
			continue // it goes on bringing new ones
		}
		if s == nil {
			s = &pace.Steady[string]{}
			(*p)[label] = s
			if was[label] != "" {
				s.Assume(was[label])
			}
		} else if was[label] != "" { // none is that what counts here is not stored yet
			s.Assume(was[label]) // another replica may have stored it meanwhile
		}
		s.Say(now, is[label])
		text, late := s.Value(now, portsRule)
		if late > 0 && (wait == 0 || late < wait) {
			wait = late
		}
		var port underlayPort
		if text != "" && len(counts.Ports) < mostPorts && json.Unmarshal([]byte(text), &port) == nil {
			counts.Ports = append(counts.Ports, port)
		}
	}
	return counts, wait
}

// both are the entries of two maps.
func both(a, b map[string]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, m := range []map[string]string{a, b} {
			for k, v := range m {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

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
