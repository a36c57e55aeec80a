package topology

import (
	"fmt"
	"strconv"

	"edgespan/config"
)

// check notes inconsistencies. Unreadable names are noted before.
func (r *reader) check(t *Topology) {
	sites := map[string]int{}
	for i, s := range t.Sites {
		r.checkOnce(sites, s.Name, i, "sites", "name")
	}
	nodes, macs := map[string]int{}, map[string]int{}
	for i, n := range t.Nodes {
		r.checkOnce(nodes, n.Name, i, "nodes", "name")
		if _, there := sites[n.Site]; !there && n.Site != "" {
			r.faults.Add(itemPath("nodes", i, "site_name"), config.Invalid(n.Site)+", which is not a site",
				"must be the name of a site")
		}
		r.macsOf(t.Nodes, macs, i)
	}
	links := map[string]int{}
	for i, l := range t.Links {
		r.checkOnce(links, l.Name, i, "links", "name")
		r.checkEnd(t, nodes, macs, i, "a", l.A, l.AMAC)
		r.checkEnd(t, nodes, macs, i, "z", l.Z, l.ZMAC)
		if l.A == l.Z && l.A != "" {
			r.faults.Add(itemPath("links", i, "z_node_name"), config.Invalid(l.Z)+", the node of the other end too",
				"must be another node")
		}
	}
}

// namedSites returns the sites that nodes name, for a file without a list of sites.
func namedSites(nodes []Node) []Site {
	var out []Site
	seen := map[string]bool{"": true}
	for _, n := range nodes {
		if !seen[n.Site] {
			seen[n.Site] = true
			out = append(out, Site{Name: n.Site, implied: true})
		}
	}
	return out
}

// checkOnce notes a duplicate name.
func (r *reader) checkOnce(seen map[string]int, name string, i int, list, key string) {
	if name == "" {
		return
	}
	if first, twice := seen[name]; twice {
		r.faults.Add(itemPath(list, i, key), fmt.Sprintf("duplicate value %s, also at %s.%d", config.Quote(name), list,
			first),
			"must be unique")
		return
	}
	seen[name] = i
}

// macsOf notes MACs of node i that another node has, and those that it lists twice. A node may be named after one of
// its radios.
func (r *reader) macsOf(nodes []Node, owner map[string]int, i int) {
	own := map[string]bool{}
	claim := func(mac string, path []string, again bool) {
		if mac == "" {
			return
		}
		first, taken := owner[mac]
		switch {
		case taken && first != i:
			r.faults.Add(path, fmt.Sprintf("invalid value %s, which node %s has", mac, config.Quote(nodes[first].Name)),
				"must be unique: each MAC on one node")
		case own[mac] && again:
			r.faults.Add(path, "duplicate value "+mac, "must be unique")
		default:
			owner[mac] = i
		}
		own[mac] = own[mac] || again
	}
	claim(nodes[i].MAC, itemPath("nodes", i, "mac_addr"), false)
	for j, mac := range nodes[i].WlanMACs {
		claim(mac, itemPath("nodes", i, "wlan_mac_addrs", strconv.Itoa(j)), true)
	}
}

// checkEnd checks one end of link i.
func (r *reader) checkEnd(t *Topology, nodes, macs map[string]int, i int, side, node, mac string) {
	n, there := nodes[node]
	if !there && node != "" {
		r.faults.Add(itemPath("links", i, side+"_node_name"), config.Invalid(node)+", which is not a node",
			"must be the name of a node")
	}
	if owner, known := macs[mac]; there && known && owner != n {
		r.faults.Add(itemPath("links", i, side+"_node_mac"), fmt.Sprintf("invalid value %s, which is node %s's",
			mac, config.Quote(t.Nodes[owner].Name)), config.MustBe("a MAC of node "+config.Quote(node)))
	}
}

func itemPath(list string, i int, more ...string) []string {
	return append([]string{list, strconv.Itoa(i)}, more...)
}
