package netstate

import (
	"fmt"
	"net/netip"
)

// Tunnel is the configuration of a VXLAN link (RFC 7348): one remote end, without learning. Any change of it recreates
// the link.
type Tunnel struct {
	VNI           uint32 // 24 bits
	Local, Remote netip.Addr
	Port          uint16 // UDP
	// Lost is observed only: why packets of the tunnel do not reach Remote now, "" if they do. It makes the link differ
	// from every desired one.
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

// NoAddress returns the error for a tunnel whose local address is on no interface of the host.
func (t *Tunnel) NoAddress() string {
	return fmt.Sprintf("the local address %s is on no interface of the host", t.Local)
}

// NoRoute returns the error for a tunnel to whose other end the host has no route.
func (t *Tunnel) NoRoute() string {
	return fmt.Sprintf("no route leads from %s to the remote address %s", t.Local, t.Remote)
}
