package proc

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confinement restricts a helper that outlives the daemon: no new privileges, only these capabilities, a list of
// forbidden system calls and sockets (seccomp, on known architectures), and limits of memory and files.
//
// All of it is set on the thread that forks, so that only the helper inherits it (prctl(2), capabilities(7),
// seccomp(2)). That thread ends afterwards.
type Confinement struct {
	Keep   []uintptr // capabilities, such as unix.CAP_NET_ADMIN
	Memory uint64    // bytes of address space
	Files  uint64    // open files
	// FileSize bounds each file that it writes; what it would write beyond gets lost.
	FileSize uint64
	// User is whom the helper runs as, with the capabilities of Keep; nil: as the daemon.
	User *User
	// Netfilter allows sockets to the kernel's packet filter, for a helper that fills sets.
	Netfilter bool
	// apart means that the daemon makes the helper's UDP sockets.
	apart bool
}

// User is a user and its group, by numbers.
type User struct{ UID, GID uint32 }

// LookupUser returns a user of the machine, nil if there is none of that name.
func LookupUser(name string) *User {
	u, err := user.Lookup(name)
	if err != nil {
		return nil
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil
	}
	return &User{uint32(uid), uint32(gid)}
}

// start calls f, which starts a process, on a confined thread in the network namespace at path.
func (c Confinement) start(path string, f func() error) error {
	done := make(chan error, 1)
	go onNewThread(func() {
		done <- func() error {
			if path != "" {
				if err := enter(path); err != nil {
					return err
				}
			}
			if _, err := c.thread(); err != nil {
				return fmt.Errorf("confine the helper: %w", err)
			}
			return f()
		}()
	})
	return <-done
}

// onNewThread calls f on a thread that ends afterwards. It is never the process's first thread, which can't end and
// represents the process in /proc.
func onNewThread(f func()) {
	runtime.LockOSThread() // never unlocked: the runtime ends the thread with the goroutine
	if unix.Gettid() != os.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		onNewThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// thread confines the calling thread, and so what it forks. listener receives the requests for sockets of a helper that
// is apart, and is -1 for any other.
func (c Confinement) thread() (listener int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("no new privileges: %w", err)
	}
	for cp := uintptr(0); ; cp++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, cp, 0, 0, 0)
		if err != nil {
			break // past the last one
		}
		if has == 0 || slices.Contains(c.Keep, cp) {
			continue
		}
		// Without CAP_SETPCAP the process can't drop anything, and has little to pass on.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, cp, 0, 0, 0); err != nil && !errors.Is(err, unix.EPERM) {
			return -1, fmt.Errorf("drop capability %d: %w", cp, err)
		}
	}
	filter := seccompFilter(c.Netfilter, c.apart)
	if len(filter) == 0 {
		return -1, nil
	}
	flags := uintptr(0)
	if c.apart {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno == 0 && c.apart:
		return int(fd), nil
	case errno != 0 && (c.apart || errno != unix.EINVAL && errno != unix.ENOSYS): // a kernel without seccomp
		return -1, fmt.Errorf("install seccomp filter: %w", errno)
	}
	return -1, nil
}

// limited returns argv with a shell around it that sets the resource limits: those of another user's process take
// CAP_SYS_RESOURCE, which root may lack.
func (c Confinement) limited(argv []string) []string {
	line := "ulimit -c 0"
	for _, x := range []struct {
		option      string
		limit, unit uint64 // sh(1): POSIX's unit of files is 512 octets
	}{{"-v", c.Memory, 1 << 10}, {"-n", c.Files, 1}, {"-f", c.FileSize, 512}} {
		if x.limit > 0 {
			line += fmt.Sprintf(" && ulimit %s %d", x.option, x.limit/x.unit)
		}
	}
	return append([]string{"sh", "-c", line + ` && exec "$@"`, "sh"}, argv...)
}

// limit sets the resource limits of a started process.
func (c Confinement) limit(pid int) error {
	for what, limit := range map[int]uint64{
		unix.RLIMIT_AS: c.Memory, unix.RLIMIT_NOFILE: c.Files, unix.RLIMIT_FSIZE: c.FileSize,
	} {
		if limit > 0 {
			if err := unix.Prlimit(pid, what, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
				return fmt.Errorf("limit process %d: %w", pid, err)
			}
		}
	}
	return unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
}
