package rest

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Role is what a caller of the controller may do: a viewer reads, an operator writes
// configuration, an admin everything.
type Role string

// The roles; each may do what those before it may.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
)

// roles are in the order of what they may.
var roles = []Role{Viewer, Operator, Admin}

// May says whether a role may what another may. One that is none of ours may nothing.
func (r Role) May(need Role) bool { return slices.Index(roles, r) >= slices.Index(roles, need) }

// Via is what says who a caller is: names of one source are told from equal ones of another.
type Via string

// The sources of a caller's name.
const (
	ViaToken       Via = "token"       // of an operator
	ViaBasic       Via = "basic"       // a password
	ViaKeystone    Via = "keystone"    // a token of Keystone
	ViaCertificate Via = "certificate" // a node's, or one of an external CA
	ViaLoopback    Via = "loopback"    // nobody has to say who it is: --auth none
)

// Of tells a name of one source from the same name of another one, wherever callers are counted.
func (v Via) Of(name string) string { return string(v) + ":" + name }

// Entry is one line of the controller's audit log. It never holds a body, a query or a token.
type Entry struct {
	Time     time.Time `json:"time"`
	Caller   string    `json:"caller,omitempty"` // "" for one who could not say who it is
	Role     Role      `json:"role,omitempty"`
	Via      Via       `json:"via,omitempty"` // what the caller's name is from
	Remote   string    `json:"remote"`
	Method   string    `json:"method"`
	Path     string    `json:"path"`
	Status   int       `json:"status"`
	Revision uint64    `json:"revision,omitempty"`
	DryRun   bool      `json:"dryRun,omitempty"`
	Reveal   bool      `json:"reveal,omitempty"`
	Message  string    `json:"message,omitempty"`
	Begun    bool      `json:"begun,omitempty"`   // it is about to be done: the line with its status follows
	LeftOut  int       `json:"leftOut,omitempty"` // refusals before this line in its file that have none
}

// LocalHost says whether a Host header names this machine.
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
