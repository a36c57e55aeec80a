package peer

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// reader reads one document and collects its faults.
type reader struct{ faults config.Faults }

// ParsePeer parses a PeerDescriptor.
func ParsePeer(doc config.Object) (Peer, config.Faults) {
	var r reader
	p := Peer{Interfaces: map[string]Interface{}, Executors: map[string]Executor{}, Underlays: map[string]Underlay{}}
	spec := r.frame(doc, KindPeer, &p.Name, &p.ID)
	at := []string{"spec"}
	r.known(at, spec, "interfaces", "executors", "underlays")
	for name, o := range r.entries(at, spec, "interfaces") {
		p.Interfaces[name] = r.iface(config.Sub(at, "interfaces", name), o)
	}
	for name, o := range r.entries(at, spec, "executors") {
		p.Executors[name] = r.executor(config.Sub(at, "executors", name), o)
	}
	for name, o := range r.entries(at, spec, "underlays") {
		p.Underlays[name] = r.underlay(config.Sub(at, "underlays", name), o)
	}
	links := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(p.Interfaces)) {
		link := p.Interfaces[name].IfName
		if other, twice := links[link]; twice && link != "" {
			r.faults.Add(config.Sub(at, "interfaces", name, "ifName"),
				fmt.Sprintf("duplicate value %s, also of %s", config.Quote(link), other), "must be unique")
		}
		links[link] = name
	}
	r.faults.Sort()
	return p, r.faults
}

// ParseCluster parses a ClusterDescriptor.
func ParseCluster(doc config.Object) (Cluster, config.Faults) {
	var r reader
	c := Cluster{Topology: Star, Members: map[string]MemberDescriptor{}}
	spec := r.frame(doc, KindCluster, &c.Name, &c.ID)
	if c.ID == uuid.Nil && c.Name != "" {
		c.ID = uuid.NewSHA1(uuid.NameSpaceOID, []byte("edgespan cluster "+c.Name))
	}
	at := []string{"spec"}
	r.known(at, r.withoutTunnels(at, spec), "leader", "topology", "members")
	c.Leader = r.text(at, spec, "leader", true)
	if t := r.text(at, spec, "topology", false); t != "" {
		c.Topology = Topology(t)
	}
	if c.Topology != Star && c.Topology != Mesh {
		r.faults.Add(config.Sub(at, "topology"), config.Invalid(string(c.Topology)), "must be star or mesh")
	}
	for name, o := range r.entries(at, spec, "members") {
		below := config.Sub(at, "members", name)
		r.known(below, r.withoutTunnels(below, o), "interfaces", "underlay")
		m := MemberDescriptor{Underlay: r.text(below, o, "underlay", true)}
		for word := range strings.SplitSeq(r.text(below, o, "interfaces", false), ",") {
			word = strings.TrimSpace(word)
			if word == "" {
				continue
			}
			if slices.Contains(m.Interfaces, word) {
				r.faults.Add(config.Sub(below, "interfaces"), "duplicate interface "+config.Quote(word), "must be unique")
				continue
			}
			m.Interfaces = append(m.Interfaces, word)
		}
		slices.Sort(m.Interfaces)
		c.Members[name] = m
	}
	if n := len(c.Members); n < 2 {
		r.faults.Add(config.Sub(at, "members"), fmt.Sprintf("invalid number of members %d", n),
			fmt.Sprintf("must be 2 to %d", MaxMembers))
	} else if n > MaxMembers || c.Topology == Mesh && n > MaxInMesh {
		r.faults.Add(config.Sub(at, "members"), fmt.Sprintf("invalid number of members %d", n),
			fmt.Sprintf("must be up to %d, %d in a mesh", MaxMembers, MaxInMesh))
	}
	if _, is := c.Members[c.Leader]; !is && c.Leader != "" {
		r.faults.Add(config.Sub(at, "leader"), config.Invalid(c.Leader)+", which is not a member", "must be a member")
	}
	r.faults.Sort()
	return c, r.faults
}

// Limits of a cluster's size: each tunnel is a link on two nodes and a number in one document.
const (
	MaxMembers = 256
	MaxInMesh  = 32
)

