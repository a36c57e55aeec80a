package optimize

import (
	"cmp"
	"iter"
	"slices"

	"edgespan/config/fleet/topology"
)

// network is a topology as the assignments need it: radios and the wireless links between them, numbered in an order
// that does not depend on the file's.
type network struct {
	sites  []topology.Site
	radios []radio
	links  []link
	halves []half // of links that lack a MAC
	groups []group
}

type radio struct {
	node, mac string
	site      int
	dn        bool
	polarity  int   // from an old topology, 0 for none
	links     []int // wireless ones
	group     int
	differs   bool // its polarity differs from that of the first radio of its group
}

// link has the lower numbered radio first.
type link struct {
	name string
	ends [2]int
}

// half is an end of a wireless link whose other end has a known MAC.
type half struct{ node, peer string }

// group is a set of links connected by radios: they share a golay code and a channel.
type group struct{ radios, links []int }

// other returns the peer of a radio on a link.
func (l link) other(radio int) int { return l.ends[0] + l.ends[1] - radio }

func newNetwork(t *topology.Topology) *network {
	n := &network{sites: slices.Clone(t.Sites)}
	slices.SortFunc(n.sites, func(a, b topology.Site) int { return cmp.Compare(a.Name, b.Name) })
	number := n.addRadios(t)
	for _, l := range t.Links {
		if l.Type != topology.Wireless {
			continue
		}
		if l.AMAC == "" || l.ZMAC == "" {
			n.halves = append(n.halves, half{l.A, l.ZMAC}, half{l.Z, l.AMAC})
			continue
		}
		ends := [2]int{number[l.AMAC], number[l.ZMAC]}
		slices.Sort(ends[:])
		n.links = append(n.links, link{l.Name, ends})
	}
	slices.SortFunc(n.links, func(a, b link) int {
		return cmp.Or(slices.Compare(a.ends[:], b.ends[:]), cmp.Compare(a.name, b.name))
	})
	// Two links between the same radios are the same to a radio.
	n.links = slices.CompactFunc(n.links, func(a, b link) bool { return a.ends == b.ends })
	slices.SortFunc(n.links, func(a, b link) int { return cmp.Compare(a.name, b.name) })
	for i, l := range n.links {
		for _, end := range l.ends {
			n.radios[end].links = append(n.radios[end].links, i)
		}
	}
	whole := map[half]bool{}
	for _, l := range n.links {
		a, z := n.radios[l.ends[0]], n.radios[l.ends[1]]
		whole[half{a.node, z.mac}], whole[half{z.node, a.mac}] = true, true
	}
	n.halves = slices.DeleteFunc(n.halves, func(h half) bool { return h.peer == "" || whole[h] })
	n.join()
	return n
}

// addRadios adds every radio: those listed in nodes, and those that wireless links name.
func (n *network) addRadios(t *topology.Topology) map[string]int {
	sites, nodes := map[string]int{}, map[string]topology.Node{}
	for i, s := range n.sites {
		sites[s.Name] = i
	}
	seen := map[string]bool{"": true}
	add := func(node topology.Node, mac string) {
		if seen[mac] {
			return
		}
		seen[mac] = true
		n.radios = append(n.radios, radio{node: node.Name,
			mac: mac, site: sites[node.Site], dn: node.Type == topology.DN, polarity: node.Polarity})
	}
	for _, node := range t.Nodes {
		nodes[node.Name] = node
		for _, mac := range node.WlanMACs {
			add(node, mac)
		}
	}
	for _, l := range t.Links {
		if l.Type == topology.Wireless {
			add(nodes[l.A], l.AMAC)
			add(nodes[l.Z], l.ZMAC)
		}
	}
	slices.SortFunc(n.radios, func(a, b radio) int { return cmp.Compare(a.mac, b.mac) })
	number := map[string]int{}
	for i, r := range n.radios {
		number[r.mac] = i
	}
	return number
}

// join builds the groups. The radios of a group are in the order of a walk over the links, and each differs in polarity
// from the one that it was reached from.
func (n *network) join() {
	for i := range n.radios {
		n.radios[i].group = -1
	}
	for i := range n.radios {
		if n.radios[i].group >= 0 {
			continue
		}
		g := group{radios: []int{i}}
		n.radios[i].group = len(n.groups)
		for at := 0; at < len(g.radios); at++ {
			from := g.radios[at]
			for _, l := range n.radios[from].links {
				if to := n.links[l].other(from); n.radios[to].group < 0 {
					n.radios[to].group, n.radios[to].differs = len(n.groups), !n.radios[from].differs
					g.radios = append(g.radios, to)
				}
			}
		}
		n.groups = append(n.groups, g)
	}
	for i, l := range n.links {
		g := &n.groups[n.radios[l.ends[0]].group]
		g.links = append(g.links, i)
	}
}

// keys yields the nodes and MACs that can carry a value: a radio's own, or a link's peers.
func (n *network) keys(p param) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if p.over == polarity.over {
			for _, r := range n.radios {
				if !yield(r.node, r.mac) {
					return
				}
			}
			return
		}
		for _, l := range n.links {
			a, z := n.radios[l.ends[0]], n.radios[l.ends[1]]
			if !yield(a.node, z.mac) || !yield(z.node, a.mac) {
				return
			}
		}
		for _, h := range n.halves {
			if !yield(h.node, h.peer) {
				return
			}
		}
	}
}
