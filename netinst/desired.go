package netinst

import (
	"fmt"
	"net/netip"

	"github.com/google/uuid"

	"edgespan/netinst/netstate"
)

// Adapter is one active adapter with what it was given.
type Adapter struct {
	Config AppAdapterConfig
	Lease  Lease
}

// Input is all that a network's desired state depends on.
type Input struct {
	Owner    netstate.Owner
	Config   NetworkInstanceConfig
	Adapters []Adapter    // the active ones
	Ports    []PortStatus // all ports of the node
	RunDir   string       // absolute
}

// Desired is what the host should look like for one network.
type Desired struct {
	State     netstate.State
	ByAdapter map[AdapterKey][]netstate.ID // which objects are whose
	Port      string                       // label of the port in use, "" for none
	PortError string                       // why there is none
}

// defaultMTU is what a network has where neither it nor its port says.
const defaultMTU = 1500

// builder gathers the desired state of one network.
type builder struct {
	Input
	n     int
	br    string
	port  PortStatus // zero where none is usable
	mtu   int
	state netstate.State
	by    map[AdapterKey][]netstate.ID
}

// DesiredState computes, whole and from nothing, what the host should look like.
func DesiredState(in Input) Desired {
	b := &builder{Input: in, n: in.Owner.Number, br: string(BridgeName(in.Owner.Number)), state: netstate.State{}, by: map[AdapterKey][]netstate.ID{}}
	port, why := ChoosePort(in.Config.Port, in.Ports)
	b.port = port
	b.mtu = in.Config.MTU
	for _, m := range []int{port.PortConfig.MTU, port.LinkMTU, defaultMTU} {
		if b.mtu == 0 {
			b.mtu = m
		}
	}
	b.bridge()
	b.routes()
	b.firewall()
	b.dnsmasq()
	for _, a := range b.Adapters {
		b.adapter(a)
	}
	return Desired{State: b.state, ByAdapter: b.by, Port: port.Label, PortError: why}
}

// own adds objects that belong to one adapter.
func (b *builder) own(k AdapterKey, objs ...netstate.Object) {
	b.state.Add(objs...)
	for _, o := range objs {
		b.by[k] = append(b.by[k], o.ID())
	}
}

func (b *builder) gateway() netip.Prefix {
	return netip.PrefixFrom(b.Config.IPv4.Gateway, b.Config.IPv4.Subnet.Bits())
}

func (b *builder) bridge() {
	b.state.Add(
		netstate.Link{
			Name: b.br, Type: netstate.Bridge, MTU: b.mtu, Alias: BridgeAlias(b.Owner),
			MAC: generatedMAC("bridge", b.Config.UUID, uuid.Nil, 0),
		},
		netstate.Address{Link: b.br, Prefix: b.gateway().String()},
		netstate.Port{Link: b.br, After: []netstate.ID{b.chainID("filter", "FWD"), b.bridgeTableID()}},
	)
}

// adapter adds the links of one adapter. Its host side joins the bridge only after
// every chain that judges it stands.
func (b *builder) adapter(a Adapter) {
	k, u := a.Config.Key(), a.Config.UnderlayConfig
	host := string(HostIfName(b.n, a.Lease.Number))
	after := []netstate.ID{b.bridgeTableID()}
	for _, c := range []string{"FWD", "EGR", "ING", "INP", "OUT"} {
		after = append(after, b.chainID("filter", c))
	}
	for _, c := range []string{"E", "I", "N", "M"} {
		after = append(after, b.chainID("filter", fmt.Sprintf("%d%s", a.Lease.Number, c)))
	}
	b.own(k,
		netstate.Link{
			Name: host, Type: netstate.Veth, MTU: b.mtu, MAC: generatedMAC("host", b.Config.UUID, k.AppUUID, k.UnderlayIndex),
			Alias: fmt.Sprintf("%s adapter %s netns=%s peer=%s mac=%s mtu=%d", BridgeAlias(b.Owner), k, u.Netns, u.IfName, a.Lease.MAC, b.mtu),
			Peer:  &netstate.Peer{Netns: u.Netns, Name: string(u.IfName), MAC: a.Lease.MAC, MTU: b.mtu},
		},
		netstate.Port{Link: host, Master: b.br, After: after},
	)
}
