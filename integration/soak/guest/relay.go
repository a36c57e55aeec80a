package guest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// relayMain is a virtual machine in place of one: it has the node's tap device open, as a hypervisor does, and passes
// frames between it and a tap device in a namespace, with the same MAC, in which the client of the app runs.
func relayMain(hostTap, namespace, link, mac string) error {
	inner, err := TapIn(namespace, link)
	if err != nil {
		return err
	}
	if err := Command("ip", "-n", namespace, "link", "set", link, "address", mac, "up"); err != nil {
		return err
	}
	for { // the node makes its device, and may make it again
		// To open one that does not exist would make it, in the node's place.
		_, err := net.InterfaceByName(hostTap)
		var outer *os.File
		if err == nil {
			outer, err = openTap(hostTap)
		}
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		done := make(chan struct{}, 2)
		go func() { pass(inner, outer); done <- struct{}{} }()
		go func() { pass(outer, inner); done <- struct{}{} }()
		<-done
		_ = outer.Close()
		<-done
	}
}

// pass ends when one of both does not take or give frames any more. A read of the inner end is given up after a
// second, so that it ends with the outer one.
func pass(from, to *os.File) {
	frame := make([]byte, 1<<16)
	for {
		_ = from.SetReadDeadline(time.Now().Add(time.Second))
		n, err := from.Read(frame)
		if os.IsTimeout(err) {
			if _, err := to.Stat(); err != nil {
				return // closed
			}
			continue
		}
		if err != nil {
			return
		}
		if _, err := to.Write(frame[:n]); errors.Is(err, os.ErrClosed) {
			return // any other error is a frame that is lost, as of a device that is down
		}
	}
}

// openTap opens a tap device that exists, or makes one.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open tap %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// TapIn makes a tap device in a namespace.
func TapIn(namespace, name string) (*os.File, error) {
	runtime.LockOSThread() // it ends with the goroutine, or goes back
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer own.Close()
	other, err := os.Open("/run/netns/" + namespace)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter %s: %w", namespace, err)
	}
	tap, err := openTap(name)
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(err) // the thread must not go on elsewhere
	}
	return tap, err
}

// Command runs a command that must succeed.
func Command(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil { // #nosec G204 -- our own words
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return nil
}

func deadlineSoon() time.Time { return time.Now().Add(200 * time.Millisecond) }
