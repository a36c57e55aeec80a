package serve

import (
	"context"
	"fmt"
	"net"
	"time"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/conns"
)

// doorSettings returns the flags that bound what callers can make the controller spend.
func (o *Options) doorSettings() []setting {
	return []setting{
		{"connections-per-address", &o.PerAddress,
			"connections from one address to the API before authentication, and to the node link before its certificate is " +
				"verified, and of one authenticated caller; behind a load balancer as many as all clients need", serving},
		{"audit-mb", &o.AuditMB,
			"limit of the audit log in megabytes: a quarter for admins, a quarter for operators, half for everyone else, in " +
				"eight files each; 0 for no limit", serving},
	}
}

// The API accepts this many connections of unknown clients, and as many of known ones. Once three quarters of those of
// unknown clients are taken, it accepts few per address. A client has loginTime to log in.
const (
	apiConnections = 4096
	crowded        = 16
	loginTime      = 30 * time.Second
	loginGrace     = 3 * time.Second
	// loginBytes is how much the API reads from a client before the login: a handshake, one header of maximum size, and
	// the 256 KiB of a body that net/http reads before it refuses a request.
	loginBytes = 384 << 10
)

// apiBounds returns the bounds of the API's connections.
func apiBounds(perAddress int) conns.Bounds {
	limit := max(apiConnections, 2*perAddress)
	return conns.Bounds{
		UnknownNodes: limit, PerAddress: perAddress, Crowded: crowded, Grace: loginGrace, Returning: limit / 4,
		Known: limit, PerCaller: max(limit/4, perAddress), PerMachine: crowded, Timeout: loginTime, Unknown: loginBytes,
	}
}

// placed lets the handlers of a connection report the authenticated caller to conns.
func placed(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = over.NetConn()
	}
	if place, ok := c.(*conns.Conn); ok {
		return rest.WithAdmit(ctx, func(name string, staff, machine bool) bool {
			return place.Known(conns.Caller{Name: name, Staff: staff, Machine: machine})
		})
	}
	return ctx
}

// nodesPerAddress is how many nodes of one address may handshake at a time. The nodes of a fleet behind one NAT join,
// and reconnect, together.
func (o *Options) nodesPerAddress() int {
	return max(int(o.PerAddress), 1024*min(int(o.Joins), 1000))
}

// checkListeners refuses invalid values.
func (o *Options) checkListeners(no func(error)) {
	if o.PerAddress < 1 {
		no(term.Invalid("--connections-per-address", int(o.PerAddress), "1 or more"))
	}
	if o.AuditMB != 0 && o.AuditMB < auditFiles {
		no(term.Invalid("--audit-mb", int(o.AuditMB), fmt.Sprintf("0, or %d or more", auditFiles)))
	}
}
