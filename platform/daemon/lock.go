package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrTaken reports that another daemon runs in this network namespace.
var ErrTaken = errors.New("in use by another daemon")

// lockTimeout is how long a killed daemon may take to end: the kernel releases its locks some time after kill -9
// returns.
const lockTimeout = time.Second

// NamespaceLock excludes a second daemon from a network namespace (docs/architecture.md, law 5). It is released when
// the process ends, however that happens.
type NamespaceLock struct {
	file *os.File     // nil without a file
	path string       // of file
	name net.Listener // nil if another process has the name
}

// LockNamespace acquires the lock of the process's network namespace: a file named after the namespace in a folder
// that only root can write, and the abstract socket that older releases use. It returns ErrTaken if a daemon of root
// holds either.
//
// Any program in the namespace can bind an abstract name. If a program that is not root's has bound this one, that is
// a warning and not an error.
func LockNamespace(ctx context.Context, folder, socket string) (l *NamespaceLock, warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	l = &NamespaceLock{}
	switch err := l.acquireFile(ctx, folder); {
	case errors.Is(err, ErrTaken) || errors.Is(err, context.Canceled):
		return nil, nil, err
	case err != nil: // the abstract name remains as a lock
		warnings = append(warnings, "cannot lock the network namespace: "+err.Error())
	}
	warning, err := l.acquireName(ctx, socket)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	if warning != "" {
		warnings = append(warnings, warning)
	}
	return l, warnings, nil
}

func (l *NamespaceLock) acquireFile(ctx context.Context, folder string) error {
	var ns, dir unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &ns); err != nil {
		return fmt.Errorf("identify the namespace: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := unix.Lstat(folder, &dir); err != nil {
		return fmt.Errorf("look at %s: %w", folder, err)
	}
	if int(dir.Uid) != os.Geteuid() || dir.Mode&unix.S_IFMT != unix.S_IFDIR || dir.Mode&0o022 != 0 {
		return fmt.Errorf("%s is of uid %d with mode %o: others must not be able to write there", folder, dir.Uid,
			dir.Mode&0o7777)
	}
	path := filepath.Join(folder, fmt.Sprintf("netns-%d-%d.lock", ns.Dev, ns.Ino))
	for {
		file, err := lockFile(path)
		switch {
		case err == nil:
			l.file, l.path = file, path
			sweepLocks(folder, path)
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return ErrTaken
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// lockFile creates and locks a file. A daemon removes its file when it ends, so a file that is locked after a wait may
// have lost its name.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	owned, err := file.Stat()
	if now, err2 := os.Lstat(path); err == nil && err2 == nil && os.SameFile(owned, now) {
		return file, nil
	}
	return nil, errors.Join(unix.EWOULDBLOCK, err, file.Close())
}

// sweepLocks removes the lock files that killed daemons of other namespaces left.
func sweepLocks(folder, owned string) {
	left, _ := filepath.Glob(filepath.Join(folder, "netns-*.lock"))
	for _, path := range left {
		if path == owned {
			continue
		}
		if file, err := lockFile(path); err == nil {
			_ = os.Remove(path)
			_ = file.Close()
		}
	}
}

func (l *NamespaceLock) acquireName(ctx context.Context, socket string) (warning string, err error) {
	var lc net.ListenConfig
	for own := false; ; {
		l.name, err = lc.Listen(context.WithoutCancel(ctx), "unix", socket)
		if err == nil {
			return "", nil
		}
		l.name = nil
		if !errors.Is(err, syscall.EADDRINUSE) {
			return "", fmt.Errorf("listen on %s: %w", socket, err)
		}
		uid, known := holder(ctx, socket)
		own = own || known
		if known && uid != 0 && uid != os.Geteuid() {
			return fmt.Sprintf("uid %d holds the name %s, which belongs to the daemon: ignored", uid, socket), nil
		}
		select {
		case <-ctx.Done():
			switch {
			case errors.Is(ctx.Err(), context.Canceled):
				return "", ctx.Err()
			case own || l.file == nil:
				return "", ErrTaken
			}
			return "an unidentified process holds the name " + socket + ", which belongs to the daemon: ignored", nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// holder returns the user that listens on a name (SO_PEERCRED: as of its listen(2)). It is unknown if the socket is
// only bound, or refuses connections.
func holder(ctx context.Context, socket string) (uid int, known bool) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, false
	}
	defer func() { _ = c.Close() }()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, false
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid, known = int(cred.Uid), true
		}
	})
	return uid, known
}

// Close releases the lock.
func (l *NamespaceLock) Close() error {
	var err error
	if l.name != nil {
		err = l.name.Close()
	}
	if l.file != nil {
		err = errors.Join(err, os.Remove(l.path), l.file.Close())
	}
	return err
}
