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
	spec := r.readCommon(doc, KindPeer, &p.Name, &p.ID)
	at := []string{"spec"}
	r.checkKeys(at, spec, "interfaces", "executors", "underlays")
	for name, o := range r.readEntries(at, spec, "interfaces") {
		p.Interfaces[name] = r.readInterface(config.Below(at, "interfaces", name), o)
	}
	for name, o := range r.readEntries(at, spec, "executors") {
		p.Executors[name] = r.readExecutor(config.Below(at, "executors", name), o)
	}
	for name, o := range r.readEntries(at, spec, "underlays") {
		p.Underlays[name] = r.readUnderlay(config.Below(at, "underlays", name), o)
	}
	links := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(p.Interfaces)) {
		link := p.Interfaces[name].IfName
		if other, twice := links[link]; twice && link != "" {
			r.faults.Add(config.Below(at, "interfaces", name, "ifName"),
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
	spec := r.readCommon(doc, KindCluster, &c.Name, &c.ID)
	if c.ID == uuid.Nil && c.Name != "" {
		c.ID = uuid.NewSHA1(uuid.NameSpaceOID, []byte("edgespan cluster "+c.Name))
	}
	at := []string{"spec"}
	r.checkKeys(at, r.removeTunnels(at, spec), "leader", "topology", "encryption", "members")
	c.Leader = r.readText(at, spec, "leader", true)
	if t := r.readText(at, spec, "topology", false); t != "" {
		c.Topology = Topology(t)
	}
	if c.Topology != Star && c.Topology != Mesh {
		r.faults.Add(config.Below(at, "topology"), config.Invalid(string(c.Topology)), "must be star or mesh")
	}
	switch e := r.readText(at, spec, "encryption", false); e {
	case EncryptionNone, "none":
	case EncryptionWireGuard:
		c.Encryption = e
	default:
		r.faults.Add(config.Below(at, "encryption"), config.Invalid(e), "must be none or wireguard")
	}
	for name, o := range r.readEntries(at, spec, "members") {
		below := config.Below(at, "members", name)
		r.checkKeys(below, r.removeTunnels(below, o), "interfaces", "underlay")
		m := MemberDescriptor{Underlay: r.readText(below, o, "underlay", true)}
		for word := range strings.SplitSeq(r.readText(below, o, "interfaces", false), ",") {
			word = strings.TrimSpace(word)
			if word == "" {
				continue
			}
			if slices.Contains(m.Interfaces, word) {
				r.faults.Add(config.Below(below, "interfaces"), "duplicate interface "+config.Quote(word), "must be unique")
				continue
			}
			m.Interfaces = append(m.Interfaces, word)
		}
		slices.Sort(m.Interfaces)
		c.Members[name] = m
	}
	if n := len(c.Members); n < 2 {
		r.faults.Add(config.Below(at, "members"), fmt.Sprintf("invalid number of members %d", n),
			fmt.Sprintf("must be 2 to %d", MaxMembers))
	} else if n > MaxMembers || c.Topology == Mesh && n > MaxInMesh {
		r.faults.Add(config.Below(at, "members"), fmt.Sprintf("invalid number of members %d", n),
			fmt.Sprintf("must be up to %d, %d in a mesh", MaxMembers, MaxInMesh))
	}
	if _, ok := c.Members[c.Leader]; !ok && c.Leader != "" {
		r.faults.Add(config.Below(at, "leader"), config.Invalid(c.Leader)+", which is not a member", "must be a member")
	}
	r.faults.Sort()
	return c, r.faults
}

// Limits of a cluster's size: each tunnel is a link on two nodes and a number in one document.
const (
	MaxMembers = 256
	MaxInMesh  = 32
)

// readCommon reads the common part of a descriptor and returns its spec.
func (r *reader) readCommon(doc config.Object, kind string, name *string, id *uuid.UUID) config.Object {
	r.checkKeys(nil, doc, "kind", "metadata", "spec")
	if k := r.readText(nil, doc, "kind", true); k != "" && k != kind {
		r.faults.Add([]string{"kind"}, config.Invalid(k), config.MustBe(kind))
	}
	at := []string{"metadata"}
	meta := r.readObject(nil, doc, "metadata", true)
	r.checkKeys(at, meta, "name", "id")
	if *name = r.readText(at, meta, "name", meta != nil); *name != "" {
		r.checkName(config.Below(at, "name"), *name)
	}
	if text := r.readText(at, meta, "id", false); text != "" {
		parsed, err := uuid.Parse(text)
		if err != nil || parsed == uuid.Nil || len(text) != len(uuid.Nil.String()) {
			r.faults.Add(config.Below(at, "id"), config.Invalid(text), "must be a UUID")
		}
		*id = parsed
	}
	return r.readObject(nil, doc, "spec", true)
}

// NameAllowed describes the valid names of peers, clusters and their parts.
const NameAllowed = "must be up to 253 octets without spaces, ',' and '/'"

// IsName reports whether a name is valid in an ID, in a list and on a command line.
func IsName(s string) bool {
	return s != "" && len(s) <= 253 &&
		!strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == ',' || c == '/' || c == 0x7f })
}

