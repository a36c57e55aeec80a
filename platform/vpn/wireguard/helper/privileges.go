package helper

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kept are the capabilities that remain: to mark a new socket, which another port or a link that was down needs, and to
// bind it to a port below 1024.
var kept = []uint{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE}

// dropPrivileges makes the process the user User, if there is one, and keeps no capability but these.
func dropPrivileges() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if u, err := user.Lookup(User); err == nil {
		if err := become(u); err != nil {
			return err
		}
	}
	var data [2]unix.CapUserData
	for _, c := range kept {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
		uintptr(unsafe.Pointer(&data[0])), 0)
	return threads("capabilities", errno)
}

func become(u *user.User) error {
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0)
	if errno == syscall.ENOTSUP {
		return nil // see threads
	}
	if err := threads("keep capabilities", errno); err != nil {
		return err
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid))
}

// threads is the error of a call in all threads. A program with C, such as one with the race detector, can't make it;
// none that ships has C.
func threads(what string, errno syscall.Errno) error {
	if errno == 0 || errno == syscall.ENOTSUP {
		return nil
	}
	return fmt.Errorf("%s: %w", what, errno)
}
