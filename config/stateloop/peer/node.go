package peer

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/config/stateloop"
	"edgespan/netinst"
)

// Encode returns the form of a configuration that is sent and stored.
func (c Configuration) Encode() ([]byte, error) {
	if len(c.Parameters) == 0 {
		return nil, nil
	}
	c.Sum = c.Digest()
	return json.Marshal(c)
}

// DigestOf returns the digest of an encoded configuration, "" for none. The digest comes first, and DigestOf reads no
// further.
func DigestOf(text string) string {
	d := json.NewDecoder(strings.NewReader(text))
	for _, want := range []json.Token{json.Delim('{'), "digest"} {
		if got, err := d.Token(); err != nil || got != want {
			return ""
		}
	}
	sum, _ := d.Token()
	digest, _ := sum.(string)
	return digest
}

// Decode parses the output of Encode; an empty text is an empty configuration. It ignores unknown fields of later
// versions. A parameter of an unknown kind or without the value of its kind is a fault, and so are a cycle and an
// unknown dependency.
func Decode(text []byte) (Configuration, config.Faults) {
	var c Configuration
	if len(text) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return Configuration{},
			config.Faults{{Problem: "invalid peer configuration: " + err.Error(),
				Expectation: "must be as a controller sends it"}}
	}
	var faults config.Faults
	for i, p := range c.Parameters {
		at := []string{"parameters", p.ID}
		if p.ID == "" {
			at[1] = fmt.Sprint(i)
			faults.Add(at, "no id", "must have one")
		}
		if p.Target != stateloop.ToBePresent && p.Target != stateloop.ToBeAbsent {
			faults.Add(config.Below(at, "target"), config.Invalid(string(p.Target)), "must be present or absent")
		}
		if p.Target == stateloop.ToBeAbsent {
			continue
		}
		known, has := p.checkValue()
		switch {
		case !known:
			faults.Add(config.Below(at, "kind"), config.Invalid(p.Kind),
				"must be a kind that this version knows: update it")
		case !has:
			faults.Add(at, "no value of its kind", "must have one")
		}
	}
	at := func(id string) []string { return []string{"parameters", id, "dependencies"} }
	faults = append(faults, stateloop.NewGraph(c.Desired()).Faults(at)...)
	faults.Sort()
	return c, faults
}

// checkValue reports whether the kind is known, and whether the value of that kind is set.
func (p DeclaredParameter) checkValue() (known, has bool) {
	switch p.Kind {
	case KindInterface:
		return true, p.Interface != nil && isWord(p.Interface.IfName)
	case KindBridge:
		return true, p.Bridge != nil && p.Bridge.Network != uuid.Nil && isLinkMTU(p.Bridge.MTU)
	case KindTunnel:
		t := p.Tunnel
		return true, t != nil && t.Type == TunnelVXLAN && t.VNI >= FirstVNI && t.VNI <= LastVNI && t.Port > 0 &&
			t.Port < 1<<16 && isLinkMTU(t.MTU) && t.Encrypted.isValid()
	case KindJoined:
		return true, p.Joined != nil
	case KindExecutor:
		return true, p.Executor != nil && (p.Executor.Unit == "") != (len(p.Executor.Command) == 0)
	case KindCheck:
		return true, p.Check != nil
	case KindNetwork, KindAdapter:
		return true, true
	}
	return false, false
}

func (e *EncryptedValue) isValid() bool {
	return e == nil || e.ListenPort > 0 && e.ListenPort < 1<<16 &&
		(e.PublicKey == "" || netinst.IsWireGuardKey(e.PublicKey)) &&
		(e.NextKey == "" || netinst.IsWireGuardKey(e.NextKey))
}

// isLinkMTU reports whether a kernel accepts an MTU for a link; 0 is its default.
func isLinkMTU(mtu int) bool { return mtu == 0 || mtu >= 68 && mtu <= maxMTU }

func isWord(s string) bool { _, err := netinst.ParseIfName(s); return err == nil }

// Network is a cluster's network on this node, with the IDs of its parts.
type Network struct {
	Config  netinst.NetworkInstanceConfig
	Bridge  string            // ID of the bridge
	Tunnels map[string]string // IDs by netinst.Tunnel.Name
	Members map[string]string // IDs of the interfaces by IfName
}

// Networks returns the networks that a configuration adds to those of the layers, by UUID. It leaves out links that are
// in no bridge.
func (c Configuration) Networks() map[uuid.UUID]Network {
	out := map[uuid.UUID]Network{}
	by := map[string]DeclaredParameter{}
	for _, p := range c.Parameters {
		if p.Target != stateloop.ToBePresent {
			continue
		}
		by[p.ID] = p
		if p.Kind == KindBridge {
			out[p.Bridge.Network] = Network{
				Config: netinst.NetworkInstanceConfig{
					UUID: p.Bridge.Network, DisplayName: p.Bridge.DisplayName, Type: netinst.Switch, MTU: p.Bridge.MTU,
				},
				Bridge: p.ID, Tunnels: map[string]string{}, Members: map[string]string{},
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(by)) {
		p := by[id]
		if p.Kind != KindJoined {
			continue
		}
		n, ok := out[p.Joined.Network]
		if !ok {
			continue
		}
		switch link := by[p.Joined.Link]; link.Kind {
		case KindTunnel:
			t := link.Tunnel
			name := t.Peer
			tunnel := netinst.Tunnel{
				Name: name, VNI: t.VNI, Local: t.Local, Remote: t.Remote, Port: uint16(t.Port), MTU: t.MTU, Isolated: t.Isolated,
			}
			if e := t.Encrypted; e != nil {
				tunnel.Encrypted = &netinst.TunnelKey{PublicKey: e.PublicKey, NextKey: e.NextKey}
				if e.Endpoint.IsValid() {
					tunnel.Encrypted.Endpoint = netip.AddrPortFrom(e.Endpoint, uint16(e.ListenPort))
				}
				n.Config.WireGuardPort, n.Config.Over = e.ListenPort, e.Over
			}
			n.Config.Tunnels = append(n.Config.Tunnels, tunnel)
			n.Tunnels[name] = link.ID
		case KindInterface:
			n.Config.Members = append(n.Config.Members, netinst.IfName(link.Interface.IfName))
			n.Members[link.Interface.IfName] = link.ID
		}
		out[p.Joined.Network] = n
	}
	for _, n := range out {
		slices.SortFunc(n.Config.Tunnels, func(a, b netinst.Tunnel) int { return strings.Compare(a.Name, b.Name) })
		slices.Sort(n.Config.Members)
	}
	return out
}

// Executors returns the desired executors by ID.
func (c Configuration) Executors() map[string]ExecutorValue {
	out := map[string]ExecutorValue{}
	for _, p := range c.Parameters {
		if p.Kind == KindExecutor && p.Target == stateloop.ToBePresent {
			out[p.ID] = *p.Executor
		}
	}
	return out
}

// Checks returns the desired connection checks by ID.
func (c Configuration) Checks() map[string]CheckValue {
	out := map[string]CheckValue{}
	for _, p := range c.Parameters {
		if p.Kind == KindCheck && p.Target == stateloop.ToBePresent {
			out[p.ID] = *p.Check
		}
	}
	return out
}

// Desired returns the configuration in the form of config/stateloop.
func (c Configuration) Desired() []stateloop.DesiredParameter {
	out := make([]stateloop.DesiredParameter, 0, len(c.Parameters))
	for _, p := range c.Parameters {
		out = append(out, stateloop.DesiredParameter{ID: p.ID, Kind: p.Kind, Target: p.Target, Dependencies: p.Dependencies})
	}
	return out
}