// frame reads the common part of a descriptor and returns its spec.
func (r *reader) frame(doc config.Object, kind string, name *string, id *uuid.UUID) config.Object {
	r.known(nil, doc, "kind", "metadata", "spec")
	if k := r.text(nil, doc, "kind", true); k != "" && k != kind {
		r.faults.Add([]string{"kind"}, config.Invalid(k), config.MustBe(kind))
	}
	at := []string{"metadata"}
	meta := r.object(nil, doc, "metadata", true)
	r.known(at, meta, "name", "id")
	if *name = r.text(at, meta, "name", meta != nil); *name != "" {
		r.name(config.Sub(at, "name"), *name)
	}
	if text := r.text(at, meta, "id", false); text != "" {
		parsed, err := uuid.Parse(text)
		if err != nil || parsed == uuid.Nil || len(text) != len(uuid.Nil.String()) {
			r.faults.Add(config.Sub(at, "id"), config.Invalid(text), "must be a UUID")
		}
		*id = parsed
	}
	return r.object(nil, doc, "spec", true)
}

// NameAllowed describes the valid names of peers, clusters and their parts.
const NameAllowed = "must be up to 253 octets without spaces, ',' and '/'"

// IsName reports whether a name is valid in an ID, in a list and on a command line.
func IsName(s string) bool {
	return s != "" && len(s) <= 253 &&
		!strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == ',' || c == '/' || c == 0x7f })
}

func (r *reader) name(at []string, s string) {
	if !IsName(s) {
		r.faults.Add(at, config.Invalid(s), NameAllowed)
	}
}

func (r *reader) iface(at []string, o config.Object) Interface {
	r.known(at, o, "ifName", "kind")
	i := Interface{IfName: r.text(at, o, "ifName", true), Kind: InterfaceEthernet}
	if k := r.text(at, o, "kind", false); k != "" && k != InterfaceEthernet {
		r.faults.Add(config.Sub(at, "kind"), config.Invalid(k), config.MustBe(InterfaceEthernet))
	}
	if _, err := netinst.ParseIfName(i.IfName); err != nil && i.IfName != "" {
		what, allowed, _ := strings.Cut(err.Error(), ": ")
		r.faults.Add(config.Sub(at, "ifName"), what, allowed)
	}
	return i
}

func (r *reader) underlay(at []string, o config.Object) Underlay {
	known := r.withoutTunnels(at, o)
	ofVPN := false
	for _, k := range []string{"vpn", "network", "networkInstance"} {
		if _, has := known[k]; has {
			ofVPN = true
			delete(known, k)
			r.faults.Add(config.Sub(at, k), "names a network, and none can be an underlay",
				"must be port or address, also the address of a VPN that the host itself has")
		}
	}
	r.known(at, known, "port", "address")
	u := Underlay{Port: r.text(at, o, "port", false)}
	text := r.text(at, o, "address", false)
	if (u.Port == "") == (text == "") && !ofVPN {
		r.faults.Add(at, "port and address, or neither", "must be either port or address")
	}
	if text != "" {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || !a.IsGlobalUnicast() {
			r.faults.Add(config.Sub(at, "address"), config.Invalid(text), "must be a unicast address of IPv4 or IPv6")
		}
		u.Address = a.Unmap()
	}
	return u
}

// withoutTunnels removes and reports the fields that name a type of tunnel: VXLAN is the only type (ADR 0020), and a
// field would promise a choice.
func (r *reader) withoutTunnels(at []string, o config.Object) config.Object {
	out := maps.Clone(o)
	for _, k := range []string{"type", "tunnel", "tunnelType", "tunnels", "encapsulation"} {
		if v, has := o[k]; has {
			delete(out, k)
			r.faults.Add(config.Sub(at, k), config.InvalidValue(config.Shorten(config.OneLine(v))),
				"no type of tunnel is to be named, all are "+TunnelVXLAN)
		}
	}
	return out
}

