package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// In calls f with the calling thread in the network namespace at path, or in the current one if path is "". Processes
// that f forks and files that it opens below /proc/sys/net belong to that namespace.
func In(path string, f func() error) error {
	if path == "" {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- fmt.Errorf("open own namespace: %w", err)
			return
		}
		defer home.Close()
		if err := enter(path); err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		err = f()
		// A thread that can't return remains locked, so the runtime ends it with this goroutine and no other code runs in
		// the wrong namespace.
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

func enter(path string) error {
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open namespace: %w", err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", path, err)
	}
	return nil
}

// SetIn writes a file of /proc/sys as a network namespace has it (In). A missing one is no error, as a kernel may lack
// IPv6.
func SetIn(netnsPath, file, value string) error {
	err := In(netnsPath, func() error { return os.WriteFile(file, []byte(value), 0o644) })
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
