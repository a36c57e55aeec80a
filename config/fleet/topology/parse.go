package topology

import (
	"fmt"
	"slices"
	"strconv"

	"edgespan/config"
)

// Parse parses a topology file and reports all faults with their paths: unreadable values, duplicate names and MACs,
// references to missing objects. With faults it returns no topology.
//
// Without a list of sites, the sites are those that nodes name. {} is an empty topology; a document that has none of a
// topology's keys is a fault, so that another file is not taken for an empty topology.
func Parse(text []byte) (*Topology, config.Faults) {
	o, faults := config.ParseObject(text)
	if faults != nil {
		return nil, faults
	}
	return FromDocument(o)
}

var topologyKeys = []string{"name", "nodes", "links", "sites"}

// FromDocument is Parse for a parsed document.
func FromDocument(o config.Object) (*Topology, config.Faults) {
	r := &reader{}
	if len(o) > 0 && !slices.ContainsFunc(topologyKeys, func(key string) bool { _, has := o[key]; return has }) {
		r.faults.Add(nil, "the document is not a topology", "must have name, nodes, links and sites")
	}
	t := &Topology{raw: o, Name: r.readString(nil, o, "name", false)}
	for path, entry := range r.listEntries(o, "nodes") {
		t.Nodes = append(t.Nodes, r.readNode(path, entry))
	}
	for path, entry := range r.listEntries(o, "links") {
		t.Links = append(t.Links, r.readLink(path, entry))
	}
	for path, entry := range r.listEntries(o, "sites") {
		t.Sites = append(t.Sites, r.readSite(path, entry))
	}
	if _, listed := o["sites"]; !listed {
		t.Sites = namedSites(t.Nodes)
	}
	r.check(t)
	if len(r.faults) > 0 {
		r.faults.Sort()
		return nil, r.faults
	}
	return t, nil
}

type reader struct{ faults config.Faults }

func (r *reader) readNode(path []string, o config.Object) Node {
	n := Node{
		raw:  o,
		Name: r.readString(path, o, "name", true),
		Type: NodeType(r.readEnum(path, o, "node_type", int(DN), "must be 1 (CN) or 2 (DN)", 1, 2)),
		MAC:  r.readMAC(path, o, "mac_addr"),
		Pop:  r.readBool(path, o, "pop_node", false),
		Status: Status(r.readEnum(path, o, "status", int(Online),
			"must be 1 (OFFLINE), 2 (ONLINE) or 3 (ONLINE_INITIATOR)", 1, 2, 3)),
		Site: r.readString(path, o, "site_name", true),
		Polarity: r.readEnum(path, o, "polarity", 0, "must be 1 (odd), 2 (even), 3 (hybrid odd) or 4 (hybrid even)", 1, 2, 3,
			4),

		AntAzimuth:   r.readFloat(path, o, "ant_azimuth"),
		AntElevation: r.readFloat(path, o, "ant_elevation"),
	}
	macs, ok := o["wlan_mac_addrs"].([]any)
	if _, given := o["wlan_mac_addrs"]; given && !ok {
		r.addFault(path, o, "wlan_mac_addrs", "must be an array of MACs")
	}
	for i := range macs {
		key, below := strconv.Itoa(i), config.Below(path, "wlan_mac_addrs")
		if macs[i] == "" {
			r.faults.Add(config.Below(below, key), config.Invalid(""), allowedMAC)
		}
		n.WlanMACs = append(n.WlanMACs, r.readMAC(below, config.Object{key: macs[i]}, key))
	}
	return n
}

func (r *reader) readLink(path []string, o config.Object) Link {
	l := Link{
		raw:      o,
		Name:     r.readString(path, o, "name", false),
		A:        r.readString(path, o, "a_node_name", true),
		Z:        r.readString(path, o, "z_node_name", true),
		AMAC:     r.readMAC(path, o, "a_node_mac"),
		ZMAC:     r.readMAC(path, o, "z_node_mac"),
		Type:     LinkType(r.readEnum(path, o, "link_type", int(Wireless), "must be 1 (wireless) or 2 (ethernet)", 1, 2)),
		Alive:    r.readBool(path, o, "is_alive", true),
		BackupCN: r.readBool(path, o, "is_backup_cn_link", false),
	}
	if l.Name == "" {
		l.Name = LinkName(l.A, l.Z)
	}
	return l
}

