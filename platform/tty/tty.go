// Package tty reads the size of a terminal, and makes terminals for tests. It never changes how a terminal works.
package tty

import (
	"os"

	"golang.org/x/sys/unix"
)

// Size returns the columns and lines of the terminal that a file is, false if it is none or does not know.
func Size(f *os.File) (width, height int, ok bool) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 0, 0, false
	}
	return int(w.Col), int(w.Row), true
}

// Is reports whether a file is a terminal.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
