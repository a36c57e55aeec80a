package netstate

import (
	"fmt"
	"net/netip"
)

// Tunnel is what a VXLAN link is made with (RFC 7348): one remote end, nothing learnt
// from what comes in. Any change of it makes the link anew.
type Tunnel struct {
	VNI           uint32 // 24 bits
	Local, Remote netip.Addr
	Port          uint16 // UDP
	// Lost is observed only: why the tunnel leads nowhere now, "" if it leads to Remote.
	// It makes the link differ from every wish.
	Lost string
}

func (t *Tunnel) text() string {
	if t == nil {
		return ""
	}
	s := fmt.Sprintf(" vni %d from %s to %s port %d", t.VNI, t.Local, t.Remote, t.Port)
	if t.Lost != "" {
		s += " lost: " + t.Lost
	}
	return s
}

// NoAddress says that a tunnel's own address is on no interface of the host.
func (t *Tunnel) NoAddress() string {
	return fmt.Sprintf("the local address %s is on no interface of the host", t.Local)
}

// NoRoute says that no route of the host leads to a tunnel's other end.
func (t *Tunnel) NoRoute() string {
	return fmt.Sprintf("no route leads from %s to the remote address %s", t.Local, t.Remote)
}
