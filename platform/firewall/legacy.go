package firewall

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"edgespan/platform/proc"
)

// legacy knows how the tables of the legacy backend were left. The kernel tells nobody of
// changes to them; what it tells who asks (IPT_SO_GET_INFO: how many entries a table has, how
// large it is and where its built-in chains begin) costs microseconds and no process.
type legacy struct {
	mu   sync.Mutex // no look while one of our restores is under way
	fd   int
	on   bool // the tables are looked at
	left [3]tableInfo
}

// tableInfo is struct ipt_getinfo (linux/netfilter_ipv4/ip_tables.h).
type tableInfo struct {
	name             [32]byte
	hooks            uint32
	entry, underflow [5]uint32
	entries, size    uint32
}

const iptGetInfo = 64 // IPT_SO_GET_INFO

// open begins to look at the tables; they are as they should be.
func (l *legacy) open(run *proc.Runner) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := run.In(func() (err error) {
		l.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	if err != nil {
		return fmt.Errorf("open the legacy tables: %w", err)
	}
	if l.left, err = l.read(); err != nil {
		unix.Close(l.fd)
		return err
	}
	l.on = true
	return nil
}

func (l *legacy) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on {
		unix.Close(l.fd)
		l.on = false
	}
}

// changed says whether others have changed a table since we, or a look, left it.
func (l *legacy) changed() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, err := l.read()
	changed := err == nil && now != l.left
	if changed {
		l.left = now
	}
	return changed, err
}

// writing runs what changes the tables: it is no change by others.
func (l *legacy) writing(write func() error) error {
	l.mu.Lock()
	if !l.on { // nobody looks: one that hangs holds up no other
		l.mu.Unlock()
		return write()
	}
	defer l.mu.Unlock()
	before, unread := l.read()
	err := write()
	if before == l.left && unread == nil { // else the next look tells
		if now, unread := l.read(); unread == nil {
			l.left = now
		}
	}
	return err
}

func (l *legacy) read() (all [3]tableInfo, err error) {
	for i, name := range tableOrder {
		t := &all[i]
		copy(t.name[:], name)
		size := uint32(unsafe.Sizeof(*t))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(l.fd), unix.IPPROTO_IP, iptGetInfo,
			uintptr(unsafe.Pointer(t)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 && !errors.Is(errno, unix.ENOENT) { // nobody has used it yet
			return all, fmt.Errorf("ask for table %s: %w", name, errno)
		}
	}
	return all, nil
}