func (r *reader) checkName(at []string, s string) {
	if !IsName(s) {
		r.faults.Add(at, config.Invalid(s), NameAllowed)
	}
}

func (r *reader) readInterface(at []string, o config.Object) Interface {
	r.checkKeys(at, o, "ifName", "kind")
	i := Interface{IfName: r.readText(at, o, "ifName", true), Kind: InterfaceEthernet}
	if k := r.readText(at, o, "kind", false); k != "" && k != InterfaceEthernet {
		r.faults.Add(config.Below(at, "kind"), config.Invalid(k), config.MustBe(InterfaceEthernet))
	}
	if _, err := netinst.ParseIfName(i.IfName); err != nil && i.IfName != "" {
		what, allowed, _ := strings.Cut(err.Error(), ": ")
		r.faults.Add(config.Below(at, "ifName"), what, allowed)
	}
	return i
}

func (r *reader) readUnderlay(at []string, o config.Object) Underlay {
	r.checkKeys(at, r.removeTunnels(at, o), "port", "address", "network")
	u := Underlay{Port: r.readText(at, o, "port", false)}
	text, network := r.readText(at, o, "address", false), r.readText(at, o, "network", false)
	named := slices.DeleteFunc([]string{u.Port, text, network}, func(s string) bool { return s == "" })
	if n := len(named); n != 1 {
		r.faults.Add(at, fmt.Sprintf("%d of port, address and network", n), "must be one of port, address and network")
	}
	if network != "" {
		id, err := uuid.Parse(network)
		if err != nil || id == uuid.Nil || len(network) != len(uuid.Nil.String()) {
			r.faults.Add(config.Below(at, "network"), config.Invalid(network), "must be the UUID of a network of type vpn")
		}
		u.Network = id
	}
	if text != "" {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || !a.IsGlobalUnicast() {
			r.faults.Add(config.Below(at, "address"), config.Invalid(text), "must be a unicast address of IPv4 or IPv6")
		}
		u.Address = a.Unmap()
	}
	return u
}

// removeTunnels removes and reports the fields that name a type of tunnel: VXLAN is the only type (ADR 0020), and a
// field would promise a choice.
func (r *reader) removeTunnels(at []string, o config.Object) config.Object {
	out := maps.Clone(o)
	for _, k := range []string{"type", "tunnel", "tunnelType", "tunnels", "encapsulation"} {
		if v, has := o[k]; has {
			delete(out, k)
			r.faults.Add(config.Below(at, k), config.InvalidValue(config.Shorten(config.OneLine(v))),
				"no type of tunnel is to be named, all are "+TunnelVXLAN)
		}
	}
	return out
}

