package rest

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Role is what a caller of the controller may do: a viewer reads, an operator writes configuration, an admin can do
// everything.
type Role string

// The roles; each includes the ones before it.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
)

// roles lists the roles, the least first.
var roles = []Role{Viewer, Operator, Admin}

// Includes reports whether a role includes another. An unknown role includes none.
func (r Role) Includes(need Role) bool { return slices.Index(roles, r) >= slices.Index(roles, need) }

// Via is how a caller authenticated: equal names of different sources are different callers.
type Via string

// The sources of a caller's name.
const (
	ViaToken       Via = "token"       // an operator's token
	ViaBasic       Via = "basic"       // a password
	ViaKeystone    Via = "keystone"    // a Keystone token
	ViaCertificate Via = "certificate" // of a node, or from an external CA
	ViaLoopback    Via = "loopback"    // no authentication: --auth none
)

// Of qualifies a name with its source, for counting callers.
func (v Via) Of(name string) string { return string(v) + ":" + name }

// Entry is one line of the controller's audit log. It never contains a body, a query or a token.
type Entry struct {
	Time     time.Time `json:"time"`
	Caller   string    `json:"caller,omitempty"` // "" if authentication failed
	Role     Role      `json:"role,omitempty"`
	Via      Via       `json:"via,omitempty"` // how the caller authenticated
	Remote   string    `json:"remote"`
	Method   string    `json:"method"`
	Path     string    `json:"path"`
	Status   int       `json:"status"`
	Revision uint64    `json:"revision,omitempty"`
	DryRun   bool      `json:"dryRun,omitempty"`
	Reveal   bool      `json:"reveal,omitempty"`
	Message  string    `json:"message,omitempty"`
	Trace    string    `json:"trace,omitempty"`   // ID of its trace; "" if it has none
	Begun    bool      `json:"begun,omitempty"`   // the action is about to start: the line with its status follows
	LeftOut  int       `json:"leftOut,omitempty"` // refusals before this line in its file that have no line
}

// LocalHost reports whether a Host header names this machine.
func LocalHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}