func (r *reader) executor(at []string, o config.Object) Executor {
	r.known(at, o, "unit", "command", "env", "dir", "restart")
	x := Executor{
		Unit: r.text(at, o, "unit", false), Command: r.words(at, o, "command"), Env: r.env(at, o),
		Dir: r.text(at, o, "dir", false), Restart: r.text(at, o, "restart", false),
	}
	if (x.Unit == "") == (len(x.Command) == 0) {
		r.faults.Add(at, "unit and command, or neither", "must be either unit or command")
	}
	if x.Unit != "" && !isUnit(x.Unit) {
		r.faults.Add(config.Sub(at, "unit"), config.Invalid(x.Unit),
			"must be the name of a unit, such as collector.service")
	}
	if x.Unit != "" && (len(x.Env) > 0 || x.Dir != "" || x.Restart != "") {
		r.faults.Add(at, "env, dir or restart with a unit", "only a command has them")
	}
	if len(x.Command) > 0 && (!path.IsAbs(x.Command[0]) || path.Clean(x.Command[0]) != x.Command[0]) {
		r.faults.Add(config.Sub(at, "command"), "begins with "+config.Quote(x.Command[0]),
			"must be the absolute path of a program")
	}
	if x.Dir != "" && !path.IsAbs(x.Dir) {
		r.faults.Add(config.Sub(at, "dir"), config.Invalid(x.Dir), "must be an absolute path")
	}
	if x.Restart != "" && x.Restart != RestartAlways && x.Restart != RestartNever {
		r.faults.Add(config.Sub(at, "restart"), config.Invalid(x.Restart), config.MustBe(RestartAlways+" or "+RestartNever))
	}
	return x
}

// isUnit reports whether a word is the name of a systemd unit (systemd.unit(5)) that is safe as one word of a command
// line.
func isUnit(s string) bool {
	name, suffix, has := strings.Cut(s, ".")
	return has && name != "" && suffix != "" && len(s) <= 255 && s[0] != '-' &&
		!strings.ContainsFunc(s, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(":-_.\\@", c)
		})
}

// words reads a list of strings; a single string is a list of one.
func (r *reader) words(at []string, o config.Object, key string) []string {
	v, has := o[key]
	if !has {
		return nil
	}
	list, is := v.([]any)
	if s, lone := v.(string); lone {
		list, is = []any{s}, true
	}
	var out []string
	for _, e := range list {
		s, text := e.(string)
		is = is && text && !strings.ContainsRune(s, 0)
		out = append(out, s)
	}
	if !is || len(out) == 0 || out[0] == "" {
		r.faults.Add(config.Sub(at, key), config.InvalidValue(config.Shorten(config.OneLine(v))),
			"must be a program and its arguments, as strings")
		return nil
	}
	return out
}

func (r *reader) env(at []string, o config.Object) map[string]string {
	env := r.object(at, o, "env", false)
	out := make(map[string]string, len(env))
	for _, k := range config.Keys(env) {
		v, is := env[k].(string)
		if !is || k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			r.faults.Add(config.Sub(at, "env", k), "invalid variable", "must be a name without '=' with a string")
		}
		out[k] = v
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// known reports keys that are not among the given ones.
func (r *reader) known(at []string, o config.Object, keys ...string) {
	for _, k := range config.Keys(o) {
		if !slices.Contains(keys, k) {
			r.faults.Add(config.Sub(at, k), config.UnknownField, config.OneOf(keys))
		}
	}
}

func (r *reader) object(at []string, o config.Object, key string, required bool) config.Object {
	v, has := o[key]
	below, is := v.(config.Object)
	switch {
	case !has && required:
		r.faults.Add(config.Sub(at, key), config.Required, "must be a mapping")
	case has && !is:
		r.faults.Add(config.Sub(at, key), config.InvalidType(config.KindOf(v)), "must be a mapping")
	}
	return below
}

// entries returns the mappings below a key of spec, by name.
func (r *reader) entries(at []string, o config.Object, key string) map[string]config.Object {
	all := r.object(at, o, key, false)
	out := map[string]config.Object{}
	for _, name := range config.Keys(all) {
		r.name(config.Sub(at, key, name), name)
		if below := r.object(config.Sub(at, key), all, name, true); below != nil {
			out[name] = below
		}
	}
	return out
}

func (r *reader) text(at []string, o config.Object, key string, required bool) string {
	v, has := o[key]
	s, is := v.(string)
	switch {
	case !has && required:
		r.faults.Add(config.Sub(at, key), config.Required, "must be a string")
	case has && !is:
		r.faults.Add(config.Sub(at, key), config.InvalidType(config.KindOf(v)), "must be a string")
	case has && s == "" && required:
		r.faults.Add(config.Sub(at, key), config.Invalid(""), "must be a string")
	}
	return s
}
