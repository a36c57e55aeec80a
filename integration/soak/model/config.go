// Package model draws what a soak does to its nodes, from a seed, and knows what may reach what under each
// configuration. It is pure, and shares no code with the product: it is what the product is judged by.
package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Rules is one of the sets of access rules that apps have.
type Rules string

// The sets of access rules. What none of them names does not pass.
const (
	Open   Rules = "open"   // all may come, and all may go
	Server Rules = "server" // UDP to Served may come, all may go
	Narrow Rules = "narrow" // only UDP to Served of the server outside may go
	Closed Rules = "closed" // no rule
)

// The UDP ports of beacons: each app sends to both of every other one.
const (
	Served = 7001
	Other  = 7002
)

// Beacons are the ports of beacons.
var Beacons = []int{Served, Other}

// Addresses outside of the nodes.
const (
	ServerAddr     = "198.51.100.80" // answers beacons
	DNSAddr        = "198.51.100.53"
	ControllerAddr = "198.51.100.20"
)

// TapApp is the number of the app whose link is a tap device with a client of its own behind it.
const TapApp = 5

// VPN is the number of the network that is joined to that of the other nodes by WireGuard tunnels.
const VPN = 4

// ClusterApp is the number of the app behind the link that clusters may use: no node's configuration names it, and its
// address is fixed.
const ClusterApp = 6

// ClusterLink is the host's end of that link.
const ClusterLink = "soakyard"

// Network is a network of a node.
type Network struct {
	Port string // the label of its port, or "" for none
	MTU  int
	// Layered says that the node's overrides leave the port to those of all nodes. Port is what these say.
	Layered bool
}

// App is an app of a node, with one adapter.
type App struct {
	Network int
	Rules   Rules
	Active  bool
}

// Node is the configuration of one node.
type Node struct {
	Networks map[int]Network
	Apps     map[int]App
	Joined   bool // it is a member of the cluster, which is deployed
	Plain    bool // without encryption
}

// Clone returns a configuration that shares nothing with n.
func (n Node) Clone() Node {
	return Node{Networks: maps.Clone(n.Networks), Apps: maps.Clone(n.Apps), Joined: n.Joined, Plain: n.Plain}
}

// Fleet are the configurations of all nodes, from node 1.
type Fleet []Node

// Clone returns configurations that share nothing with f.
func (f Fleet) Clone() Fleet {
	out := slices.Clone(f)
	for i := range out {
		out[i] = out[i].Clone()
	}
	return out
}

// Alone returns configurations in which one node has all but its tunnels, which no older release knows, and what only a
// controller gives it. The others have nothing.
func (f Fleet) Alone(node int) Fleet {
	out := make(Fleet, len(f))
	n := f.Node(node).Clone()
	delete(n.Networks, VPN)
	for number, w := range n.Networks {
		w.Layered = false
		n.Networks[number] = w
	}
	n.Joined = false
	maps.DeleteFunc(n.Apps, func(_ int, a App) bool { return a.Network == VPN })
	out[node-1] = n
	return out
}

// Node returns the configuration of a node.
func (f Fleet) Node(n int) Node { return f[n-1] }

// An Endpoint is an app of a node, or the server outside, whose Node is 0.
type Endpoint struct{ Node, App int }

// Outside is the server outside.
var Outside = Endpoint{}

// String is the form of beacons.
func (e Endpoint) String() string { return fmt.Sprintf("%d.%d", e.Node, e.App) }

// ParseEndpoint reads the form of beacons.
func ParseEndpoint(text string) (Endpoint, error) {
	var e Endpoint
	if _, err := fmt.Sscanf(text, "%d.%d", &e.Node, &e.App); err != nil || e.String() != text {
		return Endpoint{}, fmt.Errorf("endpoint %q: must be NODE.APP", text)
	}
	return e, nil
}

