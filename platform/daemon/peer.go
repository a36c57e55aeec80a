package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Peer is the process at the other end of a Unix socket, as it was when it connected (unix(7), SO_PEERCRED and
// SO_PEERGROUPS).
type Peer struct {
	UID    uint32
	PID    int32
	Groups []uint32 // its own and the supplementary ones
}

// PeerOf asks the kernel who has connected.
func PeerOf(c net.Conn) (Peer, error) {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, errors.New("identify the peer: no Unix socket")
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("identify the peer: %w", err)
	}
	var p Peer
	var asked error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); asked != nil {
			return
		}
		p = Peer{UID: cred.Uid, PID: cred.Pid}
		p.Groups, asked = groupsOf(fd)
		p.Groups = append(p.Groups, cred.Gid)
	})
	if err = errors.Join(err, asked); err != nil {
		return Peer{}, fmt.Errorf("identify the peer: %w", err)
	}
	return p, nil
}

// maxGroups is NGROUPS_MAX of the kernel.
const maxGroups = 65536

// groupsOf reads SO_PEERGROUPS. With too small a buffer the kernel says which size it takes.
func groupsOf(fd uintptr) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(4 * len(groups))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return groups[:size/4], nil
		case errno == unix.ERANGE && len(groups) < maxGroups:
			groups = make([]uint32, min(maxGroups, max(2*len(groups), int(size/4))))
		default:
			return nil, errno
		}
	}
}

// IsIn reports whether the peer is in a group of this machine.
func (p Peer) IsIn(group string) bool {
	gid, ok := GroupID(group)
	return ok && slices.Contains(p.Groups, uint32(gid))
}

// groupFile is group(5). The program is static, so it asks no other directory.
const groupFile = "/etc/group"

// GroupID returns the number of a group of this machine, false if there is none of that name.
func GroupID(name string) (int, bool) {
	f, err := os.Open(groupFile)
	if err != nil {
		return 0, false
	}
	defer f.Close() //nolint:errcheck // it is only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 3 || fields[0] != name {
			continue
		}
		if gid, err := strconv.ParseUint(fields[2], 10, 31); err == nil {
			return int(gid), true
		}
	}
	return 0, false
}
