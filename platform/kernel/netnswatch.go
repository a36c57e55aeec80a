package kernel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// namesPace is how often, in milliseconds, the names are looked at without an inotify.
const namesPace = 1000

// inotify opens one.
func inotify() (fd int, err error) { return unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK) }

// watchNetns sends news when a network namespace appears or goes, until ctx ends.
// A name appears before its namespace is mounted over it, and inotify tells only
// of the name; poll(2) on /proc/self/mountinfo tells of the mount. A user has 128
// inotify instances (fs.inotify.max_user_instances) and each dnsmasq takes one: where
// none is left, the names are looked at once a second.
func watchNetns(ctx context.Context, dir string, open func() (int, error), in chan<- news) error {
	ino, patience, err := watchNames(dir, open)
	mounts, merr := os.Open("/proc/self/mountinfo")
	var wake [2]int
	perr := unix.Pipe2(wake[:], unix.O_CLOEXEC)
	if err := errors.Join(err, merr, perr); err != nil {
		unix.Close(ino)
		if merr == nil {
			mounts.Close()
		}
		return fmt.Errorf("watch namespaces: %w", err)
	}
	seen := fingerprint(dir)
	stop := context.AfterFunc(ctx, func() { unix.Close(wake[1]) })
	go func() {
		defer func() {
			mounts.Close()
			unix.Close(ino)
			unix.Close(wake[0])
			if stop() {
				unix.Close(wake[1])
			}
		}()
		for {
			_, _ = unix.InotifyAddWatch(ino, dir, namesMask) // again is no error
			if now := fingerprint(dir); now != seen {
				seen = now
				select {
				case in <- news{netns: true}:
				case <-ctx.Done():
					return
				}
			}
			fds := []unix.PollFd{
				{Fd: int32(ino), Events: unix.POLLIN},
				{Fd: int32(mounts.Fd()), Events: unix.POLLPRI},
				{Fd: int32(wake[0]), Events: unix.POLLIN},
			}
			if _, err := unix.Poll(fds, patience); err != nil && !errors.Is(err, unix.EINTR) {
				select {
				case in <- news{err: fmt.Errorf("watch namespaces: %w", err)}:
				case <-ctx.Done():
				}
				return
			}
			if fds[2].Revents != 0 {
				return
			}
			drain(ino)
		}
	}()
	return nil
}

// namesMask is what a folder of names is watched for.
const namesMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_ONLYDIR

// watchNames gives the inotify and how long, in milliseconds, poll(2) may wait for it:
// where there is none, a negative descriptor, which poll passes over.
func watchNames(dir string, open func() (int, error)) (ino, patience int, err error) {
	if ino, err = open(); err != nil {
		return -1, namesPace, nil
	}
	// The folder is made by the first `ip netns add`: until then its parent tells.
	_, err = unix.InotifyAddWatch(ino, filepath.Dir(dir), namesMask)
	return ino, -1, err
}

func drain(fd int) {
	var b [4096]byte
	for {
		if n, err := unix.Read(fd, b[:]); n <= 0 || err != nil {
			return
		}
	}
}

// fingerprint changes when a namespace is mounted or unmounted anywhere, or a
// name in the folder comes, goes or means another namespace.
func fingerprint(dir string) uint64 {
	h := fnv.New64a()
	if f, err := os.Open("/proc/self/mountinfo"); err == nil {
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if strings.Contains(lines.Text(), " - nsfs ") {
				fmt.Fprintln(h, lines.Text())
			}
		}
		f.Close()
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		var st unix.Stat_t
		_ = unix.Stat(filepath.Join(dir, e.Name()), &st)
		fmt.Fprintln(h, e.Name(), st.Dev, st.Ino)
	}
	return h.Sum64()
}
