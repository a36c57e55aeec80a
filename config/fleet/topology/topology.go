package topology

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"edgespan/config"
)

// NodeType is the role of a node.
type NodeType int

// A client node is an end point; a distribution node forwards traffic. The default in a file is DN.
const (
	CN NodeType = 1
	DN NodeType = 2
)

// Status says whether a node is reachable. The default in a file is Online.
type Status int

// OnlineInitiator is a node that is online and may ignite links.
const (
	Offline         Status = 1
	Online          Status = 2
	OnlineInitiator Status = 3
)

// LinkType is the medium of a link. The default in a file is Wireless.
type LinkType int

const (
	Wireless LinkType = 1
	Ethernet LinkType = 2
)

// Topology is one network. It is immutable once shared.
type Topology struct {
	Name  string
	Nodes []Node // in the order of the file
	Links []Link
	Sites []Site

	raw config.Object // as it was read; nil for a generated one
}

// Node is one device on a site. MACs are lower case with colons; "" is an unknown one.
type Node struct {
	Name         string
	Type         NodeType
	MAC          string
	WlanMACs     []string // of its radios
	Pop          bool     // a point of presence: it connects the network to others
	Status       Status
	Site         string
	Polarity     int // 1 odd, 2 even, 3 and 4 hybrid, 0 missing: from old files
	AntAzimuth   float64
	AntElevation float64 // degrees

	raw config.Object
}

// Link joins two nodes, A and Z, at one MAC of each.
type Link struct {
	Name       string
	A, Z       string // names of nodes
	AMAC, ZMAC string // "" if unknown
	Type       LinkType
	Alive      bool // the default in a file is true
	BackupCN   bool // a backup link for a client node

	raw config.Object
}

// Site is a location of nodes.
type Site struct {
	Name                          string
	Latitude, Longitude, Altitude float64 // degrees, degrees, metres
	Located                       bool    // the file has its position

	implied bool // named by a node, in a file without sites
	raw     config.Object
}

// LinkName returns the original's name for a link between two nodes.
func LinkName(a, z string) string { return "link-" + min(a, z) + "-" + max(a, z) }

// Node finds a node by its name.
func (t *Topology) Node(name string) (Node, bool) {
	return find(t.Nodes, func(n Node) bool { return n.Name == name })
}

// Link finds a link by its name.
func (t *Topology) Link(name string) (Link, bool) {
	return find(t.Links, func(l Link) bool { return l.Name == name })
}

// Site finds a site by its name.
func (t *Topology) Site(name string) (Site, bool) {
	return find(t.Sites, func(s Site) bool { return s.Name == name })
}

func find[T any](all []T, match func(T) bool) (T, bool) {
	if i := slices.IndexFunc(all, match); i >= 0 {
		return all[i], true
	}
	var none T
	return none, false
}

// Document returns the topology in the form of a file. It keeps what was read and not changed, including unknown
// fields.
func (t *Topology) Document() config.Object {
	o := maps.Clone(t.raw)
	if o == nil {
		o = config.Object{}
	}
	old, _ := o["name"].(string)
	put(o, t.raw == nil || t.Name != old, "name", t.Name)
	lists := map[string][]any{}
	for _, n := range t.Nodes {
		lists["nodes"] = append(lists["nodes"], n.document())
	}
	for _, l := range t.Links {
		lists["links"] = append(lists["links"], l.document())
	}
	for _, s := range t.Sites {
		lists["sites"] = append(lists["sites"], s.document())
	}
	if !slices.ContainsFunc(t.Sites, func(s Site) bool { return !s.implied }) {
		lists["sites"] = nil
	}
	for _, key := range []string{"nodes", "links", "sites"} {
		_, had := t.raw[key]
		switch list := lists[key]; {
		case list != nil:
			o[key] = list
		case had || t.raw == nil:
			o[key] = []any{}
		}
	}
	return o
}

func (n Node) document() config.Object {
	o, old := base(n.raw), (&reader{}).readNode(nil, n.raw)
	made := n.raw == nil
	put(o, made || n.Name != old.Name, "name", n.Name)
	put(o, made || n.Type != old.Type, "node_type", int64(n.Type))
	put(o, made || n.MAC != old.MAC, "mac_addr", n.MAC)
	put(o, made || !slices.Equal(n.WlanMACs, old.WlanMACs), "wlan_mac_addrs", list(n.WlanMACs))
	put(o, made || n.Pop != old.Pop, "pop_node", n.Pop)
	put(o, n.Status != old.Status, "status", int64(n.Status))
	put(o, made || n.Site != old.Site, "site_name", n.Site)
	put(o, n.Polarity != old.Polarity, "polarity", int64(n.Polarity))
	put(o, n.AntAzimuth != old.AntAzimuth, "ant_azimuth", n.AntAzimuth)
	put(o, n.AntElevation != old.AntElevation, "ant_elevation", n.AntElevation)
	return o
}

func (l Link) document() config.Object {
	o, old := base(l.raw), (&reader{}).readLink(nil, l.raw)
	made := l.raw == nil
	put(o, made || l.Name != old.Name, "name", l.Name)
	put(o, made || l.A != old.A, "a_node_name", l.A)
	put(o, made || l.Z != old.Z, "z_node_name", l.Z)
	put(o, made || l.AMAC != old.AMAC, "a_node_mac", l.AMAC)
	put(o, made || l.ZMAC != old.ZMAC, "z_node_mac", l.ZMAC)
	put(o, made || l.Type != old.Type, "link_type", int64(l.Type))
	put(o, made || l.Alive != old.Alive, "is_alive", l.Alive)
	put(o, l.BackupCN != old.BackupCN, "is_backup_cn_link", l.BackupCN)
	return o
}

func (s Site) document() config.Object {
	o, old := base(s.raw), (&reader{}).readSite(nil, s.raw)
	put(o, s.raw == nil || s.Name != old.Name, "name", s.Name)
	if s.Latitude == old.Latitude && s.Longitude == old.Longitude && s.Altitude == old.Altitude &&
		s.Located == old.Located {
		return o
	}
	if !s.Located {
		delete(o, "location")
		return o
	}
	was, _ := o["location"].(config.Object)
	at := base(was)
	put(at, !old.Located || s.Latitude != old.Latitude, "latitude", s.Latitude)
	put(at, !old.Located || s.Longitude != old.Longitude, "longitude", s.Longitude)
	put(at, !old.Located || s.Altitude != old.Altitude, "altitude", s.Altitude)
	o["location"] = at
	return o
}

func base(raw config.Object) config.Object {
	if raw == nil {
		return config.Object{}
	}
	return maps.Clone(raw)
}

func put(o config.Object, changed bool, key string, v any) {
	if changed {
		o[key] = v
	}
}

func list(all []string) []any {
	out := make([]any, len(all))
	for i, s := range all {
		out[i] = s
	}
	return out
}

// ParseMAC normalizes a MAC to the form of the keys in layers: lower case, with colons.
func ParseMAC(s string) (string, error) {
	mac := []byte(strings.ToLower(s))
	bad := len(mac) != 17
	for i, c := range mac {
		if i%3 == 2 {
			bad = bad || c != s[2] || c != ':' && c != '-'
			mac[i] = ':'
		} else {
			bad = bad || !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f')
		}
	}
	if bad {
		return "", errors.New(config.Invalid(s))
	}
	return string(mac), nil
}
