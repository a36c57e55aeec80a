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
	// openTimeout is how long the opening of a namespace may take: a path may lie on a file
	// system that does not answer, and open(2) there can't be ended.
	openTimeout = time.Second
	// maxHung bounds the openings that did not end, each of which holds a thread: of names,
	// and of paths, so that these can't keep the names from being opened.
	maxHung = 16
)

// netnsOpener opens the network namespaces of apps, by names and paths that may be anything.
// One path is opened once at a time.
type netnsOpener struct {
	dir  string
	own  unix.Stat_t // the namespace that we work in
	open func(path string) (*os.File, error)

	mu      sync.Mutex
	pending map[string]*opening
}

// opening is one that has not ended yet.
type opening struct {
	began time.Time
	named bool
	done  chan struct{}
	file  *os.File // nil once somebody has it
	err   error
	left  bool // nobody waits for it
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

// path is where a namespace is found: a name lies below /run/netns.
func (o *netnsOpener) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(o.dir, name)
}

// openNetns opens the namespace of an app. Its error wraps netstate.ErrWaiting where the
// namespace is still to come.
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
		if owned == nil { // somebody opens it now: in a moment we can
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

// begin starts an opening, or gives the end of the one that is under way. One that hangs is
// not waited for, and none is begun where too many do.
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

// leave gives an opening up, and closes what it may have opened meanwhile.
func (o *netnsOpener) leave(p *opening) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.left = true; p.file != nil {
		p.file.Close()
	}
	return errHung
}

// openPath opens a namespace and nothing else: what is at a path is looked at before it is
// opened for good, since opening a FIFO waits for its writer and a device may do anything.
//
// `ip netns add` makes an empty file first and mounts the namespace over it later, so a plain
// file is a namespace still to come.
//
// A path through the magic links of /proc is refused: a process's number is another's once it
// has ended (proc(5)), and the app's link would go to whoever that is.
func (o *netnsOpener) openPath(path string) (*os.File, error) {
	at, err := unix.Openat2(unix.AT_FDCWD, path,
		&unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("it does not exist: %w", netstate.ErrWaiting)
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
		return nil, fmt.Errorf("it is not mounted: %w", netstate.ErrWaiting)
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
