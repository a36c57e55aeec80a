package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confinement is what a helper that outlives us is held to: no new privileges, only these
// capabilities, whatever it was started as, a list of system calls and sockets that it has no
// business with (seccomp, where the architecture is known), and limits of memory and files.
//
// All of it is put on the thread that forks, and so on nothing but the helper (prctl(2),
// capabilities(7), seccomp(2)); that thread ends with it.
type Confinement struct {
	Keep   []uintptr // capabilities, as unix.CAP_NET_ADMIN
	Memory uint64    // octets of address space
	Files  uint64    // open ones
}

// start has f start a process that is held to c, in the network namespace at path.
func (c Confinement) start(path string, f func() error) error {
	done := make(chan error, 1)
	go spareThread(func() {
		done <- func() error {
			if path != "" {
				if err := enter(path); err != nil {
					return err
				}
			}
			if err := c.thread(); err != nil {
				return fmt.Errorf("confine the helper: %w", err)
			}
			return f()
		}()
	})
	return <-done
}

// spareThread calls f on a thread that ends after it. The process's first thread can't end,
// and it is the one by which /proc tells of the process.
func spareThread(f func()) {
	runtime.LockOSThread() // for ever: the runtime ends the thread with the goroutine
	if unix.Gettid() != os.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		spareThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// thread puts on the calling thread what what it forks inherits.
func (c Confinement) thread() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	for cp := uintptr(0); ; cp++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, cp, 0, 0, 0)
		if err != nil {
			break // past the last one
		}
		if has == 0 || contains(c.Keep, cp) {
			continue
		}
		// Without CAP_SETPCAP nothing can be dropped; we have little to pass on then.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, cp, 0, 0, 0); err != nil && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("drop capability %d: %w", cp, err)
		}
	}
	filter := seccompFilter()
	if len(filter) == 0 {
		return nil
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 && errno != unix.EINVAL && errno != unix.ENOSYS { // a kernel without seccomp
		return fmt.Errorf("install seccomp filter: %w", errno)
	}
	return nil
}

func contains(all []uintptr, x uintptr) bool {
	for _, a := range all {
		if a == x {
			return true
		}
	}
	return false
}

// limit bounds what a started process can take.
func (c Confinement) limit(pid int) error {
	for what, limit := range map[int]uint64{unix.RLIMIT_AS: c.Memory, unix.RLIMIT_NOFILE: c.Files} {
		if limit > 0 {
			if err := unix.Prlimit(pid, what, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
				return fmt.Errorf("limit process %d: %w", pid, err)
			}
		}
	}
	return unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
}
