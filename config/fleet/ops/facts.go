package ops

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

const (
	factsKey      = "topologyInfo"
	radioOverride = "radioParamsOverride"
	linkOverride  = "linkParamsOverride"
)

// colours is the number of time slots in which the radios of the network ignite links by themselves, half of them for
// each polarity (reference §1.16).
const colours = 4

// Facts returns the write that updates topologyInfo, the auto layer's description of the topology, on all nodes; ok is
// false if nothing differs. Writes to the topology and optimisations include this update. After an import or a restore
// of files, and after users' writes to radios and links, the caller has to make this write.
func (s *Snapshot) Facts() (write SetAuto, ok bool, err error) {
	c, err := s.newCheck().readTopologyLayers()
	if err != nil {
		return SetAuto{}, false, err
	}
	values := config.Object{}
	after := c.withFacts()
	for _, name := range sortedNames(c.auto) {
		if _, stays := after[name]; !stays {
			after[name] = nil
		}
	}
	for name, doc := range after {
		if _, known := s.Nodes[name]; !known || c.damaged[name] {
			continue
		}
		if p := patch(c.auto[name], doc); p != nil {
			values[name] = p
		}
	}
	return SetAuto{values}, len(values) > 0, nil
}

// withFacts returns the auto layers with topologyInfo updated from the topology.
func (c topologyLayers) withFacts() map[string]config.Object {
	out := maps.Clone(c.auto)
	f := c.facts()
	for name, doc := range c.auto {
		if _, has := doc[factsKey]; has && f[name] == nil {
			if out[name] = config.Unset(doc, []string{factsKey}); len(out[name]) == 0 {
				delete(out, name)
			}
		}
	}
	for name, fact := range f {
		out[name] = config.Set(out[name], []string{factsKey}, fact)
	}
	return out
}

// facts returns topologyInfo of every node of the topology.
func (c topologyLayers) facts() map[string]config.Object {
	s := surveyor{topologyLayers: c, sites: map[string]topology.Site{}, nodes: map[string]topology.Node{},
		links: map[string][]topology.Link{}}
	for _, site := range c.topology.Sites {
		s.sites[site.Name] = site
	}
	for _, n := range c.topology.Nodes {
		s.nodes[n.Name] = n
	}
	for _, l := range c.topology.Links {
		s.links[l.A] = append(s.links[l.A], l)
		s.links[l.Z] = append(s.links[l.Z], l)
	}
	radios := s.radios()
	out := map[string]config.Object{}
	for _, n := range c.topology.Nodes {
		o := config.Object{
			"nodeName": n.Name, "topologyName": c.topology.Name, "nodeType": int64(n.Type), "site": s.site(n.Site),
			"zoneNodes": "", // only for deterministic prefix allocation, which is not supported
		}
		if n.Type == topology.DN {
			o["distributedIgnitionNumColors"] = int64(colours)
			if all := radios[n.Name]; len(all) > 0 {
				o["radioInfo"] = all
			}
			if all := s.neighbours(n); len(all) > 0 {
				o["neighborInfo"] = all
			}
		}
		out[n.Name] = o
	}
	return out
}

type surveyor struct {
	topologyLayers
	sites map[string]topology.Site
	nodes map[string]topology.Node
	links map[string][]topology.Link
}

func (s surveyor) site(name string) config.Object {
	out := config.Object{"name": name}
	if at := s.sites[name]; at.Located {
		out["location"] = config.Object{"latitude": at.Latitude, "longitude": at.Longitude, "altitude": at.Altitude}
	}
	return out
}

