package ipsec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"edgespan/platform/proc"
)

// A charon, and whatever else runs as its user, can put anything into its folder own under any name. So what is there
// is opened without following links, and no secret goes to a socket before it is known whose that is.

// makeOwn makes the folder in which a charon writes, anew: whatever it has put there, by whatever name, is gone.
func makeOwn(folder string, u *proc.User) error {
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700)); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	log := filepath.Join(folder, filepath.Base(logFile))
	if err := writeFile(log, nil); err != nil { // with the right mode
		return fmt.Errorf("make log: %w", err)
	}
	if u == nil {
		return nil
	}
	for _, path := range []string{log, folder} {
		if err := os.Lchown(path, int(u.UID), int(u.GID)); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	return nil
}

// openOwn opens a file in the folder of a charon, which may be hostile: no link leads elsewhere, and no pipe waits.
func openOwn(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s: must be a regular file", path), f.Close())
	}
	return f, nil
}

// errForeign is why a control socket is not used: secrets that it is sent would reach another program.
var errForeign = errors.New("the control socket of charon is not charon's own")

// dialOwn connects to the control socket in the folder of a charon. It follows no link, and refuses with errForeign
// what is no socket or is one that another process than that charon listens at, also another charon.
func dialOwn(ctx context.Context, path string, charon proc.Ident) (net.Conn, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the control socket of charon: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at the control socket of charon: %w", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
	case unix.S_IFLNK:
		return nil, fmt.Errorf("%w: it is a link", errForeign)
	default:
		return nil, fmt.Errorf("%w: it is no socket", errForeign)
	}
	// By its descriptor it is the one that was looked at, whatever has the name by now.
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // without the name, which says nothing
		}
		return nil, fmt.Errorf("connect to the control socket of charon: %w", err)
	}
	if err := listensAt(conn, charon); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// listensAt returns errForeign unless a process listens at the other end of a connection. The kernel keeps the id of
// the one that has called listen(2).
func listensAt(conn net.Conn, charon proc.Ident) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return fmt.Errorf("find out whose the control socket of charon is: %w", err)
	}
	var cred *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) {
		cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, asked); err != nil {
		return fmt.Errorf("find out whose the control socket of charon is: %w", err)
	}
	if int(cred.Pid) != charon.Pid {
		return fmt.Errorf("%w: process %d listens there, charon is process %d", errForeign, cred.Pid, charon.Pid)
	}
	if !charon.Alive() { // and another process may have its id
		return errors.New("charon has ended")
	}
	return nil
}
