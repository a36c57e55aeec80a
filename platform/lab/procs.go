package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// endDeadline is how long a killed process may take to end.
const endDeadline = 5 * time.Second

// endProcesses kills the processes in the namespace at path, and returns when they have ended. A pid may belong to
// another process by the time of the kill, so a pidfd holds the process and its namespace is checked again first.
func endProcesses(ctx context.Context, path string) error {
	var want unix.Stat_t
	if err := unix.Stat(path, &want); err != nil {
		return fmt.Errorf("look at namespace %s: %w", path, err)
	}
	// A process that was forked while /proc was read is in the next listing: repeat until the listing is empty.
	for range passes {
		ended, err := endListed(ctx, path, want)
		if err != nil || ended == 0 {
			return err
		}
	}
	return fmt.Errorf("end processes of namespace %s: new ones come after %d rounds", filepath.Base(path), passes)
}

// passes is the maximum number of listings; processes that fork are ended in the first one.
const passes = 10

// endListed ends the processes of one listing and returns their number.
func endListed(ctx context.Context, path string, want unix.Stat_t) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	ended := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !lives(pid, want) {
			continue
		}
		if err := endProcess(ctx, pid, want); err != nil {
			return ended, fmt.Errorf("end process %d of namespace %s: %w", pid, filepath.Base(path), err)
		}
		ended++
	}
	return ended, nil
}

func lives(pid int, ns unix.Stat_t) bool {
	var got unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &got) == nil && got.Dev == ns.Dev && got.Ino == ns.Ino
}

func endProcess(ctx context.Context, pid int, ns unix.Stat_t) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	if !lives(pid, ns) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for deadline := time.Now().Add(endDeadline); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("still there %s after SIGKILL", endDeadline)
		}
	}
}

// inside runs fn on a thread in a namespace of the lab. A socket that fn opens remains in that namespace and can be
// used from any thread afterwards; the thread is discarded.
func (l *Lab) inside(short string, fn func() error) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		// The main thread can't end, and /proc/self would show its namespace as the process's. While it is locked here, the
		// next goroutine gets another thread.
		if unix.Gettid() == unix.Getpid() {
			err := l.inside(short, fn)
			runtime.UnlockOSThread()
			ended <- err
			return
		}
		ended <- enter(l.NS(short), fn)
	}()
	return <-ended
}

func enter(ns string, fn func() error) error {
	h, err := netns.GetFromName(ns)
	if err != nil {
		return fmt.Errorf("open namespace %s: %w", ns, err)
	}
	defer func() { _ = h.Close() }() // only read
	if err := netns.Set(h); err != nil {
		return fmt.Errorf("enter namespace %s: %w", ns, err)
	}
	return fn()
}
