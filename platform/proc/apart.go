package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Apart describes a helper that runs in a new network namespace, but has its UDP sockets in that of its Runner: it can
// change links, addresses, routes and rules only in its own, which ends with it.
//
// The kernel asks the daemon for each UDP socket that the helper makes (seccomp_unotify(2)), until Sockets.Close.
type Apart struct {
	// Prepare is called on a thread in the new namespace before the helper starts.
	Prepare func() error
	// XFRM means that the helper's sockets for the state of IPsec are in the Runner's namespace too.
	XFRM bool
}

// Sockets answers the requests of one helper for sockets.
type Sockets struct {
	stop chan struct{}
	done chan struct{}
}

// Close ends the answers: from then on, the helper can make no UDP socket.
func (s *Sockets) Close() {
	close(s.stop)
	<-s.done
}

// StartApart is Start with a new network namespace. The caller closes the Sockets when the helper has opened its own.
func (r *Runner) StartApart(argv []string, out string, c Confinement, a Apart) (Ident, *Sockets, error) {
	if auditArch() == 0 {
		return Ident{}, nil, errors.New("helpers with sockets of another namespace need an architecture with seccomp")
	}
	c.apart = true
	listener := -1
	id, err := r.launch(argv, out, c, func(start func() error) error {
		done := make(chan error, 1)
		go onNewThread(func() {
			done <- func() error {
				if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
					return fmt.Errorf("new network namespace: %w", err)
				}
				if err := a.Prepare(); err != nil {
					return err
				}
				var err error
				if listener, err = c.thread(); err != nil {
					return fmt.Errorf("confine the helper: %w", err)
				}
				return start()
			}()
		})
		return <-done
	})
	if err != nil {
		if listener >= 0 {
			unix.Close(listener)
		}
		return Ident{}, nil, err
	}
	s := &Sockets{stop: make(chan struct{}), done: make(chan struct{})}
	go s.serve(listener, r, a)
	return id, s, nil
}

// launch starts argv with its output in the file out. through calls the start of the process on a thread of its choice.
func (r *Runner) launch(argv []string, out string, c Confinement, through func(func() error) error) (Ident, error) {
	file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return Ident{}, fmt.Errorf("open output: %w", err)
	}
	defer file.Close()
	if c.User != nil {
		argv = c.limited(argv)
	}
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // it outlives the daemon and every context
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.User != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.User.UID, Gid: c.User.GID}
		cmd.SysProcAttr.AmbientCaps = c.Keep
	}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = file, file
	if err := through(cmd.Start); err != nil {
		return Ident{}, &Error{Argv: argv, Err: err}
	}
	// An ended child keeps its pid until it is waited for.
	pid := cmd.Process.Pid
	st, err := readStat(pid)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return Ident{}, fmt.Errorf("identify %s: %w", argv[0], err)
	}
	_ = cmd.Process.Release() // closes os.Process's own pidfd; Watch opens another
	id := Ident{Pid: pid, Start: st.start}
	_ = c.limit(pid) // the process may have ended
	id.reap()
	return id, nil
}

// The kernel's structures of seccomp_unotify(2), and the request that adds a descriptor (Linux 5.9).
type (
	notification struct {
		id    uint64
		pid   uint32
		flags uint32
		nr    int32
		arch  uint32
		ip    uint64
		args  [6]uint64
	}
	answer struct {
		id    uint64
		val   int64
		error int32
		flags uint32
	}
	addFD struct {
		id                           uint64
		flags, srcFD, newFD, fdFlags uint32
	}
)

const ioctlAddFD = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD

// pollEvery is how soon a Close is noticed, in milliseconds.
const pollEvery = 20

func (s *Sockets) serve(listener int, r *Runner, a Apart) {
	defer close(s.done)
	defer unix.Close(listener)
	for {
		select {
		case <-s.stop:
			return
		default:
		}
		fds := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, pollEvery)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && n == 0:
			continue
		case err != nil || fds[0].Revents&unix.POLLIN == 0: // the helper has ended
			<-s.stop
			return
		}
		var ask notification
		if _, err := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&ask)); err != nil {
			continue // the process that asked has ended
		}
		s.reply(listener, r, a, ask)
	}
}

// reply answers one request with a socket or an error. If the process that asked has ended, there is no answer to give.
//
// It adds the socket first and answers then. The kernel can do both at once (SECCOMP_ADDFD_FLAG_SEND), but if a signal
// interrupts that, such as one by which Go's scheduler preempts, the helper's socket(2) returns 0, which is its stdin.
// In two steps each can be repeated. A helper that is interrupted between them asks again and has one descriptor more
// than it knows.
func (s *Sockets) reply(listener int, r *Runner, a Apart, ask notification) {
	domain, kind, protocol := int(int32(ask.args[0])), int(int32(ask.args[1])), int(int32(ask.args[2]))
	err := error(unix.EPERM)
	if domain != unix.AF_NETLINK || a.XFRM {
		fd := -1
		err = r.In(func() (err error) {
			fd, err = unix.Socket(domain, kind|unix.SOCK_CLOEXEC, protocol)
			return err
		})
		if err == nil {
			defer unix.Close(fd)
			add := addFD{id: ask.id, srcFD: uint32(fd)}
			if kind&unix.SOCK_CLOEXEC != 0 {
				add.fdFlags = unix.O_CLOEXEC
			}
			var theirs uintptr
			if theirs, err = ioctl(listener, ioctlAddFD, unsafe.Pointer(&add)); err == nil {
				done := answer{id: ask.id, val: int64(theirs)}
				_, _ = ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&done))
				return
			}
		}
	}
	errno := unix.EPERM
	_ = errors.As(err, &errno)
	_, _ = ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer{id: ask.id, error: -int32(errno)}))
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) (uintptr, error) {
	for {
		out, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		if errno == 0 {
			return out, nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}
