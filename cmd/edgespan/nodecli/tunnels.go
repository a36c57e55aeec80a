package nodecli

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"edgespan/config/httpapi/nodeapi"
)

func tunnelCells(r nodeapi.Resource) []cell {
	s := nodeapi.As(r.Status, nodeapi.TunnelStatus{})
	up, received, sent, rekeys := 0, uint64(0), uint64(0), 0
	var handshake time.Time
	for _, p := range s.Peers {
		if p.Up {
			up++
		}
		received, sent, rekeys = received+p.Received, sent+p.Sent, rekeys+p.Rekeys
		if p.LastHandshake.After(handshake) {
			handshake = p.LastHandshake
		}
	}
	return []cell{
		{head: "NAME", text: cmp.Or(s.DisplayName, r.ID)},
		{head: "ID", text: r.ID},
		{head: "STATE", text: s.State},
		{head: "METHOD", text: s.Method},
		{head: "BY", text: s.By},
		{head: "LINK", text: s.Link},
		{head: "UPLINK", text: s.Uplink},
		{head: "PEERS", text: fmt.Sprintf("%d/%d", up, len(s.Peers))},
		{head: "HANDSHAKE", text: timeAgo(handshake, time.Now())},
		{head: "RECEIVED", text: number(received)},
		{head: "SENT", text: number(sent)},
		{head: "REKEYS", text: strconv.Itoa(rekeys), wide: true},
		{head: "ADDRESSES", text: joined(s.Addresses), wide: true},
		{head: "PUBLIC KEY", text: s.PublicKey, wide: true},
		{head: "ERROR", text: s.Error},
	}
}
