package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"edgespan/netinst/netstate"

	"golang.org/x/sys/unix"
)

const (
	// openTimeout limits the opening of a namespace: a path may lie on a file system that does not answer, and open(2)
	// can't be interrupted there.
	openTimeout = time.Second
	// maxHung bounds the hung openings, each of which holds a thread. Names and paths are counted separately, so that
	// hung paths can't prevent names from being opened.
	maxHung = 16
)

// netnsOpener opens the network namespaces of apps by untrusted names and paths. It opens each path at most once at a
// time.
type netnsOpener struct {
	dir  string
	own  unix.Stat_t // the namespace edgespan works in
	open func(path string) (*os.File, error)

	mu      sync.Mutex
	pending map[string]*opening
}

// opening is an opening in progress.
type opening struct {
	began time.Time
	named bool
	done  chan struct{}
	file  *os.File // nil once a caller has taken it
	err   error
	left  bool // no caller waits for it
}

func newNetnsOpener(ownPath string) (*netnsOpener, error) {
	if ownPath == "" {
		ownPath = "/proc/thread-self/ns/net"
	}
	o := &netnsOpener{dir: "/run/netns", pending: map[string]*opening{}}
	if err := unix.Stat(ownPath, &o.own); err != nil {
		return nil, fmt.Errorf("find own namespace: %w", err)
	}
	o.open = o.openPath
	return o, nil
}

// path returns the path of a namespace: a name lies below /run/netns.
func (o *netnsOpener) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(o.dir, name)
}

// openNetns opens the namespace of an app. Its error wraps netstate.ErrWaiting if the namespace does not exist yet.
func (k *Kernel) openNetns(ctx context.Context, name string) (*os.File, error) {
	f, err := k.netns.get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", name, err)
	}
	return f, nil
}

func (o *netnsOpener) get(ctx context.Context, name string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	path := o.path(name)
	for {
		owned, others, err := o.begin(path, !filepath.IsAbs(name))
		if err != nil {
			return nil, err
		}
		if owned == nil { // another caller opens it: ready in a moment
			select {
			case <-others:
				continue
			case <-ctx.Done():
				return nil, errHung
			}
		}
		select {
		case <-owned.done:
			return owned.file, owned.err
		case <-ctx.Done():
			return nil, o.leave(owned)
		}
	}
}

var errHung = fmt.Errorf("timed out after %v: its file system does not answer", openTimeout)

// begin starts an opening, or returns the channel that ends the one in progress. It does not wait for a hung opening,
// and starts none while too many hang.
func (o *netnsOpener) begin(path string, named bool) (owned *opening, others <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if p := o.pending[path]; p != nil {
		if now.Sub(p.began) >= openTimeout {
			return nil, nil, errHung
		}
		return nil, p.done, nil
	}
	hung := 0
	for _, p := range o.pending {
		if p.named == named && now.Sub(p.began) >= openTimeout {
			hung++
		}
	}
	if hung >= maxHung {
		return nil, nil, fmt.Errorf("not tried: %d other lookups are pending", hung)
	}
	p := &opening{began: now, named: named, done: make(chan struct{})}
	o.pending[path] = p
	go func() {
		f, err := o.open(path)
		o.mu.Lock()
		defer o.mu.Unlock()
		if delete(o.pending, path); p.left {
			if f != nil {
				f.Close()
			}
		} else {
			p.file, p.err = f, err
		}
		close(p.done)
	}()
	return p, nil, nil
}

// leave abandons an opening and closes the file if it opens later.
func (o *netnsOpener) leave(p *opening) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.left = true; p.file != nil {
		p.file.Close()
	}
	return errHung
}

// nsFile identifies a namespace: no other one of the machine that exists has the same.
type nsFile struct{ device, inode uint64 }

// at returns what is at a name, without opening it. It takes no path and follows no link, which could lead to a file
// system that does not answer.
func (o *netnsOpener) at(name string) (nsFile, error) {
	if filepath.IsAbs(name) {
		return nsFile{}, errors.New("a path")
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, o.path(name),
		&unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nsFile{}, err
	}
	defer unix.Close(fd)
	return fileAt(fd)
}

func fileAt(fd int) (nsFile, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return nsFile{st.Dev, st.Ino}, err
}

// missing returns what an opening waits for. Watch reports names in the folder, and namespaces that are mounted there,
// but neither the target of a symbolic link nor other folders.
func (o *netnsOpener) missing(path string) error {
	st, err := os.Lstat(path)
	watched := errors.Is(err, os.ErrNotExist) || err == nil && st.Mode().IsRegular()
	if !watched || filepath.Dir(path) != filepath.Clean(o.dir) {
		return netstate.ErrWaiting
	}
	return netstate.ErrAnnounced
}

// openPath opens a namespace and nothing else. It examines the object at the path before it opens it for good: opening
// a FIFO waits for a writer, and opening a device can have any effect.
//
// `ip netns add` creates an empty file first and mounts the namespace over it later, so a plain file is a namespace
// that does not exist yet.
//
// It refuses a path through the magic links of /proc: the kernel reuses a process number once the process has ended
// (proc(5)), and the app's link would then go to another process.
func (o *netnsOpener) openPath(path string) (*os.File, error) {
	at, err := unix.Openat2(unix.AT_FDCWD, path,
		&unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("it does not exist: %w", o.missing(path))
	case errors.Is(err, unix.ELOOP):
		return nil, errors.New("path leads through /proc, where process numbers are reused, or is a loop of links: give " +
			"the namespace a name (ip netns attach NAME PID)")
	case err != nil:
		return nil, err
	}
	defer unix.Close(at)
	var fs unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Fstatfs(at, &fs), unix.Fstat(at, &st)); err != nil {
		return nil, err
	}
	switch {
	case fs.Type == unix.NSFS_MAGIC:
	case st.Mode&unix.S_IFMT == unix.S_IFREG && fs.Type != unix.PROC_SUPER_MAGIC:
		return nil, fmt.Errorf("it is not mounted: %w", o.missing(path))
	default:
		return nil, errors.New("not a network namespace")
	}
	if st.Dev == o.own.Dev && st.Ino == o.own.Ino {
		return nil, errors.New("the node's own network namespace: must be an app's")
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		unix.Close(fd)
		return nil, errors.New("not a network namespace, but another kind")
	}
	return os.NewFile(uintptr(fd), path), nil
}
