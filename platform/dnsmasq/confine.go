package dnsmasq

import (
	"os/user"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// confinement is the confinement of a dnsmasq. It starts as root, binds its sockets and becomes an unprivileged user.
// Then it keeps only the capabilities that it needs: CAP_NET_ADMIN, to add a client's address to the neighbour table
// before the answer, and CAP_NET_BIND_SERVICE, to bind port 53 on later addresses. It does not start without the
// first, and requires CAP_NET_RAW if an upstream server is bound to an interface.
var confinement = proc.Confinement{
	Keep:   []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_NET_BIND_SERVICE, unix.CAP_SETUID, unix.CAP_SETGID},
	Memory: 512 << 20, // 10,000 reservations need some 10 MB
	Files:  1024,
}

// confinementOf is the confinement of a process: one that fills sets may open a socket to the packet filter.
func confinementOf(p netstate.Process) proc.Confinement {
	c := confinement
	c.Netfilter = slices.ContainsFunc(p.After, func(id netstate.ID) bool { return id.Kind == netstate.KindSet })
	return c
}

// accounts are the users that a dnsmasq may become, in order of preference: its own, then that of Debian's package.
// Without either it becomes nobody by itself.
var accounts = []string{netstate.HelperUser, "dnsmasq"}

// withUser adds the user to a command line. The recorded and compared command line does not contain it, so that a
// dnsmasq that was started without it still matches.
func withUser(argv []string) []string {
	if filepath.Base(argv[0]) != program {
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
