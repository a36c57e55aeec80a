package dnsmasq

import (
	"os/user"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// confinement of a dnsmasq. It begins as root, binds its sockets and becomes the user that it
// is told; of what is left then it keeps only what it needs: CAP_NET_ADMIN to give a client's
// address to the neighbour table before it answers it, CAP_NET_BIND_SERVICE to bind port 53
// on addresses that come later. It does not start without the first, and asks for CAP_NET_RAW
// where an upstream server is bound to an interface.
var confinement = proc.Confinement{
	Keep:   []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_NET_BIND_SERVICE, unix.CAP_SETUID, unix.CAP_SETGID},
	Memory: 512 << 20, // some 10 MB are in use at 10,000 reservations
	Files:  1024,
}

// accounts are the users that a dnsmasq may become, the best first: its own, then that of
// Debian's package; without either it becomes nobody by itself.
var accounts = []string{netstate.HelperUser, "dnsmasq"}

// confined is the command line with the user. It stands before what is compared and kept, so
// that a dnsmasq that was started without is the same one.
func confined(argv []string) []string {
	if filepath.Base(argv[0]) != "dnsmasq" {
		return argv
	}
	for _, name := range accounts {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		if g, err := user.LookupGroupId(u.Gid); err == nil {
			return slices.Concat(argv[:1], []string{"--user=" + u.Username, "--group=" + g.Name}, argv[1:])
		}
	}
	return argv
}
