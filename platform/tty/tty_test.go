package tty

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// open returns both ends of a new terminal.
func open(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals: %v", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals: %v", err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return screen, terminal
}

func TestSize(t *testing.T) {
	screen, terminal := open(t)
	if _, _, ok := Size(terminal); ok || !Is(terminal) {
		t.Error("a terminal without a size has one, or is none")
	}
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	if w, h, ok := Size(terminal); w != 80 || h != 24 || !ok {
		t.Errorf("%d x %d, %v", w, h, ok)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, _, ok := Size(null); ok || Is(null) {
		t.Error("the null device is a terminal")
	}
}