// neighbours returns the MACs of the neighbours that a DN may ignite: over wireless links that are not the backup link
// of a client node.
func (s surveyor) neighbours(n topology.Node) config.Object {
	out := config.Object{}
	for _, l := range s.links[n.Name] {
		peer, mac, own := l.Z, l.ZMAC, l.AMAC
		if l.A != n.Name {
			peer, mac, own = l.A, l.AMAC, l.ZMAC
		}
		if l.Type != topology.Wireless || l.BackupCN || mac == "" {
			continue
		}
		o := config.Object{"initiatorMac": own, "nodeType": int64(s.nodes[peer].Type)}
		if v, has := s.param(n.Name, linkOverride, "linkParamsBase", mac, "controlSuperframe"); has {
			o["controlSuperframe"] = v
		}
		tx, hasTx := s.param(n.Name, linkOverride, "linkParamsBase", mac, "txGolayIdx")
		rx, hasRx := s.param(n.Name, linkOverride, "linkParamsBase", mac, "rxGolayIdx")
		if hasTx && hasRx {
			o["golayIdx"] = config.Object{"txGolayIdx": tx, "rxGolayIdx": rx}
		}
		if v, has := s.polarity(peer, mac); has {
			o["nodePolarity"] = v
		}
		out[mac] = o
	}
	return out
}

// radios returns the colours of the radios of DNs, by node and MAC. On one site the colours rotate by the bearing of
// the nodes, so that radios of equal colour point apart; odd polarities have odd colours.
func (s surveyor) radios() map[string]config.Object {
	bySite := map[string][]topology.Node{}
	for _, n := range s.topology.Nodes {
		bySite[n.Site] = append(bySite[n.Site], n)
	}
	out := map[string]config.Object{}
	for _, nodes := range bySite {
		slices.SortFunc(nodes, func(a, b topology.Node) int {
			return cmp.Or(cmp.Compare(s.bearing(a), s.bearing(b)), cmp.Compare(a.Name, b.Name))
		})
		turn := int64(0)
		for _, n := range nodes {
			for _, mac := range n.WlanMACs {
				polarity, has := s.polarity(n.Name, mac)
				if n.Type != topology.DN || !has {
					continue
				}
				if out[n.Name] == nil {
					out[n.Name] = config.Object{}
				}
				out[n.Name][mac] = config.Object{"distributedIgnitionColor": polarity%2 + 2*turn} // odd polarities are 1 and 3
				turn = (turn + 1) % (colours / 2)
			}
		}
	}
	return out
}

// bearing returns the direction of a node by its first wireless link to another place; nodes without one come last.
func (s surveyor) bearing(n topology.Node) float64 {
	here := s.sites[n.Site]
	for _, l := range s.links[n.Name] {
		peer := l.Z
		if l.A != n.Name {
			peer = l.A
		}
		there := s.sites[s.nodes[peer].Site]
		if l.Type == topology.Wireless && here.Located && there.Located && here.Name != there.Name {
			return math.Atan2(there.Latitude-here.Latitude, (there.Longitude-here.Longitude)*math.Cos(here.Latitude*math.Pi/180))
		}
	}
	return math.MaxFloat64
}

func (s surveyor) polarity(node, mac string) (int64, bool) {
	return s.param(node, radioOverride, "radioParamsBase", mac, "polarity")
}

// param returns the current value of a parameter for a MAC of a node: users' values precede the auto layer, and values
// for one MAC precede those for all. It does not read base layers.
func (c topologyLayers) param(node, over, base, mac, name string) (int64, bool) {
	layers := []config.Object{c.own[node], c.network, c.auto[node]}
	for _, o := range layers {
		macs, _ := o[over].(config.Object)
		for _, key := range matchingKeys(macs, mac) {
			if v, found := config.Lookup(macs, []string{key, "fwParams", name}); found {
				i, ok := v.(int64)
				return i, ok
			}
		}
	}
	for _, o := range layers {
		if v, found := config.Lookup(o, []string{base, "fwParams", name}); found {
			i, ok := v.(int64)
			return i, ok
		}
	}
	return 0, false
}

// matchingKeys returns the keys that equal a MAC.
func matchingKeys(macs config.Object, mac string) []string {
	if _, has := macs[mac]; has {
		return []string{mac}
	}
	var out []string
	for key := range macs {
		if parsed, err := topology.ParseMAC(key); err == nil && parsed == mac {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