func (f Fleet) app(e Endpoint) (App, bool) {
	if e.Node < 1 || e.Node > len(f) {
		return App{}, false
	}
	a, ok := f.Node(e.Node).Apps[e.App]
	if !ok || !a.Active {
		return App{}, false
	}
	_, ok = f.Node(e.Node).Networks[a.Network]
	return a, ok
}

// inCluster tells whether an endpoint is the app behind a member's link in the cluster.
func (f Fleet) inCluster(e Endpoint) bool {
	return e.App == ClusterApp && e.Node >= 1 && e.Node <= len(f) && f.Node(e.Node).Joined
}

// MayReach tells whether a beacon of one endpoint to a port of another may arrive.
func (f Fleet) MayReach(from, to Endpoint, port int) bool {
	if from.App == ClusterApp || to.App == ClusterApp {
		return from != to && f.inCluster(from) && f.inCluster(to)
	}
	a, ok := f.app(from)
	if !ok || from == to {
		return false
	}
	out := a.Rules == Open || a.Rules == Server
	if to == Outside {
		leads := f.Node(from.Node).Networks[a.Network].Port != "" && a.Network != VPN
		return leads && (out || a.Rules == Narrow && port == Served)
	}
	b, ok := f.app(to)
	in := b.Rules == Open || b.Rules == Server && port == Served
	connected := a.Network == b.Network && (from.Node == to.Node || a.Network == VPN)
	return ok && out && in && connected
}

// MayLeave tells whether a beacon of an app to a port of an address may leave its node by an uplink.
func (f Fleet) MayLeave(from Endpoint, to string, port int) bool {
	a, _ := f.app(from)
	return f.MayReach(from, Outside, port) && (to == ServerAddr || a.Rules != Narrow)
}

// Uplink returns the address of a node's uplink: on segment 0, which another program of the node sets, and on segment
// 1, which the node gets by DHCP.
func Uplink(node, segment int) string {
	return fmt.Sprintf("%s.%d", Segments[segment], 10+node)
}

// Segments are the first three octets of both providers' subnets. Their gateways are .1.
var Segments = []string{"192.0.2", "203.0.113"}

// Subnet returns the prefix of a node's network.
func Subnet(node, network int) string { return fmt.Sprintf("10.%d.0.0/24", 10*node+network) }

// Namespace is the network namespace of an app.
func Namespace(app int) string { return fmt.Sprintf("app%d", app) }

// TapName is the tap device of an app.
func TapName(app int) string { return fmt.Sprintf("soaktap%d", app) }

// MAC returns the address of an app's adapter.
func MAC(node, app int) string { return fmt.Sprintf("02:50:00:00:%02x:%02x", node, app) }

// NetworkID returns the UUID of a network.
func NetworkID(network int) string { return fmt.Sprintf("10000000-0000-4000-8000-%012d", network) }

// AppID returns the UUID of an app.
func AppID(app int) string { return fmt.Sprintf("a0000000-0000-4000-8000-%012d", app) }

// ClusterAddr is the address of the app behind a node's link for clusters.
func ClusterAddr(node int) string { return fmt.Sprintf("172.20.0.%d", node) }

type object = map[string]any

// Keys are the WireGuard keys of the nodes, in base64: of node 1 first.
type Keys struct{ Private, Public []string }

