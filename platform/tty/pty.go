package tty

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open returns both ends of a new terminal (pts(4)): what a program writes to the terminal is read from the screen, and
// what is written to the screen is what a person types. It is for tests of programs that need one.
func Open(width, height int) (screen, terminal *os.File, err error) {
	screen, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	fail := func(err error) (*os.File, *os.File, error) {
		return nil, nil, errors.Join(fmt.Errorf("open a terminal: %w", err), screen.Close())
	}
	raw, err := screen.SyscallConn() // File.Fd would make reads of it impossible to interrupt
	if err != nil {
		return fail(err)
	}
	var n int
	var unlock, number, sizing error
	err = raw.Control(func(fd uintptr) {
		unlock = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		n, number = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		size := &unix.Winsize{Row: uint16(height), Col: uint16(width)}
		sizing = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size)
	})
	if err := errors.Join(err, unlock, number, sizing); err != nil {
		return fail(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fail(err)
	}
	return screen, terminal, nil
}
