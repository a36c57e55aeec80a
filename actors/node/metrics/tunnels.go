package metrics

import "edgespan/config/httpapi/metrics"

// Tunnels of networks of type vpn. A peer is named as in the config.
var (
	tunnelInfo = Table.Gauge("edgespan_tunnel_info",
		"1, with the method of a network's tunnel, what carries its packets (kernel or process), and its link.",
		"network", "method", "by", "link")
	tunnelUp = Table.Gauge("edgespan_tunnel_up", "Whether a peer of the network's tunnel can be reached.", "network")
	peerUp   = Table.Gauge("edgespan_tunnel_peer_up", "Whether the peer can be reached.", "network", "peer")
	peerKeys = Table.Gauge("edgespan_tunnel_peer_handshake_timestamp_seconds",
		"Time at which keys were last agreed with the peer, in seconds since 1970.", "network", "peer")
	peerReceived = Table.Counter("edgespan_tunnel_peer_receive_bytes_total",
		"Bytes received from the peer, since the tunnel exists.", "network", "peer")
	peerSent = Table.Counter("edgespan_tunnel_peer_transmit_bytes_total",
		"Bytes sent to the peer, since the tunnel exists.", "network", "peer")
	peerRekeys = Table.Counter("edgespan_tunnel_peer_rekeys_total",
		"New keys that were agreed with the peer, since the tunnel's process began; 0 if they are not counted.",
		"network", "peer")
)

func (s Snapshot) collectTunnels(to *metrics.Scrape) {
	for id, t := range s.Tunnels {
		to.Add(tunnelInfo, 1, id, t.Kind, t.By, t.Link)
		to.Flag(tunnelUp, t.Up, id)
		for _, p := range t.Peers {
			to.Flag(peerUp, p.Up, id, p.Name)
			if !p.LastHandshake.IsZero() {
				to.Add(peerKeys, float64(p.LastHandshake.UnixMilli())/1000, id, p.Name)
			}
			to.Count(peerReceived, p.Received, id, p.Name)
			to.Count(peerSent, p.Sent, id, p.Name)
			to.Count(peerRekeys, uint64(p.Rekeys), id, p.Name)
		}
	}
}