// Document returns the configuration of a node as its overrides at the controller.
func (f Fleet) Document(node int, keys Keys) []byte {
	n := f.Node(node)
	networks, apps := object{}, object{}
	for number, w := range n.Networks {
		o := object{"displayName": fmt.Sprintf("net%d", number), "type": "local",
			"ipv4": object{"subnet": Subnet(node, number)}, "dns": object{"domain": fmt.Sprintf("n%d.soak", number)}}
		if !w.Layered {
			o["port"] = w.Port
		}
		if w.MTU != 0 {
			o["mtu"] = w.MTU
		}
		if number == VPN {
			o["type"], o["vpn"] = "vpn", f.tunnel(node, keys)
			o["port"] = "uplink"
		}
		networks[NetworkID(number)] = o
	}
	for number, a := range n.Apps {
		attach := object{"kind": "veth", "netns": Namespace(number)}
		if number == TapApp {
			attach = object{"kind": "tap", "hostIfName": TapName(number)}
		}
		apps[AppID(number)] = object{"displayName": fmt.Sprintf("app%d", number), "activate": a.Active,
			"adapters": object{"0": object{"networkInstance": NetworkID(a.Network), "attach": attach,
				"mac": MAC(node, number), "acl": rules[a.Rules]}}}
	}
	return text(object{
		"ports": object{
			"wan": object{"ifName": "eth0", "uplink": true, "dnsServers": DNSAddr},
			"lte": object{"ifName": "eth1", "uplink": true, "cost": 10, "addressing": "dhcp", "dnsServers": DNSAddr},
		},
		"networkInstances": networks, "appNetworks": apps,
	})
}

// LayerDocument returns the overrides of all nodes: the port of network 1, for the nodes that leave it to them.
func LayerDocument(port string) []byte {
	return text(object{"networkInstances": object{NetworkID(1): object{"port": port}}})
}

// ClusterName is the name of the fleet's one cluster, of all nodes.
const ClusterName = "yard"

// ClusterDocuments returns the descriptors of all nodes and of the cluster, by documents of JSON that follow one
// another.
func ClusterDocuments(nodes int, c Cluster) []byte {
	var out []byte
	members := object{}
	for n := 1; n <= nodes; n++ {
		name := fmt.Sprintf("node%d", n)
		out = append(out, text(object{"kind": "PeerDescriptor", "metadata": object{"name": name}, "spec": object{
			"interfaces": object{"app": object{"ifName": ClusterLink}}, "underlays": object{"wan": object{"port": "wan"}}}})...)
		members[name] = object{"interfaces": "app", "underlay": "wan"}
	}
	spec := object{"leader": "node1", "topology": "star", "members": members, "encryption": "none"}
	if c.Mesh {
		spec["topology"] = "mesh"
	}
	if c.Encrypted {
		spec["encryption"] = "wireguard"
	}
	return append(out, text(object{"kind": "ClusterDescriptor", "metadata": object{"name": ClusterName}, "spec": spec})...)
}

func text(o object) []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// MayTunnel tells whether a node may send what is for another one through a tunnel that is not encrypted.
func (f Fleet) MayTunnel(node int) bool {
	return node >= 1 && node <= len(f) && f.Node(node).Joined && f.Node(node).Plain
}

// tunnel returns the vpn of a node: a peer for each other node that has such a network.
func (f Fleet) tunnel(node int, keys Keys) object {
	peers := object{}
	for other := 1; other <= len(f); other++ {
		if other != node {
			peers[fmt.Sprintf("node%d", other)] = object{"publicKey": keys.Public[other-1],
				"endpoint":   fmt.Sprintf("%s:51820", Uplink(other, 0)),
				"allowedIPs": fmt.Sprintf("10.99.0.%d/32,%s", other, Subnet(other, VPN)), "keepalive": 5}
		}
	}
	return object{"method": "wireguard", "address": fmt.Sprintf("10.99.0.%d/24", node),
		"wireguard": object{"privateKey": keys.Private[node-1], "listenPort": 51820, "peers": peers}}
}

var rules = map[Rules]object{
	Open: {"all": object{"action": "allow", "direction": "both"}},
	Server: {
		"out": object{"direction": "egress", "match": object{"ip": "0.0.0.0/0"}},
		"in":  object{"direction": "ingress", "match": object{"protocol": "udp", "localPort": Served}},
	},
	Narrow: {"out": object{"direction": "egress",
		"match": object{"ip": ServerAddr, "protocol": "udp", "port": Served}}},
	Closed: {},
}
