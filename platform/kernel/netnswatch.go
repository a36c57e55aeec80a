package kernel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// namesPace is the interval, in milliseconds, at which names are polled without an inotify.
const namesPace = 1000

// inotify opens an inotify instance.
func inotify() (fd int, err error) { return unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK) }

// watchNetns sends changes when a network namespace appears or goes, until ctx ends. A name appears before its
// namespace is mounted over it, and inotify reports only the name; poll(2) on /proc/self/mountinfo reports the mount. A
// user has 128 inotify instances (fs.inotify.max_user_instances); when none is left, the names are polled once a
// second.
func watchNetns(ctx context.Context, dir string, open func() (int, error), in chan<- changes) error {
	ino, timeout, err := watchNames(dir, open)
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
			_, _ = unix.InotifyAddWatch(ino, dir, namesMask) // adding it twice is no error
			if now := fingerprint(dir); now != seen {
				seen = now
				select {
				case in <- changes{netns: true}:
				case <-ctx.Done():
					return
				}
			}
			fds := []unix.PollFd{
				{Fd: int32(ino), Events: unix.POLLIN},
				{Fd: int32(mounts.Fd()), Events: unix.POLLPRI},
				{Fd: int32(wake[0]), Events: unix.POLLIN},
			}
			if _, err := unix.Poll(fds, timeout); err != nil && !errors.Is(err, unix.EINTR) {
				select {
				case in <- changes{err: fmt.Errorf("watch namespaces: %w", err)}:
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

// namesMask lists the inotify events of a folder of names.
const namesMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_ONLYDIR

// watchNames returns the inotify descriptor and the poll(2) timeout in milliseconds. Without an inotify the descriptor
// is negative, and poll ignores it.
func watchNames(dir string, open func() (int, error)) (ino, timeout int, err error) {
	if ino, err = open(); err != nil {
		return -1, namesPace, nil
	}
	// The first `ip netns add` creates the folder: until then watch its parent.
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

// fingerprint changes when a namespace is mounted or unmounted anywhere, or when a name in the folder appears, goes or
// refers to another namespace.
//
// Without an inotify it runs every second over one line of mountinfo per namespace, so it allocates no strings.
func fingerprint(dir string) uint64 {
	h := fnv.New64a()
	if f, err := os.Open("/proc/self/mountinfo"); err == nil {
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if bytes.Contains(lines.Bytes(), []byte(" - nsfs ")) {
				_, _ = h.Write(lines.Bytes())
			}
		}
		f.Close()
	}
	folder, err := os.Open(dir)
	if err != nil {
		return h.Sum64()
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	slices.Sort(names)
	var b []byte
	for _, name := range names {
		var st unix.Stat_t
		_ = unix.Fstatat(int(folder.Fd()), name, &st, 0)
		b = append(append(b[:0], name...), 0)
		b = binary.NativeEndian.AppendUint64(b, st.Dev)
		b = binary.NativeEndian.AppendUint64(b, st.Ino)
		_, _ = h.Write(b)
	}
	return h.Sum64()
}