func (r *reader) readSite(path []string, o config.Object) Site {
	s := Site{raw: o, Name: r.readString(path, o, "name", true)}
	v, given := o["location"]
	if !given {
		return s
	}
	at, ok := v.(config.Object)
	if !ok {
		r.addFault(path, o, "location", "must be an object with latitude, longitude and altitude")
		return s
	}
	path = config.Below(path, "location")
	s.Located = true
	s.Latitude = r.readBounded(path, at, "latitude", 90)
	s.Longitude = r.readBounded(path, at, "longitude", 180)
	s.Altitude = r.readFloat(path, at, "altitude")
	return s
}

// listEntries yields the objects of a list with their paths.
func (r *reader) listEntries(o config.Object, key string) func(func([]string, config.Object) bool) {
	return func(yield func([]string, config.Object) bool) {
		v, given := o[key]
		if !given {
			return
		}
		all, ok := v.([]any)
		if !ok {
			r.addFault(nil, o, key, "must be an array of objects")
			return
		}
		for i, v := range all {
			path := []string{key, strconv.Itoa(i)}
			entry, ok := v.(config.Object)
			if !ok {
				r.faults.Add(path, config.InvalidType(config.KindOf(v)), "must be an object")
				continue
			}
			if !yield(path, entry) {
				return
			}
		}
	}
}

func (r *reader) addFault(path []string, o config.Object, key, allowed string) {
	r.faults.Add(config.Below(path, key), config.InvalidType(config.KindOf(o[key])), allowed)
}

func (r *reader) readString(path []string, o config.Object, key string, required bool) string {
	v, given := o[key]
	s, ok := v.(string)
	switch {
	case !given && required:
		r.faults.Add(config.Below(path, key), config.Required, "must be a string")
	case given && !ok:
		r.addFault(path, o, key, "must be a string")
	case given && required && s == "":
		r.faults.Add(config.Below(path, key), config.Invalid(""), "must be a name")
	}
	return s
}

func (r *reader) readBool(path []string, o config.Object, key string, absent bool) bool {
	v, given := o[key]
	if !given {
		return absent
	}
	b, ok := v.(bool)
	if !ok {
		r.addFault(path, o, key, "must be true or false")
	}
	return b
}

// readEnum reads a number that must be one of values.
func (r *reader) readEnum(path []string, o config.Object, key string, absent int, allowed string, values ...int) int {
	v, given := o[key]
	if !given {
		return absent
	}
	i, ok := v.(int64)
	switch {
	case !ok:
		r.addFault(path, o, key, allowed)
	case !slices.Contains(values, int(i)):
		r.faults.Add(config.Below(path, key), fmt.Sprintf("invalid value %d", i), allowed)
	}
	return int(i)
}

func (r *reader) readFloat(path []string, o config.Object, key string) float64 {
	switch v := o[key].(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	if _, given := o[key]; given {
		r.addFault(path, o, key, "must be a number")
	}
	return 0
}

func (r *reader) readBounded(path []string, o config.Object, key string, limit float64) float64 {
	f := r.readFloat(path, o, key)
	if f < -limit || f > limit {
		r.faults.Add(config.Below(path, key), fmt.Sprintf("invalid value %g", f),
			fmt.Sprintf("must be -%g to %g", limit, limit))
	}
	return f
}

const allowedMAC = "must be six pairs of hex digits joined by ':' or '-'"

func (r *reader) readMAC(path []string, o config.Object, key string) string {
	s := r.readString(path, o, key, false)
	if s == "" {
		return ""
	}
	mac, err := ParseMAC(s)
	if err != nil {
		r.faults.Add(config.Below(path, key), err.Error(), allowedMAC)
	}
	return mac
}