func (r *reader) readExecutor(at []string, o config.Object) Executor {
	r.checkKeys(at, o, "unit", "command", "env", "dir", "restart")
	x := Executor{
		Unit: r.readText(at, o, "unit", false), Command: r.readStrings(at, o, "command"), Env: r.readEnv(at, o),
		Dir: r.readText(at, o, "dir", false), Restart: r.readText(at, o, "restart", false),
	}
	if (x.Unit == "") == (len(x.Command) == 0) {
		r.faults.Add(at, "unit and command, or neither", "must be either unit or command")
	}
	if x.Unit != "" && !isUnit(x.Unit) {
		r.faults.Add(config.Below(at, "unit"), config.Invalid(x.Unit),
			"must be the name of a unit, such as collector.service")
	}
	if x.Unit != "" && (len(x.Env) > 0 || x.Dir != "" || x.Restart != "") {
		r.faults.Add(at, "env, dir or restart with a unit", "only a command has them")
	}
	if len(x.Command) > 0 && (!path.IsAbs(x.Command[0]) || path.Clean(x.Command[0]) != x.Command[0]) {
		r.faults.Add(config.Below(at, "command"), "begins with "+config.Quote(x.Command[0]),
			"must be the absolute path of a program")
	}
	if x.Dir != "" && !path.IsAbs(x.Dir) {
		r.faults.Add(config.Below(at, "dir"), config.Invalid(x.Dir), "must be an absolute path")
	}
	if x.Restart != "" && x.Restart != RestartAlways && x.Restart != RestartNever {
		r.faults.Add(config.Below(at, "restart"), config.Invalid(x.Restart), config.MustBe(RestartAlways+" or "+RestartNever))
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

// readStrings reads a list of strings; a single string is a list of one.
func (r *reader) readStrings(at []string, o config.Object, key string) []string {
	v, has := o[key]
	if !has {
		return nil
	}
	list, ok := v.([]any)
	if s, lone := v.(string); lone {
		list, ok = []any{s}, true
	}
	var out []string
	for _, e := range list {
		s, text := e.(string)
		ok = ok && text && !strings.ContainsRune(s, 0)
		out = append(out, s)
	}
	if !ok || len(out) == 0 || out[0] == "" {
		r.faults.Add(config.Below(at, key), config.InvalidValue(config.Shorten(config.OneLine(v))),
			"must be a program and its arguments, as strings")
		return nil
	}
	return out
}

func (r *reader) readEnv(at []string, o config.Object) map[string]string {
	env := r.readObject(at, o, "env", false)
	out := make(map[string]string, len(env))
	for _, k := range config.Keys(env) {
		v, ok := env[k].(string)
		if !ok || k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			r.faults.Add(config.Below(at, "env", k), "invalid variable", "must be a name without '=' with a string")
		}
		out[k] = v
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// checkKeys reports keys that are not among the given ones.
func (r *reader) checkKeys(at []string, o config.Object, keys ...string) {
	for _, k := range config.Keys(o) {
		if !slices.Contains(keys, k) {
			r.faults.Add(config.Below(at, k), config.UnknownField, config.OneOf(keys))
		}
	}
}

func (r *reader) readObject(at []string, o config.Object, key string, required bool) config.Object {
	v, has := o[key]
	below, ok := v.(config.Object)
	switch {
	case !has && required:
		r.faults.Add(config.Below(at, key), config.Required, "must be a mapping")
	case has && !ok:
		r.faults.Add(config.Below(at, key), config.InvalidType(config.KindOf(v)), "must be a mapping")
	}
	return below
}

// readEntries returns the mappings below a key of spec, by name.
func (r *reader) readEntries(at []string, o config.Object, key string) map[string]config.Object {
	all := r.readObject(at, o, key, false)
	out := map[string]config.Object{}
	for _, name := range config.Keys(all) {
		r.checkName(config.Below(at, key, name), name)
		if below := r.readObject(config.Below(at, key), all, name, true); below != nil {
			out[name] = below
		}
	}
	return out
}

func (r *reader) readText(at []string, o config.Object, key string, required bool) string {
	v, has := o[key]
	s, ok := v.(string)
	switch {
	case !has && required:
		r.faults.Add(config.Below(at, key), config.Required, "must be a string")
	case has && !ok:
		r.faults.Add(config.Below(at, key), config.InvalidType(config.KindOf(v)), "must be a string")
	case has && s == "" && required:
		r.faults.Add(config.Below(at, key), config.Invalid(""), "must be a string")
	}
	return s
}
