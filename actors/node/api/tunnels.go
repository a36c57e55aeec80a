package api

import (
	"fmt"
	"strings"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/doctor"
	"edgespan/netinst/netstate"
)

// vpnSpec returns the tunnel of a network as the config has it, without its secrets; nil for a network without one.
func vpnSpec(v *netinst.VPNConfig) *nodeapi.VPNSpec {
	if v == nil {
		return nil
	}
	s := nodeapi.VPNSpec{Method: "ipsec", Address: v.Address, MTU: v.MTU, NAT: v.NAT, DNSOutside: v.DNSOutside}
	if w := v.WireGuard; w != nil {
		s.Method, s.ListenPort = "wireguard", w.ListenPort
		for _, p := range w.Peers {
			s.Peers = append(s.Peers, nodeapi.PeerSpec{Name: p.Name, Identity: p.PublicKey, Endpoint: p.Endpoint,
				Networks: p.AllowedIPs})
		}
		return &s
	}
	peer := nodeapi.PeerSpec{Identity: v.IPsec.Remote.ID, Endpoint: v.IPsec.Address}
	for _, c := range v.IPsec.Children {
		peer.Networks = append(peer.Networks, c.Remote...)
	}
	s.Peers = []nodeapi.PeerSpec{peer}
	return &s
}

// tunnels returns the tunnels that were observed.
func (n *Reader) tunnels() (rs []nodeapi.Resource) {
	for _, e := range n.Topics.Tunnels.All() {
		c, _ := n.Topics.NetworkConfig.Get("", e.Key)
		st, _ := n.Topics.NetworkStatus.Get("", e.Key)
		spec := any(map[string]any{})
		if v := vpnSpec(c.VPN); v != nil {
			spec = *v
		}
		rs = append(rs, nodeapi.Resource{ID: e.Key, Kind: "tunnel", Spec: spec, Status: tunnelStatus(e.Value, st)})
	}
	return rs
}

func tunnelStatus(t netstate.TunnelStatus, ni netinst.NetworkInstanceStatus) nodeapi.TunnelStatus {
	s := nodeapi.TunnelStatus{DisplayName: ni.DisplayName, Method: t.Kind, By: t.By, Link: t.Link, Uplink: ni.Port,
		State: nodeapi.TunnelDown, PublicKey: t.PublicKey, Addresses: t.Addresses, DNS: t.DNS, Error: t.Error,
		Peers: []nodeapi.PeerStatus{}}
	if t.Up {
		s.State = nodeapi.TunnelUp
	}
	for _, p := range t.Peers {
		s.Peers = append(s.Peers, nodeapi.PeerStatus(p))
	}
	return s
}

// explainTunnel describes the state of a network's tunnel, "" without one.
func (n *Reader) explainTunnel(id string, now time.Time) string {
	t, has := n.Topics.Tunnels.Get("", id)
	if !has {
		return ""
	}
	text := fmt.Sprintf(", through tunnel %s (%s by %s)", t.Link, t.Kind, t.By)
	if !t.Up {
		return text + ", which is down"
	}
	for _, p := range t.Peers {
		switch {
		case !p.Up:
			text += fmt.Sprintf(", peer %s down", p.Name)
		case p.LastHandshake.IsZero():
			text += fmt.Sprintf(", peer %s up at %s", p.Name, p.Endpoint)
		default:
			text += fmt.Sprintf(", peer %s up at %s, keys made %v ago", p.Name, p.Endpoint,
				now.Sub(p.LastHandshake).Round(time.Second))
		}
	}
	return text
}

// doctorTunnels returns the tunnels of networks for the doctor.
func (n *Reader) doctorTunnels(networks []netinst.NetworkInstanceConfig) (out []doctor.Tunnel) {
	for _, c := range networks {
		if !c.HasTunnel() {
			continue
		}
		t := doctor.Tunnel{Network: c}
		t.Status, _ = n.Topics.Tunnels.Get("", c.UUID.String())
		trouble, _ := n.Topics.Trouble.Get("", c.UUID.String())
		for _, f := range trouble.Failing {
			if strings.Contains(f.Op, " "+string(netstate.KindVPN)+" ") && !f.Blocked {
				t.Fault = f.Error
			}
		}
		out = append(out, t)
	}
	return out
}
